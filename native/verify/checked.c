/* What lies in the files of a column, looked at in one pass: nulls, bounds, symbol ids, texts. */
#include "verify/checked.h"
#include "bytes/bytes.h"
#include "bytes/dispatch.h"
#include "bytes/entries.h"
#include "bytes/utf8.h"
#include "verify/verify.h"

enum {
    SOME = 1 << 10, /* texts whose offsets stay in the first cache */
    STEP = 1 << 9,  /* bytes that are looked at between two requests */
    AHEAD = 1 << 13 /* how far these are in front */
};

/* Asks for bytes that are looked at soon; where there are none, nothing happens. The processor by itself does not ask
 * beyond the page that it is at. */
INLINE void ahead(const uint8_t *p, int64_t size) {
    for (int64_t i = 0; i < size; i += 64) {
        __builtin_prefetch((const void *)((uintptr_t)p + AHEAD + (uintptr_t)i), 0, 2);
    }
}

/* For entries of a type, some at a time; counters as wide as the entries, so that many are counted at once, are added
 * before they are full. EQUAL(uint8_t, 128) in count_nulls, with STEPS and EACH in it, is:
 *
 *     {
 *         uint8_t equal = 0;
 *         {
 *             int64_t i = 0;
 *             for (; count - i >= 128; i += 128) {
 *                 ahead(p + i * 1, 128 * 1);
 *                 for (int64_t k = i; k < i + 128; k++) {
 *                     uint8_t entry;
 *                     memcpy(&entry, p + k * 1, 1);
 *                     equal += entry == (uint8_t)null;
 *                 }
 *                 found += (int64_t)equal, equal = 0; // at most 128: eight bits hold them
 *             }
 *             for (; i < count; i++) {
 *                 uint8_t entry;
 *                 memcpy(&entry, p + i * 1, 1);
 *                 equal += entry == (uint8_t)null;
 *             }
 *             found += (int64_t)equal, equal = 0;
 *         }
 *         return found;
 *     }
 */
#define STEPS(type, limit, body, after)                                                                                \
    {                                                                                                                  \
        int64_t i = 0;                                                                                                 \
        for (; count - i >= (limit); i += (limit)) {                                                                   \
            ahead(p + i * (int64_t)sizeof(type), (limit) * (int64_t)sizeof(type));                                     \
            for (int64_t k = i; k < i + (limit); k++) {                                                                \
                EACH(type, k, body)                                                                                    \
            }                                                                                                          \
            (after);                                                                                                   \
        }                                                                                                              \
        for (; i < count; i++) {                                                                                       \
            EACH(type, i, body)                                                                                        \
        }                                                                                                              \
        (after);                                                                                                       \
    }

#define EACH(type, place, body)                                                                                        \
    type entry;                                                                                                        \
    memcpy(&entry, p + (place) * (int64_t)sizeof entry, sizeof entry);                                                 \
    (body);

#define EQUAL(type, limit)                                                                                             \
    {                                                                                                                  \
        type equal = 0;                                                                                                \
        STEPS(type, limit, equal += entry == (type)null, (found += (int64_t)equal, equal = 0))                         \
        return found;                                                                                                  \
    }

INLINE int64_t count_nulls(const uint8_t *p, int64_t width, int64_t count, uint64_t null) {
    int64_t found = 0;
    switch (width) {
    case 1:
        EQUAL(uint8_t, 128)
    case 2:
        EQUAL(uint16_t, STEP / 2)
    case 4:
        EQUAL(uint32_t, STEP / 4)
    case 8:
        EQUAL(uint64_t, STEP / 8)
    default:
        return -1;
    }
}

/* How many entries of 1, 2, 4 or 8 bytes have the bits of the null; -1 for another width. */
DISPATCHED(sh_count_nulls, count_nulls, (const void *entries, int64_t width, int64_t count, uint64_t null),
           (entries, width, count, null))

