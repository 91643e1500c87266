/* Order-free digests of columns: sums of the hashes of their values. Where `hashes` is given, one word a row, the low word
 * of the hash of each value is added to that of its row; null adds nothing. */
#include "bytes/bytes.h"
#include "bytes/dispatch.h"
#include "bytes/entries.h"
#include "bytes/hash.h"
#include "bytes/utf8.h"
#include "merge/merge.h"

enum { BLOCK = 1 << 13, NARROW = 1 << 11, CACHED = 1 << 11, SOME = 1 << 8 };

static void add(uint64_t *total, sh_u128 sum) {
    sum += (sh_u128)total[1] << 64 | total[0];
    total[0] = (uint64_t)sum;
    total[1] = (uint64_t)(sum >> 64);
}

/* The hash of the 13 bytes that prefix and value make. */
static inline sh_u128 hash13(uint64_t prefix, uint64_t value) { return sh_hash_short(prefix | value << 40, value, 13); }

/* Sums of `count` values, at most BLOCK of them. Few different ones are counted first. */
static sh_u128 narrow_sum(uint64_t prefix, const int64_t *values, int64_t count) {
    sh_u128 sum = 0;
    int64_t low = INT64_MAX, high = INT64_MIN;
    for (int64_t i = 0; i < count; i++) {
        low = values[i] < low ? values[i] : low;
        high = values[i] > high ? values[i] : high;
    }
    if (count < BLOCK / 2 || (uint64_t)high - (uint64_t)low >= NARROW) {
        for (int64_t i = 0; i < count; i++) {
            sum += hash13(prefix, (uint64_t)values[i]);
        }
        return sum;
    }
    uint32_t counts[NARROW] = {0};
    for (int64_t i = 0; i < count; i++) {
        counts[(uint64_t)values[i] - (uint64_t)low]++;
    }
    for (uint64_t i = 0; i <= (uint64_t)high - (uint64_t)low; i++) {
        if (counts[i] > 0) {
            sum += hash13(prefix, (uint64_t)low + i) * counts[i];
        }
    }
    return sum;
}

/* The same, with the hash of each value added to its row; `masks`, if given, are 0 where there is no value. */
static sh_u128 rows_sum(uint64_t prefix, const int64_t *values, const uint64_t *masks, int64_t count,
                        uint64_t *hashes) {
    sh_u128 sum = 0;
    for (int64_t i = 0; i < count; i++) {
        sh_u128 hash = masks == NULL || masks[i] ? hash13(prefix, (uint64_t)values[i]) : 0;
        hashes[i] += (uint64_t)hash;
        sum += hash;
    }
    return sum;
}

#ifdef __x86_64__
#define HALF UINT64_C(0xFFFFFFFF)

/* Both halves of a product, by products of 32 bits: what a register of several words multiplies. */
INLINE uint64_t product_of(uint64_t a, uint64_t b, uint64_t *low) {
    uint64_t least = (a & HALF) * (b & HALF), one = (a >> 32) * (b & HALF) + (least >> 32),
             other = (a & HALF) * (b >> 32) + (one & HALF);
    *low = other << 32 | (least & HALF);
    return (a >> 32) * (b >> 32) + (one >> 32) + (other >> 32);
}

/* The same, eight values at once: as sh_hash_short(), in a form that the compiler makes wide. Then each value is hashed
 * sooner than it is counted. */
#define WIDE __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl")))

INLINE sh_u128 wide_hashes(uint64_t prefix, const int64_t *values, const uint64_t *masks, int64_t count,
                           uint64_t *hashes) {
    uint64_t low_sums = 0, middle_sums = 0, high_sums = 0; /* of at most BLOCK halves */
    for (int64_t i = 0; i < count; i++) {
        uint64_t last = (uint64_t)values[i], first = prefix | last << 40;
        uint64_t value = last ^ SH_KEY_VALUE, low, high = product_of(first ^ last ^ SH_KEY_BOTH, SH_PRIME_1, &low);
        low += UINT64_C(12) << 54;
        high += value + (value & HALF) * SH_FACTOR;
        uint64_t low_hash, high_hash = product_of(low ^ __builtin_bswap64(high), SH_PRIME_2, &low_hash);
        high_hash = sh_avalanche(high_hash + high * SH_PRIME_2);
        low_hash = sh_avalanche(low_hash);
        if (masks != NULL) {
            low_hash &= masks[i];
            high_hash &= masks[i];
        }
        if (hashes != NULL) {
            hashes[i] += low_hash;
        }
        low_sums += low_hash & HALF;
        middle_sums += low_hash >> 32;
        high_sums += high_hash;
    }
    return ((sh_u128)high_sums << 64) + ((sh_u128)middle_sums << 32) + low_sums;
}

