/* Fields of CSV records to columns. */
#ifndef SPARKHAVEN_CSV_VALUES_H
#define SPARKHAVEN_CSV_VALUES_H

#include "scan/scan.h"

/* The value of a field, or null; 0 in doubt. `end` is how far may be read. */
struct sh_field {
    const uint8_t *start, *stop; /* its content, without the quotes around it */
    int quoted, doubled;         /* doubled: it has quotes inside, each written twice */
    int64_t lead;                /* largest first byte of a character that is no ASCII, or 0 */
};
int sh_csv_value(const struct sh_csv *csv, struct sh_column *column, int64_t row, const struct sh_field *field,
                 const uint8_t *end);

#endif
