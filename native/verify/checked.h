/* Entries of the files of a column, held against the bounds that statistics tell. */
#ifndef SPARKHAVEN_CHECKED_H
#define SPARKHAVEN_CHECKED_H

#include <stdint.h>

int64_t sh_within(int64_t kind, const void *entries, int64_t count, const void *bounds, int64_t *found);

#endif
