/* Whether texts differ. */
#ifndef SPARKHAVEN_DISTINCT_H
#define SPARKHAVEN_DISTINCT_H

#include <stdint.h>

/* Whether the texts from number `low` to `high` differ, of which text k is data[ends[k]] to data[ends[k + 1]]. `numbers`
 * has room for twice as many. */
int sh_are_different(const int32_t *ends, const uint8_t *data, int64_t low, int64_t high, int32_t *numbers);

#endif
