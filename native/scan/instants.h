/* ISO times. */
#ifndef SPARKHAVEN_INSTANTS_H
#define SPARKHAVEN_INSTANTS_H

#include "scan/scan.h"

#define SH_NO_INSTANT INT64_MIN

/* Days since 1970 of the ten bytes of a date of the years 1 to 9999, SH_NO_INSTANT if in doubt. */
int64_t sh_day(struct sh_scan *scan, const uint8_t *p);

/* The time of the day at p, `13:30`, `13:30:00` or with up to nine digits more, in ns. Returns where it ended, NULL in
 * doubt. */
const uint8_t *sh_clock(const uint8_t *p, const uint8_t *end, int64_t *clock);

/* The ISO time that the text at p begins with, in a column of SH_ISO. Returns where it ended, NULL in doubt. */
const uint8_t *sh_put_instant(struct sh_scan *scan, struct sh_column *column, int64_t row, const uint8_t *p,
                              const uint8_t *end);

#endif
