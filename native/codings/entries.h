/* Big-endian entries of any width up to eight bytes, and bits of rows that are not null. */
#ifndef SPARKHAVEN_CODED_ENTRIES_H
#define SPARKHAVEN_CODED_ENTRIES_H

#include "bytes/bytes.h"

enum { BITS = 8, BLOCK = 64 }; /* rows that are looked at together: as many as a word has bits */

static inline int is_valid(const uint8_t *valid, int64_t index) {
    return valid == NULL || (valid[index >> 3] >> (index & 7) & 1) != 0;
}

static inline void set_valid(uint8_t *valid, int64_t index) { valid[index >> 3] |= (uint8_t)(1 << (index & 7)); }

/* Whether a value may lie between two ends in so many bytes, or elements. */
static inline int is_range(int64_t low, int64_t high, int64_t size) { return low >= 0 && high >= low && high <= size; }

/* A bit for each of up to BLOCK rows, the lowest first; those beyond are 1. */
static inline uint64_t valid_bits(const uint8_t *valid, int64_t first, int64_t rows) {
    uint64_t bits = ~UINT64_C(0);
    for (int64_t i = 0; valid != NULL && i < rows; i++) {
        bits &= ~((uint64_t)!is_valid(valid, first + i) << i);
    }
    return bits;
}

/* The bits of rows from number `row` on, which begins a byte; returns how many of them are null. */
static inline int64_t put_valid(uint8_t *valid, int64_t row, int64_t rows, uint64_t there) {
    memcpy(valid + row / 8, &there, (size_t)((rows + 7) / 8));
    return rows - __builtin_popcountll(there);
}

/* The low `width` bytes of a number at p. Up to `end` more bytes may be written: entries are written in order. */
static inline void put_big(uint8_t *p, const uint8_t *end, uint64_t number, int width) {
    uint64_t word = __builtin_bswap64(number << (64 - BITS * width));
    if (LIKELY(end - p >= 8)) {
        memcpy(p, &word, 8);
    } else {
        for (int i = 0; i < width; i++) {
            p[i] = (uint8_t)(word >> (BITS * i));
        }
    }
}

static inline uint64_t big_at(const uint8_t *p, const uint8_t *end, int width) {
    return __builtin_bswap64(word_at(p, end)) >> (64 - BITS * width);
}

#endif
