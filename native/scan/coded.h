/* Texts and numbers of types whose values a codec makes bytes of. */
#ifndef SPARKHAVEN_CODED_H
#define SPARKHAVEN_CODED_H

#include "scan/scan.h"

/* The value that the text at p begins with, in a column of SH_DATE, SH_TIME or SH_DECIMAL. Returns where it ended, NULL
 * in doubt. */
const uint8_t *sh_put_coded(struct sh_scan *scan, struct sh_column *column, int64_t row, const uint8_t *p,
                            const uint8_t *end);

/* The number at p, as JSON has it, in a column of SH_DECIMAL. Returns where it ended, NULL in doubt. */
const uint8_t *sh_put_decimal(struct sh_column *column, int64_t row, const uint8_t *p, const uint8_t *end);

#endif
