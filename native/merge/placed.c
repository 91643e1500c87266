/* Entries from files to their places, window by window: what is read of a window is summed, hashed and moved while the
 * processor's cache has it. */
#define _GNU_SOURCE /* pread */
#include <errno.h>
#include <unistd.h>

#include "bytes/bytes.h"
#include "bytes/crc.h"
#include "merge/merge.h"

enum { ID = 4 };

/* Whether all of it could be read. */
static int read_whole(int64_t file, uint8_t *to, int64_t size, int64_t offset) {
    while (size > 0) {
        ssize_t part = pread((int)file, to, (size_t)size, offset);
        if (part == 0 || (part < 0 && errno != EINTR)) {
            return 0;
        }
        int64_t more = part < 0 ? 0 : part;
        to += more;
        size -= more;
        offset += more;
    }
    return 1;
}

/* Puts ranks into the place of ids, and counts them. Whether each id is one of its table, or the null. */
static int set_ranks(const struct sh_ranked *ranked, int64_t source, uint8_t *ids, int64_t rows) {
    const uint32_t null = UINT32_C(1) << 31, last = (uint32_t)ranked->tables[source].entries - 1;
    const int32_t *ranks = ranked->tables[source].ranks;
    uint64_t kinds = (uint64_t)ranked->kinds - 1;
    int wrong = 0;
    for (int64_t i = 0; i < rows; i++, ids += ID) {
        uint32_t id;
        memcpy(&id, ids, ID);
        wrong |= (id >= last) & (id != null);
        int32_t rank = ranks[id < last ? id : last];
        memcpy(ids, &rank, ID);
        ranked->counts[(uint32_t)rank < kinds ? (uint32_t)rank : kinds]++;
    }
    return !wrong;
}

/* Where the moves end that belong to a window: they are in the order of the windows. */
static int64_t end_of(const struct sh_windows *of, const struct sh_moves *moves, int64_t window) {
    int64_t low = moves->done, high = moves->count;
    while (low < high) {
        int64_t middle = low + (high - low) / 2, block = (int64_t)(moves->origins[middle] >> of->shift);
        if (block < of->blocks && of->windows[block] <= window) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

#define PLACED(type)                                                                                                   \
    for (; i < end; i++) {                                                                                             \
        int64_t block = (int64_t)(origins[i] >> of->shift);                                                            \
        if (UNLIKELY(block >= of->blocks)) {                                                                           \
            break;                                                                                                     \
        }                                                                                                              \
        uint32_t row = origins[i] + of->shifts[block]; /* a shift may be less than nothing */                          \
        if (UNLIKELY(row >= rows || places[i] >= (uint64_t)moves->room)) {                                             \
            break;                                                                                                     \
        }                                                                                                              \
        memcpy(moves->out + (int64_t)places[i] * (int64_t)sizeof(type),                                                \
               entries + (int64_t)row * (int64_t)sizeof(type), sizeof(type));                                          \
    }                                                                                                                  \
    break

/* Moves the entries of a window. Whether all of them could be. */
static int place(const struct sh_windows *of, struct sh_moves *moves, int64_t window, const uint8_t *entries,
                 int64_t rows, int64_t width) {
    const uint32_t *origins = moves->origins, *places = moves->places;
    int64_t i = moves->done, end = end_of(of, moves, window);
    switch (width) {
    case 1:
        PLACED(uint8_t);
    case 2:
        PLACED(uint16_t);
    case 4:
        PLACED(uint32_t);
    case 8:
        PLACED(uint64_t);
    default:
        return 0;
    }
    moves->done = i;
    return i == end;
}

/* Reads and moves entries of `width` bytes. Each stretch is read once, and added to its checksum. Digested are they if
 * they are fixed; if they are ranked, ranks are moved in the place of ids. Returns how many digested ones are null, -1
 * where a stretch cannot be read or an id has no rank, -2 where there is no room, or no place for a move. */
int64_t sh_place_files(const struct sh_stretch *stretches, int64_t count, struct sh_moves *moves, int64_t move_count,
                       const struct sh_windows *windows, const struct sh_fixed *fixed, const struct sh_ranked *ranked,
                       int64_t width, uint8_t *scratch, int64_t room, uint32_t *sums, uint64_t *total) {
    int64_t nulls = 0;
    for (int64_t i = 0; i < count;) {
        int64_t window = stretches[i].window, rows = 0;
        for (; i < count && stretches[i].window == window; i++) {
            const struct sh_stretch *one = stretches + i;
            uint8_t *to = scratch + rows * width;
            if (one->rows < 0 || one->rows > room - rows) {
                return -2;
            }
            if (!read_whole(one->file, to, one->rows * width, one->offset)) {
                return -1;
            }
            sums[one->sum] = sh_crc(to, one->rows * width, sums[one->sum]);
            if (ranked != NULL && !set_ranks(ranked, one->source, to, one->rows)) {
                return -1;
            }
            rows += one->rows;
        }
        if (fixed != NULL) {
            nulls += sh_digest_fixed(fixed->prefix, fixed->kind, scratch, rows, fixed->null, NULL, total);
        }
        for (int64_t k = 0; k < move_count; k++) {
            if (!place(windows, moves + k, window, scratch, rows, width)) {
                return -2;
            }
        }
    }
    for (int64_t k = 0; k < move_count; k++) {
        if (moves[k].done != moves[k].count) {
            return -2;
        }
    }
    return nulls;
}
