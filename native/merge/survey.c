/* What a check wants to know of fixed entries, block by block: checksum, digest, nulls and bounds of bytes that the
 * processor's cache has. */
#include "bytes/bytes.h"
#include "bytes/crc.h"
#include "bytes/dispatch.h"
#include "bytes/entries.h"
#include "merge/merge.h"

enum { ROWS = 1 << 13 };

/* Bounds of entries of a type. `ordered` is an entry as a number of type `number`, in the order of entries, `left_out`
 * whether it has no part in them; `none` counts NaN. */
#define BOUNDS(type, number, least, largest, ordered, left_out, is_none)                                               \
    {                                                                                                                  \
        number low = (largest), high = (least);                                                                        \
        type none = 0;                                                                                                 \
        for (int64_t i = 0; i < count; i++) {                                                                          \
            type entry;                                                                                                \
            memcpy(&entry, p + (size_t)i * sizeof entry, sizeof entry);                                                \
            const number here = (number)(ordered);                                                                     \
            const number from = (left_out) ? (largest) : here, to = (left_out) ? (least) : here;                       \
            none += (is_none);                                                                                         \
            low = from < low ? from : low;                                                                             \
            high = to > high ? to : high;                                                                              \
        }                                                                                                              \
        found->nans += (int64_t)none;                                                                                  \
        found->low = (int64_t)low < found->low ? (int64_t)low : found->low;                                            \
        found->high = (int64_t)high > found->high ? (int64_t)high : found->high;                                       \
        return count;                                                                                                  \
    }

/* The same of whole numbers: most blocks have no nulls. */
#define WHOLE_BOUNDS(type, number, least, largest)                                                                     \
    if (nulls == 0) {                                                                                                  \
        BOUNDS(type, number, least, largest, entry, 0, 0)                                                              \
    }                                                                                                                  \
    BOUNDS(type, number, least, largest, entry, entry == (type)null, 0)

#define MAGNITUDE_4 UINT32_C(0x7FFFFFFF)
#define INFINITE_4 UINT32_C(0x7F800000)
#define MAGNITUDE_8 UINT64_C(0x7FFFFFFFFFFFFFFF)
#define INFINITE_8 UINT64_C(0x7FF0000000000000)

INLINE int64_t bounds_of(int64_t kind, const uint8_t *p, int64_t count, uint64_t null, int64_t nulls,
                         struct sh_survey *found) {
    switch (kind) {
    case SH_ENTRY_BYTE:
    case SH_ENTRY_BOOLEAN:
        WHOLE_BOUNDS(uint8_t, int8_t, INT8_MIN, INT8_MAX)
    case SH_ENTRY_SHORT:
        WHOLE_BOUNDS(uint16_t, int16_t, INT16_MIN, INT16_MAX)
    case SH_ENTRY_INT:
        WHOLE_BOUNDS(uint32_t, int32_t, INT32_MIN, INT32_MAX)
    case SH_ENTRY_LONG:
        WHOLE_BOUNDS(uint64_t, int64_t, INT64_MIN, INT64_MAX)
    case SH_ENTRY_CHAR:
        WHOLE_BOUNDS(uint16_t, uint16_t, 0, UINT16_MAX)
    case SH_ENTRY_FLOAT: /* the bits of one below zero fall as it rises: turned round they rise too */
        BOUNDS(uint32_t, int32_t, INT32_MIN, INT32_MAX, entry ^ (-(entry >> 31) & MAGNITUDE_4),
               (entry == (uint32_t)null) | ((entry & MAGNITUDE_4) > INFINITE_4), (entry & MAGNITUDE_4) > INFINITE_4)
    default:
        BOUNDS(uint64_t, int64_t, INT64_MIN, INT64_MAX, entry ^ (-(entry >> 63) & MAGNITUDE_8),
               (entry == null) | ((entry & MAGNITUDE_8) > INFINITE_8), (entry & MAGNITUDE_8) > INFINITE_8)
    }
}

DISPATCHED(sh_bounds, bounds_of,
           (int64_t kind, const uint8_t *p, int64_t count, uint64_t null, int64_t nulls, struct sh_survey *found),
           (kind, p, count, null, nulls, found))

#define NULLS(type)                                                                                                    \
    {                                                                                                                  \
        int64_t nulls = 0;                                                                                             \
        for (int64_t i = 0; i < count; i++) {                                                                          \
            type entry;                                                                                                \
            memcpy(&entry, p + (size_t)i * sizeof entry, sizeof entry);                                                \
            nulls += (uint64_t)entry == null;                                                                          \
        }                                                                                                              \
        return nulls;                                                                                                  \
    }

INLINE int64_t nulls_of(int64_t width, const uint8_t *p, int64_t count, uint64_t null) {
    switch (width) {
    case 1:
        NULLS(uint8_t)
    case 2:
        NULLS(uint16_t)
    case 4:
        NULLS(uint32_t)
    default:
        NULLS(uint64_t)
    }
}

DISPATCHED(sh_survey_nulls, nulls_of, (int64_t width, const uint8_t *p, int64_t count, uint64_t null),
           (width, p, count, null))

/* Adds entries to a survey. Its bounds are those of entries that are neither null nor NaN, if there are any; of floats
 * and doubles their bits, of those below zero all but the sign turned round. Nothing is hashed where
 * there is no total. Returns count, -1 for an unknown kind. */
int64_t sh_survey_fixed(const struct sh_fixed *fixed, const void *entries, int64_t count, struct sh_survey *found,
                        uint64_t *hashes, uint64_t *total) {
    static const int64_t WIDTHS[] = {1, 2, 4, 8, 2, 4, 8, 1};
    if (fixed->kind < SH_ENTRY_BYTE || fixed->kind > SH_ENTRY_BOOLEAN) {
        return -1;
    }
    const uint8_t *p = entries;
    const int64_t width = WIDTHS[fixed->kind];
    for (int64_t first = 0; first < count; first += ROWS, p += ROWS * width) {
        const int64_t rows = count - first < ROWS ? count - first : ROWS;
        found->crc = sh_crc(p, rows * width, (uint32_t)found->crc);
        const int64_t nulls = total == NULL ? sh_survey_nulls(width, p, rows, fixed->null)
                                            : sh_digest_fixed(fixed->prefix, fixed->kind, p, rows, fixed->null,
                                                              hashes == NULL ? NULL : hashes + first, total);
        sh_bounds(fixed->kind, p, rows, fixed->null, nulls, found);
        found->nulls += nulls;
    }
    return count;
}
