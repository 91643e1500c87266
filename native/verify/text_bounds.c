/* Texts of the files of a column, held against the bounds that statistics tell. */
#include "verify/text_bounds.h"
#include "bytes/bytes.h"
#include "bytes/dispatch.h"

static int order_of(const uint8_t *one, int64_t one_length, const uint8_t *other, int64_t other_length) {
    int order = memcmp(one, other, (size_t)(one_length < other_length ? one_length : other_length));
    return order != 0 ? order : (one_length > other_length) - (one_length < other_length);
}

/* The first eight bytes of a text as a number that is ordered as they are; `end` is how far may be read. */
static inline uint64_t key_of(const uint8_t *p, int64_t length, const uint8_t *end) {
    return __builtin_bswap64(first_bytes(word_at(p, end), length));
}

/* What a text is compared with. First bytes, without the last bit, from `least` to `most` say by themselves that it is
 * within the bounds; `most` is -1 where none do. */
struct text_bounds {
    const uint8_t *low, *high;
    int64_t low_length, high_length;
    uint64_t least, most;
};

INLINE struct text_bounds bounds_of(const uint8_t *low, int64_t low_length, const uint8_t *high, int64_t high_length) {
    const uint64_t low_key = key_of(low, low_length, low + low_length);
    const uint64_t high_key = high_length < 0 ? UINT64_MAX : key_of(high, high_length, high + high_length);
    /* a text that begins as all of the lower bound is not below it; zeros at the end of a bound are none of the key */
    const int whole = low_length == 0 || (low_length <= 8 && low[low_length - 1] != 0);
    struct text_bounds found = {low,
                                high,
                                low_length,
                                high_length,
                                (low_key >> 1) + (!whole | (low_key & 1)),
                                high_length < 0 ? INT64_MAX : (high_key >> 1) - 1};
    return found;
}

INLINE int is_text_within(const uint8_t *p, int64_t length, const struct text_bounds *bounds) {
    length -= length == 1 && *p == 0;
    return order_of(p, length, bounds->low, bounds->low_length) >= 0 &&
           (bounds->high_length < 0 || order_of(p, length, bounds->high, bounds->high_length) <= 0);
}

enum { GROUP = 64 }; /* texts whose first bytes are compared without looking at the outcome of each */

/* Whether the first bytes of one of GROUP texts, without the last bit, are not between these; those of a text without
 * any do not count. */
INLINE int are_odd(const int32_t *at, const uint8_t *data, uint64_t least, uint64_t most) {
    uint64_t odd = 0;
    for (int64_t i = 0; i < GROUP; i++) {
        const uint64_t length = (uint64_t)(at[i + 1] - at[i]);
        uint64_t key;
        memcpy(&key, data + at[i], 8);
        key = (__builtin_bswap64(key) & ~(length < 8 ? UINT64_MAX >> 8 * length : 0)) >> 1;
        odd |= ((key - least) | (most - key)) & (0 - (uint64_t)(length != 0));
    }
    return odd >> 63 != 0;
}

INLINE int64_t texts_within(const int32_t *ends, int64_t count, const uint8_t *data, int64_t size, const uint8_t *low,
                            int64_t low_length, const uint8_t *high, int64_t high_length) {
    const struct text_bounds bounds = bounds_of(low, low_length, high, high_length);
    int doubtful = 0; /* whether a text of the group before had to be compared as a whole */
    for (int64_t from = 0; from < count; from += GROUP) {
        const int64_t part = count - from < GROUP ? count - from : GROUP;
        const int32_t *at = ends + from;
        if (!doubtful && part == GROUP && at[part - 1] <= size - 8 && !are_odd(at, data, bounds.least, bounds.most)) {
            continue;
        }
        doubtful = 0;
        for (int64_t i = 0; i < part; i++) {
            const int64_t length = at[i + 1] - at[i];
            if (length == 0) {
                continue;
            }
            const uint64_t key = key_of(data + at[i], length, data + size) >> 1;
            if (LIKELY((((key - bounds.least) | (bounds.most - key)) >> 63) == 0)) {
                continue; /* what follows the first bytes does not count where these differ */
            }
            doubtful = 1;
            if (!is_text_within(data + at[i], length, &bounds)) {
                return 0;
            }
        }
    }
    return 1;
}

/* Whether each of `count` texts that sh_check_texts took, with the ends that it gave, is from low to high in the order
 * of bytes: 1, else 0. A text without bytes is null, and not looked at; a NUL alone is the empty one. There is no upper
 * bound where high_length is -1. `size` is that of the data, at least up to the last end. */
DISPATCHED(sh_texts_within, texts_within,
           (const int32_t *ends, int64_t count, const uint8_t *data, int64_t size, const uint8_t *low,
            int64_t low_length, const uint8_t *high, int64_t high_length),
           (ends, count, data, size, low, low_length, high, high_length))
