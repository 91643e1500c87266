/* Names of fields to numbers. */
#ifndef SPARKHAVEN_NAMES_H
#define SPARKHAVEN_NAMES_H

#include "scan/scan.h"

/* The number of a name in an object, -1 if there is no room for it. */
int64_t sh_name(struct sh_names *names, const uint8_t *p, int64_t length, const uint8_t *end, int64_t object);

#endif
