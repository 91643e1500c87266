/* Words of eight bytes from memory that may end anywhere, and digits in them. Little endian machines only. */
#ifndef SPARKHAVEN_BYTES_H
#define SPARKHAVEN_BYTES_H

#include <stdint.h>
#include <string.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the compiled core is for little endian machines"
#endif

#define LIKELY(x) __builtin_expect(!!(x), 1)
#define UNLIKELY(x) __builtin_expect(!!(x), 0)

/* The eight bytes at p as a number, zeros for those at `end` and beyond. */
static inline uint64_t word_at(const uint8_t *p, const uint8_t *end) {
    uint64_t word = 0;
    if (LIKELY(end - p >= 8)) {
        memcpy(&word, p, 8);
    } else {
        for (int64_t i = 0, n = end - p; i < n; i++) {
            word |= (uint64_t)p[i] << (8 * i);
        }
    }
    return word;
}

/* A word with its first n bytes only, n from 0 to 8. */
static inline uint64_t first_bytes(uint64_t word, int64_t n) {
    return n >= 8 ? word : n <= 0 ? 0 : word & (~UINT64_C(0) >> (64 - 8 * n));
}

/* Whether n bytes are equal; both have n bytes. */
static inline int same_bytes(const uint8_t *a, const uint8_t *a_end, const uint8_t *b, const uint8_t *b_end,
                             int64_t n) {
    while (n > 0) {
        if (first_bytes(word_at(a, a_end) ^ word_at(b, b_end), n) != 0) {
            return 0;
        }
        a += n < 8 ? n : 8;
        b += n < 8 ? n : 8;
        n -= 8;
    }
    return 1;
}

/* How many of the eight bytes of a word are digits before the first that is none. */
static inline int digit_count(uint64_t word) {
    uint64_t t = word ^ UINT64_C(0x3030303030303030);
    uint64_t odd =
        (((t & UINT64_C(0x7F7F7F7F7F7F7F7F)) + UINT64_C(0x7676767676767676)) | t) & UINT64_C(0x8080808080808080);
    return odd ? __builtin_ctzll(odd) >> 3 : 8;
}

/* The number that the first n bytes of a word write, n from 1 to 8, all of them digits: pairs, fours, then all. */
static inline uint64_t digits_value(uint64_t word, int n) {
    uint64_t t = (word ^ UINT64_C(0x3030303030303030)) << (64 - 8 * n);
    t = (t & UINT64_C(0x0F000F000F000F00)) / 256 + (t & UINT64_C(0x000F000F000F000F)) * 10;
    t = (t & UINT64_C(0x00FF000000FF0000)) / 65536 + (t & UINT64_C(0x000000FF000000FF)) * 100;
    return (t >> 32) + (t & UINT64_C(0xFFFFFFFF)) * 10000;
}

/* Where bytes are read from `low` to `high` and then on: fetches those that come some texts later. Processors alone do
 * not look over the end of a page. */
static inline void fetch_ahead(const uint8_t *data, int64_t low, int64_t high, int64_t size) {
    enum { AHEAD = 2048, LINE = 64, MOST = 4 };
    int64_t lines = (high - low) / LINE, at = low + AHEAD;
    for (int64_t i = 0; i <= lines && i < MOST && at < size; i++, at += LINE) {
        __builtin_prefetch(data + at);
    }
}

/* One of the ends of texts, which are of 8 bytes if wide, else of 4. */
static inline int64_t sh_end(const void *ends, int64_t wide, int64_t index) {
    int64_t end;
    int32_t narrow;
    if (wide) {
        memcpy(&end, (const uint8_t *)ends + 8 * index, 8);
        return end;
    }
    memcpy(&narrow, (const uint8_t *)ends + 4 * index, 4);
    return narrow;
}

/* Two digits as a number from 0 to 99, else 1000000: a sum with other digits stays too large. */
static inline int two_digits(const uint8_t *p) {
    unsigned a = p[0] - 48u, b = p[1] - 48u;
    return a > 9 || b > 9 ? 1000000 : (int)(a * 10 + b);
}

#endif
