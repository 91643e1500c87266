/* Sets of rows as lists of commands: a byte with the command and the size of its number, most significant byte first.
 * store/types/codings/row_set.py has the table. */
#include "codings/codings.h"
#include "codings/entries.h"

enum { OFFSET = 0x08, SHORTS = 0x10, OCTETS = 0x18, END = 0x20, SIZE_BITS = 7, SIZES = 5 };

static const uint8_t NUMBER_SIZE[SIZES] = {0, 2, 4, 8, 1};

/* Where the last distance led. */
struct walk {
    uint64_t position;
    int begun, was_last; /* whether that was the last row of a range */
};

static inline int64_t signed_at(const uint8_t *p, int64_t size) {
    uint64_t number = (p[0] & 0x80) != 0 ? ~UINT64_C(0) : 0;
    for (int64_t i = 0; i < size; i++) {
        number = number << BITS | p[i];
    }
    return (int64_t)number;
}

/* Whether a distance may follow; 0 also where a position may be beyond all rows. */
static inline int may_follow(struct walk *walk, int64_t distance) {
    int last = distance < 0;
    if (last ? !walk->begun || walk->was_last : distance == 0 && walk->begun) {
        return 0;
    }
    walk->position += last ? 0 - (uint64_t)distance : (uint64_t)distance;
    walk->begun = 1;
    walk->was_last = last;
    return walk->position <= INT64_MAX;
}

static int is_row_set(const uint8_t *p, const uint8_t *stop) {
    struct walk walk = {0, 0, 0};
    while (p < stop && *p != END) {
        int command = *p & ~SIZE_BITS, kind = *p & SIZE_BITS;
        if (kind == 0 || kind >= SIZES || command < OFFSET || command > OCTETS) {
            return 0;
        }
        int64_t size = NUMBER_SIZE[kind];
        if (stop - p <= size) {
            return 0;
        }
        int64_t number = signed_at(p + 1, size);
        p += 1 + size;
        if (command == OFFSET) {
            if (!may_follow(&walk, number)) {
                return 0;
            }
            continue;
        }
        int64_t width = command == SHORTS ? 2 : 1;
        if (number < 0 || number > (stop - p) / width) {
            return 0;
        }
        for (int64_t i = 0; i < number; i++, p += width) {
            if (!may_follow(&walk, signed_at(p, width))) {
                return 0;
            }
        }
    }
    return p < stop && p + 1 == stop;
}

int64_t sh_row_sets(const int32_t *starts, const uint8_t *valid, int64_t first, int64_t count, const uint8_t *data,
                    int64_t size, uint8_t *doubt) {
    int64_t doubts = 0;
    for (int64_t i = 0; i < count; i++) {
        int64_t low = starts[i], high = starts[i + 1];
        doubt[i] = is_valid(valid, first + i) && !(is_range(low, high, size) && is_row_set(data + low, data + high));
        doubts += doubt[i];
    }
    return doubts;
}