#define BITS(type)                                                                                                     \
    for (int64_t first = 0; first < count; first += 8) {                                                               \
        uint8_t flags[8] = {0};                                                                                        \
        for (int64_t i = 0, stop = count - first < 8 ? count - first : 8; i < stop; i++) {                             \
            type entry;                                                                                                \
            memcpy(&entry, p + (first + i) * (int64_t)sizeof entry, sizeof entry);                                     \
            flags[i] = entry != (type)null;                                                                            \
        }                                                                                                              \
        uint64_t word;                                                                                                 \
        memcpy(&word, flags, 8);                                                                                       \
        bits[first >> 3] = (uint8_t)(word * UINT64_C(0x0102040810204080) >> 56); /* byte i becomes bit i */            \
    }                                                                                                                  \
    return count

/* Bit i becomes 1 where entry i is another than the null; those behind the last are 0. Returns count, -1 for a width
 * that there is not. */
int64_t sh_valid_bits(const void *entries, int64_t width, int64_t count, uint64_t null, uint8_t *bits) {
    const uint8_t *p = entries;
    switch (width) {
    case 1:
        BITS(uint8_t);
    case 2:
        BITS(uint16_t);
    case 4:
        BITS(uint32_t);
    case 8:
        BITS(uint64_t);
    default:
        return -1;
    }
}

#define WITHIN(type, wide, counter, limit)                                                                             \
    {                                                                                                                  \
        wide given[3];                                                                                                 \
        memcpy(given, bounds, sizeof given);                                                                           \
        const type null = (type)given[0], low = (type)given[1], high = (type)given[2];                                 \
        counter equal = 0, none = 0, other = 0;                                                                        \
        STEPS(type, limit, (equal += entry == null, none += entry != entry, other += (entry < low) | (entry > high)),  \
              (nulls += (int64_t)equal, nans += (int64_t)none, outside += (int64_t)other, equal = none = other = 0))   \
        outside -= ((null < low) | (null > high)) ? nulls : 0;                                                         \
        break;                                                                                                         \
    }

INLINE int64_t within(int64_t kind, const uint8_t *p, int64_t count, const void *bounds, int64_t *found) {
    int64_t nulls = 0, nans = 0, outside = 0;
    switch (kind) {
    case SH_ENTRY_BYTE:
        WITHIN(int8_t, int64_t, uint8_t, 128)
    case SH_ENTRY_SHORT:
        WITHIN(int16_t, int64_t, uint16_t, STEP / 2)
    case SH_ENTRY_INT:
        WITHIN(int32_t, int64_t, uint32_t, STEP / 4)
    case SH_ENTRY_LONG:
        WITHIN(int64_t, int64_t, uint64_t, STEP / 8)
    case SH_ENTRY_CHAR:
        WITHIN(uint16_t, int64_t, uint16_t, STEP / 2)
    case SH_ENTRY_FLOAT:
        WITHIN(float, double, uint32_t, STEP / 4)
    case SH_ENTRY_DOUBLE:
        WITHIN(double, double, uint64_t, STEP / 8)
    default:
        return -1;
    }
    found[0] += nulls;
    found[1] += nans;
    found[2] += outside;
    return count;
}

/* Adds to found how many entries are the null, how many NaN, and how many others are not from low to high. `bounds` has
 * null, low and high: values of the entries' type, as doubles for floats and doubles, else as whole numbers of 8 bytes.
 * Returns count, -1 for an unknown kind. */
DISPATCHED(sh_within, within, (int64_t kind, const void *entries, int64_t count, const void *bounds, int64_t *found),
           (kind, entries, count, bounds, found))

