/* Texts and numbers of types whose values a codec makes bytes of: dates, times of the day, decimals of one width. */
#include "scan/coded.h"
#include "bytes/bytes.h"
#include "bytes/tens.h"
#include "scan/instants.h"
#include "scan/numbers.h"

enum { WORD_DIGITS = 18, NARROW_DIGITS = 38, WORDS = 4, CHUNK = 8, LONGEST = 128, DATE = 10, SECOND = 1000000000 };

/* A number as words, the lowest first; those from `used` on are 0. */
struct words {
    uint64_t word[WORDS];
    int used;
};

static void put_words(struct sh_column *column, int64_t row, uint64_t *words, int negative) {
    uint64_t sign = negative ? ~UINT64_C(0) : 0, carry = sign & 1;
    for (int k = 0; k < WORDS; k++) {
        words[k] = (words[k] ^ sign) + carry;
        carry &= words[k] == 0;
    }
    memcpy((uint64_t *)column->values + row * WORDS, words, WORDS * sizeof *words);
}

/* A number of at most 38 digits. */
static inline void put_narrow(struct sh_column *column, int64_t row, unsigned __int128 number, int negative) {
    number = negative ? 0 - number : number;
    uint64_t words[WORDS] = {(uint64_t)number, (uint64_t)(number >> 64), 0, 0};
    if (column->high <= NARROW_DIGITS) {
        memcpy((uint64_t *)column->values + row * WORDS / 2, words, sizeof number);
        return;
    }
    words[2] = words[3] = 0 - (words[1] >> 63);
    memcpy((uint64_t *)column->values + row * WORDS, words, sizeof words);
}

/* The digits from p on behind those of a number, which stays below 2^128 while all of them are at most 38. */
static inline const uint8_t *more_digits(const uint8_t *p, const uint8_t *end, unsigned __int128 *number) {
    for (;;) {
        uint64_t word = word_at(p, end);
        int n = digit_count(word);
        if (n == 0) {
            return p;
        }
        *number = *number * TENS[n] + digits_value(word, n);
        p += n;
        if (n < CHUNK) {
            return p;
        }
    }
}

static inline unsigned __int128 with_zeros(unsigned __int128 number, int64_t count) {
    for (; count > WORD_DIGITS; count -= WORD_DIGITS) {
        number *= TENS[WORD_DIGITS];
    }
    return number * TENS[count];
}

/* The digits from p to `end` behind those that the number has. */
static void add_digits(const uint8_t *p, const uint8_t *end, struct words *number) {
    for (int64_t n = CHUNK; p < end; p += n) {
        n = end - p < CHUNK ? end - p : CHUNK;
        unsigned __int128 carry = digits_value(word_at(p, end), (int)n);
        for (int k = 0; k < number->used; k++) {
            carry += (unsigned __int128)number->word[k] * TENS[n];
            number->word[k] = (uint64_t)carry;
            carry >>= 64;
        }
        if (carry != 0 && number->used < WORDS) {
            number->word[number->used++] = (uint64_t)carry;
        }
    }
}

/* A number of any precision, digits with a point or without. `strict`: as JSON writes it. */
static const uint8_t *put_digits(struct sh_column *column, int64_t row, const uint8_t *p, const uint8_t *end,
                                 int strict) {
    int negative = p < end && *p == '-';
    p += negative || (!strict && p < end && *p == '+');
    unsigned __int128 narrow = 0;
    const uint8_t *stop = end - p > LONGEST ? p + LONGEST : end;
    const uint8_t *whole = more_digits(p, stop, &narrow), *last = whole;
    if (whole == p || (strict && *p == '0' && whole - p > 1)) {
        return NULL;
    }
    if (whole < stop && *whole == '.') {
        last = more_digits(whole + 1, stop, &narrow);
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
    if (LIKELY(whole - p + column->digits <= NARROW_DIGITS)) {
        put_narrow(column, row, with_zeros(narrow, column->digits - behind), negative);
        return last;
    }
    static const uint8_t ZEROS[] = "0000000000000000000000000000000000000000000000000000000000000000000000000000";
    struct words number = {{0, 0, 0, 0}, 0};
    add_digits(p, whole, &number);
    if (behind > 0) {
        add_digits(whole + 1, last, &number);
    }
    add_digits(ZEROS, ZEROS + column->digits - behind, &number);
    put_words(column, row, number.word, negative);
    return last;
}

static int put_whole(struct sh_column *column, int64_t row, const struct sh_number *number) {
    int64_t value;
    if (!sh_scaled(number, column->digits, &value) || (uint64_t)(value < 0 ? -value : value) >= TENS[column->high]) {
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

const uint8_t *sh_put_coded(struct sh_scan *scan, struct sh_column *column, int64_t row, const uint8_t *p,
                            const uint8_t *end) {
    struct sh_number number;
    int64_t value;
    switch (column->kind) {
    case SH_DATE:
        value = end - p >= DATE ? sh_day(scan, p) : SH_NO_INSTANT;
        if (value == SH_NO_INSTANT) {
            return NULL;
        }
        ((int32_t *)column->values)[row] = (int32_t)value;
        return p + DATE;
    case SH_TIME:
        p = sh_clock(p, end, &value);
        if (p == NULL || (uint32_t)(value % SECOND) % (uint32_t)column->high != 0) {
            return NULL;
        }
        ((int64_t *)column->values)[row] = value;
        return p;
    default:
        if (column->high > WORD_DIGITS) {
            return put_digits(column, row, p, end, 0);
        }
        p = sh_text_number(p, end, &number);
        return p != NULL && put_whole(column, row, &number) ? p : NULL;
    }
}
