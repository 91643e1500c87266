/* Values into the buffers of a column. */
#ifndef SPARKHAVEN_COLUMNS_H
#define SPARKHAVEN_COLUMNS_H

#include "scan/numbers.h"
#include "scan/scan.h"

/* Null, and numbers as the kind of the column has them; 0 if it takes no such number. */
void sh_set_null(struct sh_column *column, int64_t row);
int sh_put_number(const struct sh_scan *scan, struct sh_column *column, int64_t row, const struct sh_number *number);

#endif
