/* Entries of fixed width in another order, window by window: the entries of a window stay in the processor's cache until
 * all of them are in their places. */
#include "bytes/bytes.h"
#include "merge/merge.h"

/* From an order to moves: entry origins[i] goes to place places[i]. Those of one window stand together, each window's
 * in the order of their places. windows[o >> shift] is the window of entry o, below `window_count`; starts has room for
 * as many. Returns count, -1 where an entry has no window. */
int64_t sh_plan_moves(const uint32_t *order, int64_t count, const uint16_t *windows, int64_t blocks, int64_t shift,
                      int64_t *starts, int64_t window_count, uint32_t *origins, uint32_t *places) {
    memset(starts, 0, (size_t)window_count * sizeof *starts);
    for (int64_t i = 0; i < count; i++) {
        int64_t block = (int64_t)(order[i] >> shift);
        if (UNLIKELY(block >= blocks || windows[block] >= window_count)) {
            return -1;
        }
        starts[windows[block]]++;
    }
    int64_t at = 0;
    for (int64_t i = 0; i < window_count; i++) {
        int64_t here = starts[i];
        starts[i] = at;
        at += here;
    }
    for (int64_t i = 0; i < count; i++) {
        int64_t to = starts[windows[order[i] >> shift]]++;
        origins[to] = order[i];
        places[to] = (uint32_t)i;
    }
    return count;
}

#define MOVED(bytes)                                                                                                   \
    for (int64_t i = 0; i < count; i++) {                                                                              \
        if (UNLIKELY(origins[i] >= (uint64_t)total || places[i] >= (uint64_t)room)) {                                  \
            return i;                                                                                                  \
        }                                                                                                              \
        memcpy((uint8_t *)out + places[i] * (uint64_t)(bytes),                                                         \
               (const uint8_t *)entries + origins[i] * (uint64_t)(bytes), bytes);                                      \
    }                                                                                                                  \
    return count

/* Moves entries, `total` of any width, to places in `out`, which has room for as many as `room`. Returns count; less
 * where an origin or a place is beyond that. */
int64_t sh_move(const void *entries, int64_t width, int64_t total, const uint32_t *origins, const uint32_t *places,
                int64_t count, void *out, int64_t room) {
    switch (width) { /* the compiler knows these */
    case 1:
        MOVED(1);
    case 2:
        MOVED(2);
    case 4:
        MOVED(4);
    case 8:
        MOVED(8);
    default:
        MOVED((size_t)width);
    }
}
