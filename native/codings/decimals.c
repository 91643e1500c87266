/* Numbers of at most so many digits: a byte 1 for 0 and above or 0 below it, then the magnitude, whose bits are
 * inverted below 0. Null is 00, then FF: a zero below zero. */
#include "bytes/dispatch.h"
#include "codings/codings.h"
#include "codings/entries.h"

enum { NARROW_DIGITS = 38, WORD = 8 };

typedef unsigned __int128 half;

/* A number of 16 bytes, which are `low`, or of 32. */
struct number {
    half low, high;
};

static struct number ten_to(int64_t precision) {
    struct number power = {1, 0};
    for (int64_t digit = 0; digit < precision; digit++) { /* times 8, and times 2 */
        half low = (power.low << 3) + (power.low << 1);
        half carry = (power.low >> 125) + (power.low >> 127) + (low < power.low << 3);
        power.high = power.high * 10 + carry;
        power.low = low;
    }
    return power;
}

/* The same number, or where `sign` is all ones that below zero. */
INLINE struct number with_sign(struct number number, half sign) {
    number.low = (number.low ^ sign) - sign;
    number.high = (number.high ^ sign) + ((sign & 1) & (number.low == 0));
    return number;
}

INLINE int beyond(struct number magnitude, struct number limit, int64_t size) {
    int more = magnitude.low >= limit.low;
    return size == 16 ? more : (magnitude.high > limit.high) | ((magnitude.high == limit.high) & more);
}

INLINE uint64_t word_of(struct number number, int64_t index) {
    half part = index < 2 ? number.low : number.high;
    return (uint64_t)(index % 2 == 0 ? part : part >> 64);
}

/* Numbers of `size` bytes, whose magnitudes have `kept` bytes, the parts of `words` words. Of several words none is
 * written or read beyond its entry; the first is of `top` bytes, and those after it are part of the words that follow.
 */
INLINE int64_t encode(const uint8_t *numbers, const uint8_t *valid, int64_t first, int64_t count, int64_t size,
                      int64_t words, int64_t kept, struct number limit, uint8_t *out) {
    const uint8_t *end = out + count * (kept + 1);
    const int top = (int)(kept - WORD * (words - 1));
    int bad = 0;
    for (int64_t i = 0; i < count; i++, numbers += size, out += kept + 1) {
        half there = 0 - (half)is_valid(valid, first + i);
        struct number number = {0, 0};
        memcpy(&number, numbers, (size_t)size);
        number.low &= there;
        number.high &= there;
        half sign = 0 - ((size == 16 ? number.low : number.high) >> 127);
        number = with_sign(number, sign);
        bad |= beyond(number, limit, size);
        uint64_t inverted = (uint64_t)(sign | ~there); /* null is written as zero below zero */
        out[0] = (uint8_t)(1 + inverted);
        if (words == 1) {
            put_big(out + 1, end, word_of(number, 0) ^ inverted, top);
        } else {
            uint64_t word = __builtin_bswap64((word_of(number, words - 1) ^ inverted) << (BITS * (WORD - top)));
            memcpy(out + 1, &word, WORD);
        }
        for (int64_t k = words - 2; k >= 0; k--) {
            uint64_t word = __builtin_bswap64(word_of(number, k) ^ inverted);
            memcpy(out + 1 + kept - WORD * (k + 1), &word, WORD);
        }
    }
    return bad ? -1 : 1;
}

INLINE int64_t decode(const uint8_t *entries, int64_t count, int64_t size, int64_t words, int64_t kept,
                      struct number limit, uint8_t *numbers, uint8_t *valid) {
    const uint8_t *end = entries + count * (kept + 1);
    const int top = (int)(kept - WORD * (words - 1));
    const uint64_t most = ~UINT64_C(0) >> (BITS * (WORD - top));
    int64_t nulls = 0;
    int bad = 0;
    for (int64_t row = 0; row < count; row += BLOCK) {
        int64_t rows = count - row < BLOCK ? count - row : BLOCK;
        uint64_t there = 0;
        for (int64_t i = 0; i < rows; i++, entries += kept + 1, numbers += size) {
            uint64_t inverted = (uint64_t)entries[0] - 1, word[4] = {0, 0, 0, 0};
            for (int64_t k = 0; k < words - 1; k++) {
                memcpy(word + k, entries + 1 + kept - WORD * (k + 1), WORD);
                word[k] = __builtin_bswap64(word[k]) ^ inverted;
            }
            if (words == 1) {
                word[0] = big_at(entries + 1, end, top);
            } else {
                memcpy(word + words - 1, entries + 1, WORD);
                word[words - 1] = __builtin_bswap64(word[words - 1]) >> (BITS * (WORD - top));
            }
            word[words - 1] ^= inverted & most;
            struct number number = {(half)word[1] << 64 | word[0], (half)word[3] << 64 | word[2]};
            bad |= (entries[0] > 1) | beyond(number, limit, size);
            there |= (uint64_t)((word[0] | word[1] | word[2] | word[3] | ~inverted) != 0) << i;
            number = with_sign(number, (half)(__int128)(int64_t)inverted);
            memcpy(numbers, &number, (size_t)size);
        }
        nulls += put_valid(valid, row, rows, there);
    }
    return bad ? -1 : nulls;
}

/* One copy of a loop for each number of words that magnitudes have, and one for magnitudes that fill a word. */
#define BY_WORDS(precision, kept, call)                                                                                \
    if ((precision) > NARROW_DIGITS) {                                                                                 \
        return (kept) > 24 ? call(32, 4, kept) : call(32, 3, kept);                                                    \
    }                                                                                                                  \
    return (kept) > 8 ? call(16, 2, kept) : (kept) == 8 ? call(16, 1, 8) : call(16, 1, kept);

int64_t sh_encode_decimals(const void *numbers, const uint8_t *valid, int64_t first, int64_t count, int64_t width,
                           int64_t precision, uint8_t *out) {
    const struct number limit = ten_to(precision);
    int64_t kept = width - 1;
#define ENCODE(size, words, kept) encode(numbers, valid, first, count, size, words, kept, limit, out)
    BY_WORDS(precision, kept, ENCODE)
}

int64_t sh_decode_decimals(const uint8_t *entries, int64_t count, int64_t width, int64_t precision, void *numbers,
                           uint8_t *valid) {
    const struct number limit = ten_to(precision);
    int64_t kept = width - 1;
#define DECODE(size, words, kept) decode(entries, count, size, words, kept, limit, numbers, valid)
    BY_WORDS(precision, kept, DECODE)
}