WIDE static sh_u128 wide_sum(uint64_t prefix, const int64_t *values, int64_t count) {
    return wide_hashes(prefix, values, NULL, count, NULL);
}

WIDE static sh_u128 wide_rows(uint64_t prefix, const int64_t *values, int64_t count, uint64_t *hashes) {
    return wide_hashes(prefix, values, NULL, count, hashes);
}

WIDE static sh_u128 wide_masked(uint64_t prefix, const int64_t *values, const uint64_t *masks, int64_t count,
                                uint64_t *hashes) {
    return wide_hashes(prefix, values, masks, count, hashes);
}

static sh_u128 sum_of(uint64_t prefix, const int64_t *values, int64_t count) {
    return sh_compared == 64 ? wide_sum(prefix, values, count) : narrow_sum(prefix, values, count);
}

static sh_u128 row_sum_of(uint64_t prefix, const int64_t *values, const uint64_t *masks, int64_t count,
                          uint64_t *hashes) {
    if (sh_compared != 64) {
        return rows_sum(prefix, values, masks, count, hashes);
    }
    return masks == NULL ? wide_rows(prefix, values, count, hashes) : wide_masked(prefix, values, masks, count, hashes);
}
#else
static sh_u128 sum_of(uint64_t prefix, const int64_t *values, int64_t count) {
    return narrow_sum(prefix, values, count);
}

static sh_u128 row_sum_of(uint64_t prefix, const int64_t *values, const uint64_t *masks, int64_t count,
                          uint64_t *hashes) {
    return rows_sum(prefix, values, masks, count, hashes);
}
#endif

/* Values of a block. Those that are null are left out, or where there are masks, their mask is 0. Returns how many are
 * none. */
#define EACH(type, expression)                                                                                         \
    {                                                                                                                  \
        int64_t nulls = 0;                                                                                             \
        for (int64_t i = 0; i < part; i++) {                                                                           \
            type entry;                                                                                                \
            memcpy(&entry, p + (size_t)i * sizeof entry, sizeof entry);                                                \
            nulls += (uint64_t)entry == null;                                                                          \
            values[i] = (expression);                                                                                  \
        }                                                                                                              \
        for (int64_t i = 0; nulls > 0 && masks != NULL && i < part; i++) {                                             \
            type entry;                                                                                                \
            memcpy(&entry, p + (size_t)i * sizeof entry, sizeof entry);                                                \
            masks[i] = (uint64_t)entry == null ? 0 : ~UINT64_C(0);                                                     \
        }                                                                                                              \
        for (int64_t i = 0; nulls > 0 && masks == NULL && i < part; i++) {                                             \
            type entry;                                                                                                \
            memcpy(&entry, p + (size_t)i * sizeof entry, sizeof entry);                                                \
            values[kept] = (expression); /* overwritten by the next if it is the null */                               \
            kept += (uint64_t)entry != null;                                                                           \
        }                                                                                                              \
        return part - nulls;                                                                                           \
    }

#define NOT_A_NUMBER INT64_C(0x7FF8000000000000)

static inline int64_t of_double(uint64_t bits) {
    return (bits & UINT64_C(0x7FFFFFFFFFFFFFFF)) > UINT64_C(0x7FF0000000000000) ? NOT_A_NUMBER : (int64_t)bits;
}

static inline int64_t of_float(uint32_t bits) {
    float narrow;
    double wide;
    int64_t found;
    memcpy(&narrow, &bits, 4);
    wide = narrow;
    memcpy(&found, &wide, 8);
    return (bits & 0x7FFFFFFFu) > 0x7F800000u ? NOT_A_NUMBER : found;
}