INLINE int64_t check_ids(const uint8_t *p, int64_t count, int64_t entries) {
    const uint32_t null = UINT32_C(1) << 31, limit = entries < null ? (uint32_t)entries : null;
    int64_t nulls = 0, beyond = 0;
    uint32_t some = 0, any = 0;
    STEPS(uint32_t, STEP / 4, any |= entry | (entry + (null - limit)), (void)0) /* the top bit: not below the limit */
    if ((any & null) != 0) {                                                    /* which few columns have */
        STEPS(uint32_t, STEP / 4, some += entry == null, (nulls += some, some = 0))
        STEPS(uint32_t, STEP / 4, some += entry >= limit, (beyond += some, some = 0))
    }
    return beyond == nulls ? nulls : -1;
}

/* How many ids are null, the smallest number; -1 if another one is not below `entries`. */
DISPATCHED(sh_check_ids, check_ids, (const void *ids, int64_t count, int64_t entries), (ids, count, entries))

INLINE int is_ascii(const uint8_t *p, int64_t size) {
    const int64_t count = size / 8;
    uint64_t all = word_at(p + 8 * count, p + size);
    STEPS(uint64_t, STEP / 8, all |= entry, (void)0)
    return (all & UINT64_C(0x8080808080808080)) == 0;
}

INLINE int64_t check_texts(const void *ends, int64_t count, int64_t first, const uint8_t *data, int64_t size,
                           int64_t ascii, int32_t *out, int64_t *found) {
    int32_t some[SOME + 1] = {0};
    int64_t nulls = 0, alone = 0;
    uint64_t high = 0;
    int32_t order = 0;
    if (out != NULL) {
        out[0] = 0;
    }
    for (int64_t from = 0; from < count; from += SOME) {
        int64_t part = count - from < SOME ? count - from : SOME;
        int32_t *at = out != NULL ? out + from : some, empty = 0, one = 0;
        for (int64_t i = 0; i < part; i += STEP / 8) {
            const int64_t stop = part - i < STEP / 8 ? part : i + STEP / 8;
            ahead((const uint8_t *)ends + 8 * (from + i), STEP);
            for (int64_t k = i; k < stop; k++) {
                uint64_t place = (uint64_t)sh_end(ends, 1, from + k) - (uint64_t)first;
                high |= place;
                at[k + 1] = (int32_t)(uint32_t)place;
            }
        }
        if (high > INT32_MAX) {
            return -1;
        }
        for (int64_t i = 0; i < part; i++) { /* of numbers that are not negative: no difference overflows */
            int32_t length = at[i + 1] - at[i];
            order |= length;
            empty += length == 0;
            one += length == 1;
        }
        nulls += empty;
        for (int64_t i = 0; one > 0 && order >= 0 && i < part; i++) {
            alone += at[i + 1] - at[i] == 1 && at[i] < size && data[at[i]] == 0;
        }
        some[0] = at[part];
    }
    found[0] = alone;
    found[1] = count > 0 ? (int64_t)((uint64_t)sh_end(ends, 1, count - 1) - (uint64_t)first) : 0;
    if (order < 0 || found[1] > size) {
        return -1;
    }
    if (is_ascii(data, found[1])) {
        return nulls;
    }
    if (ascii || !sh_is_text(data, data + found[1])) {
        return -1;
    }
    for (int64_t i = 0; i < count; i++) { /* text as a whole, and cut where characters begin */
        int64_t place = sh_end(ends, 1, i) - first;
        if (place < found[1] && (data[place] & 0xC0) == 0x80) {
            return -1;
        }
    }
    return nulls;
}

/* The texts of `count` ends of 8 bytes: the first begins at `first`, of which `data` has `size` bytes from there on,
 * less than 2 GiB. Returns how many have no bytes; -1 if an end is before another or outside of the data, or the bytes
 * up to the last are not text: of ASCII alone where `ascii`, else each in UTF-8. found[0] becomes how many are a NUL
 * alone, found[1] their last end, counted from `first`. `out`, if given, gets that of each, behind a 0. */
DISPATCHED(sh_check_texts, check_texts,
           (const void *ends, int64_t count, int64_t first, const uint8_t *data, int64_t size, int64_t ascii,
            int32_t *out, int64_t *found),
           (ends, count, first, data, size, ascii, out, found))
