/* Texts and numbers of types whose values a codec makes bytes of: dates, times of the day, decimals of one width. */
#include "scan/coded.h"
#include "bytes/bytes.h"
#include "scan/instants.h"
#include "scan/numbers.h"

enum { WORD_DIGITS = 18, NARROW_DIGITS = 38, WORDS = 4, CHUNK = 8, LONGEST = 128 };

/* A number as words, the lowest first; those from `used` on are 0. */
struct words {
    uint64_t word[WORDS];
    int used;
};

static void put_words(struct sh_column *column, int64_t row, uint64_t *words, int negative) {
    int64_t count = column->high > NARROW_DIGITS ? WORDS : WORDS / 2;
    uint64_t sign = negative ? ~UINT64_C(0) : 0, carry = sign & 1;
    for (int k = 0; k < count; k++) {
        words[k] = (words[k] ^ sign) + carry;
        carry &= words[k] == 0;
    }
    memcpy((uint8_t *)column->values + row * count * 8, words, (size_t)count * 8);
}

static const uint64_t CHUNK_TENS[CHUNK + 1] = {1, 10, 100, 1000, 10000, 100000, 1000000, 10000000, 100000000};

/* The digits from p to `stop` behind those of a number of at most 38 in all. Bytes are there up to `end`. */
static inline unsigned __int128 with_digits(unsigned __int128 number, const uint8_t *p, const uint8_t *stop,
                                            const uint8_t *end) {
    for (; stop - p >= CHUNK; p += CHUNK) {
        number = number * CHUNK_TENS[CHUNK] + digits_value(word_at(p, end), CHUNK);
    }
    return stop > p ? number * CHUNK_TENS[stop - p] + digits_value(word_at(p, end), (int)(stop - p)) : number;
}

static inline unsigned __int128 with_zeros(unsigned __int128 number, int64_t count) {
    for (; count > CHUNK; count -= CHUNK) {
        number *= CHUNK_TENS[CHUNK];
    }
    return number * CHUNK_TENS[count];
}

/* The digits from p to `end` behind those that the number has. */
static void add_digits(const uint8_t *p, const uint8_t *end, struct words *number) {
    for (int64_t n = CHUNK; p < end; p += n) {
        n = end - p < CHUNK ? end - p : CHUNK;
        unsigned __int128 carry = digits_value(word_at(p, end), (int)n);
        for (int k = 0; k < number->used; k++) {
            carry += (unsigned __int128)number->word[k] * CHUNK_TENS[n];
            number->word[k] = (uint64_t)carry;
            carry >>= 64;
        }
        if (carry != 0 && number->used < WORDS) {
            number->word[number->used++] = (uint64_t)carry;
        }
    }
}

static const uint8_t *past_digits(const uint8_t *p, const uint8_t *end) {
    for (int n = CHUNK; n == CHUNK; p += n) {
        n = digit_count(word_at(p, end));
    }
    return p;
}

/* A number of any precision, digits with a point or without. `strict`: as JSON writes it. */
static const uint8_t *put_digits(struct sh_column *column, int64_t row, const uint8_t *p, const uint8_t *end,
                                 int strict) {
    int negative = p < end && *p == '-';
    p += negative || (!strict && p < end && *p == '+');
    const uint8_t *stop = end - p > LONGEST ? p + LONGEST : end, *whole = past_digits(p, stop), *last = whole;
    if (whole == p || (strict && *p == '0' && whole - p > 1)) {
        return NULL;
    }
    if (whole < stop && *whole == '.') {
        last = past_digits(whole + 1, stop);
        if (last == whole + 1) {
            return NULL;
        }
    }
    if (last == stop && stop != end) {
        return NULL;
    }
    while (p < whole && *p == '0') {
        p++;
    }
    int64_t behind = last > whole ? last - whole - 1 : 0;
    if (behind > column->digits || whole - p > column->high - column->digits) {
        return NULL;
    }
    struct words number = {{0, 0, 0, 0}, 0};
    if (LIKELY(whole - p + column->digits <= NARROW_DIGITS)) {
        unsigned __int128 narrow = with_digits(0, p, whole, end);
        narrow = with_zeros(behind > 0 ? with_digits(narrow, whole + 1, last, end) : narrow, column->digits - behind);
        number.word[0] = (uint64_t)narrow;
        number.word[1] = (uint64_t)(narrow >> 64);
        put_words(column, row, number.word, negative);
        return last;
    }
    static const uint8_t ZEROS[] = "0000000000000000000000000000000000000000000000000000000000000000000000000000";
    add_digits(p, whole, &number);
    if (behind > 0) {
        add_digits(whole + 1, last, &number);
    }
    add_digits(ZEROS, ZEROS + column->digits - behind, &number);
    put_words(column, row, number.word, negative);
    return last;
}

static int put_whole(struct sh_column *column, int64_t row, const struct sh_number *number) {
    static const int64_t TENS[WORD_DIGITS + 1] = {INT64_C(1),
                                                  INT64_C(10),
                                                  INT64_C(100),
                                                  INT64_C(1000),
                                                  INT64_C(10000),
                                                  INT64_C(100000),
                                                  INT64_C(1000000),
                                                  INT64_C(10000000),
                                                  INT64_C(100000000),
                                                  INT64_C(1000000000),
                                                  INT64_C(10000000000),
                                                  INT64_C(100000000000),
                                                  INT64_C(1000000000000),
                                                  INT64_C(10000000000000),
                                                  INT64_C(100000000000000),
                                                  INT64_C(1000000000000000),
                                                  INT64_C(10000000000000000),
                                                  INT64_C(100000000000000000),
                                                  INT64_C(1000000000000000000)};
    int64_t value;
    if (!sh_scaled(number, column->digits, &value) || value >= TENS[column->high] || value <= -TENS[column->high]) {
        return 0;
    }
    int64_t *out = (int64_t *)column->values + 2 * row;
    out[0] = value;
    out[1] = value < 0 ? -1 : 0;
    return 1;
}

const uint8_t *sh_put_decimal(struct sh_column *column, int64_t row, const uint8_t *p, const uint8_t *end) {
    struct sh_number number;
    if (column->high > WORD_DIGITS) {
        return put_digits(column, row, p, end, 1);
    }
    p = sh_number(p, end, &number);
    return p != NULL && put_whole(column, row, &number) ? p : NULL;
}

int sh_put_coded(struct sh_scan *scan, struct sh_column *column, int64_t row, const uint8_t *p, const uint8_t *stop) {
    struct sh_number number;
    int64_t value;
    switch (column->kind) {
    case SH_DATE:
        value = stop - p == 10 ? sh_day(scan, p) : SH_NO_INSTANT;
        if (value == SH_NO_INSTANT) {
            return 0;
        }
        ((int32_t *)column->values)[row] = (int32_t)value;
        return 1;
    case SH_TIME:
        value = sh_clock(p, stop);
        if (value == SH_NO_INSTANT || value % column->high != 0) {
            return 0;
        }
        ((int64_t *)column->values)[row] = value;
        return 1;
    default:
        if (column->high > WORD_DIGITS) {
            return put_digits(column, row, p, stop, 0) == stop;
        }
        return sh_text_number(p, stop, &number) == stop && put_whole(column, row, &number);
    }
}
