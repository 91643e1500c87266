/* Entries of fixed width in another order. */
#include "bytes/bytes.h"
#include "merge/merge.h"

#define IN_ORDER(bytes)                                                                                                \
    for (int64_t i = 0; i < count; i++) {                                                                              \
        if (UNLIKELY(order[i] >= (uint64_t)total)) {                                                                   \
            return i;                                                                                                  \
        }                                                                                                              \
        memcpy((uint8_t *)out + i * (int64_t)(bytes), (const uint8_t *)entries + order[i] * (uint64_t)(bytes), bytes); \
    }                                                                                                                  \
    return count

/* Writes entry order[i] to place i, entries of any width. Returns count; less where an order is not below total. */
int64_t sh_gather(const void *entries, int64_t width, int64_t total, const uint32_t *order, int64_t count, void *out) {
    switch (width) { /* the compiler knows these */
    case 1:
        IN_ORDER(1);
    case 2:
        IN_ORDER(2);
    case 4:
        IN_ORDER(4);
    case 8:
        IN_ORDER(8);
    default:
        IN_ORDER((size_t)width);
    }
}

/* The same of ids, each looked up in a table; beyond it, as the null is, stands its last entry. */
int64_t sh_gather_ids(const uint32_t *ids, int64_t total, const uint32_t *order, int64_t count, const int32_t *table,
                      int64_t entries, int32_t *out) {
    uint64_t last = (uint64_t)entries - 1;
    for (int64_t i = 0; i < count; i++) {
        if (UNLIKELY(order[i] >= (uint64_t)total || entries < 1)) {
            return i;
        }
        uint64_t id = ids[order[i]];
        out[i] = table[id < last ? id : last];
    }
    return count;
}

/* Adds one to the count of each id; beyond the counts, as the null is, to the last. Returns how many ids there are, -1
 * without a count. */
int64_t sh_count_ids(const uint32_t *ids, int64_t total, int64_t *counts, int64_t entries) {
    if (entries < 1) {
        return -1;
    }
    uint64_t last = (uint64_t)entries - 1;
    for (int64_t i = 0; i < total; i++) {
        counts[ids[i] < last ? ids[i] : last]++;
    }
    return total;
}