INLINE int64_t values_of(int64_t kind, const uint8_t *p, int64_t part, uint64_t null, int64_t *values,
                         uint64_t *masks) {
    int64_t kept = 0;
    switch (kind) {
    case SH_ENTRY_BYTE:
        EACH(uint8_t, (int64_t)(int8_t)entry)
    case SH_ENTRY_SHORT:
        EACH(uint16_t, (int16_t)entry)
    case SH_ENTRY_INT:
        EACH(uint32_t, (int32_t)entry)
    case SH_ENTRY_LONG:
        EACH(uint64_t, (int64_t)entry)
    case SH_ENTRY_CHAR:
        EACH(uint16_t, entry)
    case SH_ENTRY_FLOAT:
        EACH(uint32_t, of_float(entry))
    case SH_ENTRY_DOUBLE:
        EACH(uint64_t, of_double(entry))
    default:
        EACH(uint8_t, entry != 0)
    }
}

INLINE int64_t digest_fixed(uint64_t prefix, int64_t kind, const void *entries, int64_t count, uint64_t null,
                            uint64_t *hashes, uint64_t *total) {
    static const uint8_t WIDTHS[] = {1, 2, 4, 8, 2, 4, 8, 1};
    int64_t values[BLOCK], nulls = 0;
    uint64_t masks[BLOCK];
    if (kind < SH_ENTRY_BYTE || kind > SH_ENTRY_BOOLEAN) {
        return -1;
    }
    const uint8_t *p = entries;
    const int64_t most = hashes == NULL ? BLOCK : CACHED; /* rows are not counted: the nearest cache has all of these */
    for (int64_t first = 0; first < count; first += most) {
        int64_t part = count - first < most ? count - first : most;
        int64_t kept = values_of(kind, p, part, null, values, hashes == NULL ? NULL : masks);
        add(total, hashes == NULL ? sum_of(prefix, values, kept)
                                  : row_sum_of(prefix, values, kept < part ? masks : NULL, part, hashes + first));
        nulls += part - kept;
        p += part * WIDTHS[kind];
    }
    return nulls;
}

/* Adds the hashes of fixed-width entries to total, 128 bits; `null` has the bits of the null. Returns how many nulls
 * there are, which are not added; -1 for an unknown kind. */
DISPATCHED(sh_digest_fixed, digest_fixed,
           (uint64_t prefix, int64_t kind, const void *entries, int64_t count, uint64_t null, uint64_t *hashes,
            uint64_t *total),
           (prefix, kind, entries, count, null, hashes, total))

INLINE int64_t add_symbols(const uint32_t *ids, int64_t count, const uint64_t *table, int64_t entries,
                           uint64_t *hashes) {
    for (int64_t i = 0; entries > 0 && i < count; i++) { /* without a branch: the compiler makes it wide */
        const uint64_t id = ids[i], known = id < (uint64_t)entries;
        hashes[i] += table[id & (0 - known)] & (0 - known);
    }
    return count;
}

/* Adds to the hash of each row that of its symbol, by id; other ids than those of the table are null. Returns count. */
DISPATCHED(sh_add_symbols, add_symbols,
           (const uint32_t *ids, int64_t count, const uint64_t *table, int64_t entries, uint64_t *hashes),
           (ids, count, table, entries, hashes))

/* Up to WORDED bytes at p as a number, the first as the lowest. */
static inline sh_u128 number_at(const uint8_t *p, const uint8_t *end, int64_t width) {
    sh_u128 number = first_bytes(word_at(p, end), width);
    return width > 8 ? number | (sh_u128)first_bytes(word_at(p + 8, end), width - 8) << 64 : number;
}

static inline sh_u128 to_row(uint64_t *hashes, int64_t row, sh_u128 hash) {
    if (hashes != NULL) {
        hashes[row] += (uint64_t)hash;
    }
    return hash;
}

/* The same of entries of a codec, `width` bytes each, which are hashed as they are; those like `null`, if given, are
 * null. */
