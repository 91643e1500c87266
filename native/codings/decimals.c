/* Numbers of at most so many digits: a byte 1 for 0 and above or 0 below it, then the magnitude, whose bits are
 * inverted below 0. Null is 00, then FF: a zero below zero. */
#include "bytes/dispatch.h"
#include "codings/codings.h"
#include "codings/entries.h"

enum { NARROW = 2, WIDE = 4, NARROW_DIGITS = 38 };

/* A number that is never negative as words, the lowest first. */
struct limit {
    uint64_t words[WIDE];
};

static struct limit ten_to(int64_t precision) {
    struct limit limit = {{1, 0, 0, 0}};
    for (int64_t digit = 0; digit < precision; digit++) {
        uint64_t carry = 0;
        for (int k = 0; k < WIDE; k++) {
            unsigned __int128 product = (unsigned __int128)limit.words[k] * 10 + carry;
            limit.words[k] = (uint64_t)product;
            carry = (uint64_t)(product >> 64);
        }
    }
    return limit;
}

INLINE uint64_t below_limit(const uint64_t *words, int64_t count, const struct limit *limit) {
    uint64_t less = 0;
    for (int64_t k = 0; k < count; k++) {
        less = (words[k] < limit->words[k]) | ((words[k] == limit->words[k]) & less);
    }
    return less;
}

/* The word with its sign changed where `sign` is all ones, as part of a longer number: *carry goes from word to word. */
INLINE uint64_t with_sign(uint64_t word, uint64_t sign, uint64_t *carry) {
    uint64_t result = (word ^ sign) + *carry;
    *carry &= result == 0;
    return result;
}

/* Of numbers of `size` words, whose magnitudes have `used` words and `kept` bytes. */
INLINE int64_t encode(const uint8_t *numbers, const uint8_t *valid, int64_t first, int64_t count, int64_t size,
                      int64_t used, int64_t kept, const struct limit *limit, uint8_t *out) {
    const uint8_t *end = out + count * (kept + 1);
    int top = (int)(kept - 8 * (used - 1));
    uint64_t bad = 0;
    for (int64_t i = 0; i < count; i++, numbers += size * 8, out += kept + 1) {
        uint64_t words[WIDE], there = 0 - (uint64_t)is_valid(valid, first + i);
        memcpy(words, numbers, (size_t)size * 8);
        uint64_t sign = there & (uint64_t)((int64_t)words[size - 1] >> 63), carry = sign & 1;
        for (int64_t k = 0; k < size; k++) { /* the magnitude; null as zero below zero */
            words[k] = with_sign(words[k] & there, sign, &carry);
        }
        bad |= !below_limit(words, size, limit);
        sign |= ~there;
        out[0] = (uint8_t)(1 + sign);
        put_big(out + 1, end, words[used - 1] ^ sign, top);
        for (int64_t k = used - 2; k >= 0; k--) {
            put_big(out + 1 + kept - 8 * (k + 1), end, words[k] ^ sign, 8);
        }
    }
    return bad ? -1 : 1;
}

INLINE int64_t decode(const uint8_t *entries, int64_t count, int64_t size, int64_t used, int64_t kept,
                      const struct limit *limit, uint8_t *numbers, uint8_t *valid) {
    const uint8_t *end = entries + count * (kept + 1);
    int top = (int)(kept - 8 * (used - 1));
    const uint64_t most = ~UINT64_C(0) >> (64 - 8 * top);
    int64_t nulls = 0;
    uint64_t bad = 0;
    for (int64_t row = 0; row < count; row += BLOCK) {
        int64_t rows = count - row < BLOCK ? count - row : BLOCK;
        uint64_t there = 0;
        for (int64_t i = 0; i < rows; i++, entries += kept + 1, numbers += size * 8) {
            uint64_t words[WIDE] = {0, 0, 0, 0}, sign = (uint64_t)entries[0] - 1, carry = sign & 1, any = 0;
            words[used - 1] = big_at(entries + 1, end, top) ^ (sign & most);
            for (int64_t k = used - 2; k >= 0; k--) {
                words[k] = big_at(entries + 1 + kept - 8 * (k + 1), end, 8) ^ sign;
            }
            bad |= (entries[0] > 1) | !below_limit(words, size, limit);
            for (int64_t k = 0; k < size; k++) {
                any |= words[k];
                words[k] = with_sign(words[k], sign, &carry);
            }
            memcpy(numbers, words, (size_t)size * 8);
            there |= (uint64_t)((any | ~sign) != 0) << i;
        }
        nulls += put_valid(valid, row, rows, there);
    }
    return bad ? -1 : nulls;
}

/* One copy of a loop for each number of words that magnitudes have, and one for magnitudes that fill a word. */
#define BY_WORDS(precision, kept, call)                                                                                \
    if ((precision) > NARROW_DIGITS) {                                                                                 \
        return (kept) > 24 ? call(WIDE, 4, kept) : call(WIDE, 3, kept);                                                \
    }                                                                                                                  \
    return (kept) > 8 ? call(NARROW, 2, kept) : (kept) == 8 ? call(NARROW, 1, 8) : call(NARROW, 1, kept);

int64_t sh_encode_decimals(const void *numbers, const uint8_t *valid, int64_t first, int64_t count, int64_t width,
                           int64_t precision, uint8_t *out) {
    const struct limit limit = ten_to(precision);
    int64_t kept = width - 1;
#define ENCODE(size, used, kept) encode(numbers, valid, first, count, size, used, kept, &limit, out)
    BY_WORDS(precision, kept, ENCODE)
}

int64_t sh_decode_decimals(const uint8_t *entries, int64_t count, int64_t width, int64_t precision, void *numbers,
                           uint8_t *valid) {
    const struct limit limit = ten_to(precision);
    int64_t kept = width - 1;
#define DECODE(size, used, kept) decode(entries, count, size, used, kept, &limit, numbers, valid)
    BY_WORDS(precision, kept, DECODE)
}
