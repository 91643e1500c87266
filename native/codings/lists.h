/* Values that are lists: a head, the number of elements, and the elements. */
#ifndef SPARKHAVEN_LISTS_H
#define SPARKHAVEN_LISTS_H

#include "bytes/bytes.h"

#include <string.h>

/* Where the elements of each list begin, of lists with a head of `size` bytes; returns how many elements there are, or
 * -1 where a list has another head, or fewer bytes than elements. */
static inline int64_t list_starts(const int64_t *ends, int64_t count, const uint8_t *data, int64_t bytes,
                                  const char *head, int64_t size, int32_t *starts, uint8_t *valid) {
    int64_t total = 0, front = size + (int64_t)sizeof(uint32_t);
    starts[0] = 0;
    memset(valid, 0, (size_t)((count + 7) / 8));
    for (int64_t i = 0; i < count; i++) {
        int64_t low = ends[i], high = ends[i + 1];
        if (low < 0 || high < low || high > bytes) {
            return -1;
        }
        if (high > low) {
            uint32_t stored;
            if (high - low < front || memcmp(data + low, head, (size_t)size) != 0) {
                return -1;
            }
            memcpy(&stored, data + low + size, sizeof stored);
            int64_t length = __builtin_bswap32(stored);
            if (length > high - low - front || total + length > INT32_MAX) {
                return -1;
            }
            total += length;
            valid[i >> 3] |= (uint8_t)(1 << (i & 7));
        }
        starts[i + 1] = (int32_t)total;
    }
    return total;
}

#endif
