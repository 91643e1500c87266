/* ISO times. */
#ifndef SPARKHAVEN_INSTANTS_H
#define SPARKHAVEN_INSTANTS_H

#include "scan/scan.h"

#define SH_NO_INSTANT INT64_MIN

/* ns of an ISO time, SH_NO_INSTANT if in doubt; *local is set where it has no offset. */
int64_t sh_instant(struct sh_scan *scan, const uint8_t *p, const uint8_t *stop, int *local);

#endif