int64_t sh_digest_coded(uint64_t prefix, const uint8_t *entries, int64_t count, int64_t width, const uint8_t *null,
                        uint64_t *hashes, uint64_t *total) {
    enum { SHORTEST = 9 - SH_PREFIX, WORDED = 16 - SH_PREFIX };
    const uint8_t *end = entries + count * width;
    int64_t nulls = 0;
    sh_u128 sum = 0;
    if (width >= SHORTEST && width <= WORDED) {
        sh_u128 none = null == NULL ? 0 : number_at(null, null + width, width);
        for (int64_t i = 0; i < count; i++, entries += width) {
            sh_u128 value = number_at(entries, end, width);
            if (null != NULL && value == none) {
                nulls++;
                continue;
            }
            value = prefix | value << (8 * SH_PREFIX);
            sum += to_row(hashes, i,
                          sh_hash_short((uint64_t)value, (uint64_t)(value >> (8 * (width + SH_PREFIX - 8))),
                                        (uint64_t)(width + SH_PREFIX)));
        }
    } else {
        for (int64_t i = 0; i < count; i++, entries += width) {
            int none = null != NULL && memcmp(entries, null, (size_t)width) == 0;
            nulls += none;
            sum += none ? 0 : to_row(hashes, i, sh_hash_text(prefix, entries, width));
        }
    }
    add(total, sum);
    return nulls;
}

static inline int present(const uint8_t *valid, int64_t i) { return valid == NULL || (valid[i >> 3] >> (i & 7) & 1); }

/* Adds the hashes of texts to total, each times its count (once where there are no counts). Text i is from ends[first +
 * i] to the next end, which are of 8 bytes if wide, else of 4; bit first + i of `valid`, if given, is 0 for null.
 * Returns the sum of the counts of nulls, which are not added; -1 where a text that counts is not in the data. */
int64_t sh_digest_texts(uint64_t prefix, const void *ends, int64_t wide, const uint8_t *valid, int64_t first,
                        int64_t count, const uint8_t *data, int64_t size, const int64_t *counts, uint64_t *hashes,
                        uint64_t *total) {
    sh_u128 sum = 0;
    int64_t nulls = 0;
    for (int64_t i = first; i < first + count; i++) {
        int64_t times = counts == NULL ? 1 : counts[i - first];
        if (times == 0) {
            continue;
        }
        if (!present(valid, i)) {
            nulls += times;
            continue;
        }
        int64_t low = sh_end(ends, wide, i), high = sh_end(ends, wide, i + 1);
        if (low < 0 || high < low || high > size) {
            return -1;
        }
        fetch_ahead(data, low, high, size);
        sum += to_row(hashes, i - first, sh_hash_text(prefix, data + low, high - low)) * (sh_u128)(uint64_t)times;
    }
    add(total, sum);
    return nulls;
}

/* The same of UTF-8 as it lies in the files of a column without symbols, each value once, ends of 8 bytes: no bytes are
 * null, a NUL alone is the empty text. -1 also where a value is no UTF-8. */
int64_t sh_digest_values(uint64_t prefix, const void *ends, int64_t count, const uint8_t *data, int64_t size,
                         uint64_t *hashes, uint64_t *total) {
    sh_u128 sum = 0;
    int64_t nulls = 0;
    for (int64_t first = 0; first < count; first += SOME) {
        const int64_t stop = count - first < SOME ? count : first + SOME;
        int64_t end = sh_end(ends, 1, first), wrong = end < 0;
        for (int64_t i = first; i < stop; i++) {
            const int64_t next = sh_end(ends, 1, i + 1);
            wrong |= next < end;
            end = next;
        }
        if (wrong || end > size) {
            return -1;
        }
        const int plain = sh_is_ascii(data + sh_end(ends, 1, first), data + end);
        for (int64_t i = first; i < stop; i++) {
            const int64_t low = sh_end(ends, 1, i), high = sh_end(ends, 1, i + 1);
            if (!plain && !sh_is_text(data + low, data + high)) {
                return -1;
            }
            if (low == high) {
                nulls++;
            } else {
                const int64_t length = high - low == 1 && data[low] == 0 ? 0 : high - low;
                sum += to_row(hashes, i, sh_hash_text(prefix, data + low, length));
            }
        }
    }
    add(total, sum);
    return nulls;
}
