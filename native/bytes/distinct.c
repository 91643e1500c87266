/* Whether texts differ: few by comparing all pairs, more by a hash table. */
#include "bytes/distinct.h"
#include "bytes/hash.h"

enum { FEW = 16 };

static inline int same_text(const int32_t *ends, const uint8_t *data, int64_t one, int64_t other) {
    int64_t begin = ends[one], length = ends[one + 1] - begin, from = ends[other];
    return ends[other + 1] - from == length && memcmp(data + begin, data + from, (size_t)length) == 0;
}

int sh_are_different(const int32_t *ends, const uint8_t *data, int64_t low, int64_t high, int32_t *slots) {
    if (high - low <= FEW) {
        for (int64_t i = low + 1; i < high; i++) {
            for (int64_t k = low; k < i; k++) {
                if (same_text(ends, data, i, k)) {
                    return 0;
                }
            }
        }
        return 1;
    }
    uint64_t mask = (UINT64_C(2) << (63 - __builtin_clzll((uint64_t)(2 * (high - low) - 1)))) - 1;
    memset(slots, 0xFF, (size_t)(mask + 1) * sizeof *slots);
    for (int64_t i = low; i < high; i++) {
        uint64_t slot = (uint64_t)sh_hash_text(0, data + ends[i], ends[i + 1] - ends[i]) & mask;
        for (; slots[slot] >= 0; slot = (slot + 1) & mask) {
            if (same_text(ends, data, i, slots[slot])) {
                return 0;
            }
        }
        slots[slot] = (int32_t)i;
    }
    return 1;
}
