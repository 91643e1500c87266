/* Numbers: 19 digits exactly, to whole numbers and to the nearest double.
 *
 * The double is found as in D. Lemire, "Number parsing at a gigabyte per second" (2021): one product of the digits
 * with a power of five of 128 bits, which tells the nearest double unless it says itself that it does not. Then, and
 * among the subnormal numbers, the value is in doubt. Of more than 19 digits the first 19 count; the value is the
 * double that is nearest to these and to the next larger ones.
 */
#include "scan/numbers.h"
#include "bytes/bytes.h"
#include "bytes/tens.h"

static const double EXACT_TENS[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                    1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

enum { MOST_DIGITS = 19, LOWEST_POWER = -342, HIGHEST_POWER = 308 };

/* Digits from p on are added to *value; *count of them, those of *value included, is at most MOST_DIGITS. */
__attribute__((nonnull)) static const uint8_t *more_digits(const uint8_t *p, const uint8_t *end, uint64_t *value,
                                                           int *count) {
    for (;;) {
        uint64_t word = word_at(p, end);
        int n = digit_count(word);
        if (n == 0) {
            return p;
        }
        *count += n;
        if (UNLIKELY(*count > MOST_DIGITS)) {
            return NULL;
        }
        *value = *value * TENS[n] + digits_value(word, n);
        p += n;
        if (n < 8) {
            return p;
        }
    }
}

/* The digits of a number with more than MOST_DIGITS, one by one. */
static const uint8_t *long_number(const uint8_t *p, const uint8_t *end, struct sh_number *out, int strict) {
    int count = 0, point = 0;
    out->digits = 0;
    out->power = 0;
    if (strict && *p == '0' && end - p > 1 && p[1] != '.') {
        return NULL;
    }
    for (; p < end; p++) {
        unsigned digit = *p - 48u;
        if (digit <= 9 && count < MOST_DIGITS) {
            out->digits = out->digits * 10 + digit;
            count += out->digits != 0;
            out->power -= point;
        } else if (digit <= 9) {
            out->more |= digit != 0;
            out->power += !point;
        } else if (*p == '.' && !point) {
            point = 1;
        } else {
            break;
        }
    }
    return strict && p[-1] == '.' ? NULL : p;
}

/* The digits of a number, with a point or without; `strict` as JSON writes it. */
static inline const uint8_t *digits_at(const uint8_t *p, const uint8_t *end, struct sh_number *out, int strict) {
    const uint8_t *first = p;
    uint64_t value = 0;
    int count = 0;
    out->power = 0;
    p = more_digits(p, end, &value, &count);
    if (UNLIKELY(p == NULL)) {
        return long_number(first, end, out, strict);
    }
    if (strict && (p == first || (*first == '0' && p - first > 1))) {
        return NULL;
    }
    if (p < end && *p == '.') {
        const uint8_t *point = p++;
        if (value == 0) { /* zeros before the first digit that counts */
            while (p < end && *p == '0') {
                p++;
            }
            count = 0;
        }
        p = more_digits(p, end, &value, &count);
        if (UNLIKELY(p == NULL)) {
            return long_number(first, end, out, strict);
        }
        if (p == point + 1 && (strict || point == first)) {
            return NULL;
        }
        out->power = -(p - point - 1);
    } else if (p == first) {
        return NULL;
    }
    out->digits = value;
    return p;
}

/* What follows the number is for the caller to look at. */
static inline const uint8_t *number_at(const uint8_t *p, const uint8_t *end, struct sh_number *out, int strict) {
    out->negative = p < end && *p == '-';
    out->more = 0;
    p += out->negative || (!strict && p < end && *p == '+');
    while (!strict && end - p > 1 && *p == '0' && p[1] >= '0' && p[1] <= '9') {
        p++;
    }
    p = digits_at(p, end, out, strict);
    if (p != NULL && p < end && (*p | 0x20) == 'e') {
        p++;
        int down = p < end && *p == '-';
        p += down || (p < end && *p == '+');
        uint64_t word = word_at(p, end);
        int n = digit_count(word);
        if (n == 0 || n > 5) {
            return NULL;
        }
        int64_t exponent = (int64_t)digits_value(word, n);
        out->power += down ? -exponent : exponent;
        p += n;
    }
    return p;
}

const uint8_t *sh_number(const uint8_t *p, const uint8_t *end, struct sh_number *out) {
    return number_at(p, end, out, 1);
}

const uint8_t *sh_text_number(const uint8_t *p, const uint8_t *end, struct sh_number *out) {
    return number_at(p, end, out, 0);
}

/* digits * 10^power with a sign, if it is whole and larger than the smallest int64. */
static int shifted(const struct sh_number *number, int64_t power, int64_t *out) {
    uint64_t value = number->digits;
    if (number->more) {
        return 0;
    }
    if (value != 0 && power < 0) {
        if (power < -MOST_DIGITS || value % TENS[-power] != 0) {
            return 0;
        }
        value /= TENS[-power];
    } else if (value != 0 && power > 0) {
        if (power > MOST_DIGITS || __builtin_mul_overflow(value, TENS[power], &value)) {
            return 0;
        }
    }
    if (value > INT64_MAX) {
        return 0;
    }
    *out = number->negative ? -(int64_t)value : (int64_t)value;
    return 1;
}

int sh_whole(const struct sh_number *number, int64_t *out) { return shifted(number, number->power, out); }

/* The number times 10^digits. */
int sh_scaled(const struct sh_number *number, int64_t digits, int64_t *out) {
    return shifted(number, number->power + digits, out);
}

/* Bits of the nearest double of value * 10^power, neither zero; 0 if they are not known. */
static uint64_t nearest(uint64_t value, int64_t power, const uint64_t *powers) {
    if (power < LOWEST_POWER || power > HIGHEST_POWER) {
        return 0;
    }
    int zeros = __builtin_clzll(value);
    value <<= zeros;
    const uint64_t *five = powers + 2 * (power - LOWEST_POWER);
    unsigned __int128 product = (unsigned __int128)value * five[0];
    uint64_t high = (uint64_t)(product >> 64), low = (uint64_t)product;
    if ((high & 0x1FF) == 0x1FF) { /* the lower half of the power may carry into what counts */
        uint64_t more = (uint64_t)(((unsigned __int128)value * five[1]) >> 64);
        low += more;
        high += low < more;
    }
    if (low == UINT64_MAX && (power < -27 || power > 55)) {
        return 0; /* the power is not exact, and what it lacks might matter */
    }
    int top = (int)(high >> 63);
    uint64_t bits = high >> (top + 9); /* 54 bits: one more than a double has */
    int64_t exponent = ((217706 * power) >> 16) + 63 + top - zeros + 1023;
    if (exponent <= 0) {
        return 0;
    }
    if (low <= 1 && power >= -4 && power <= 23 && (bits & 3) == 1 && bits << (top + 9) == high) {
        bits &= ~UINT64_C(1); /* exactly between two doubles: the even one */
    }
    bits = (bits + (bits & 1)) >> 1;
    if (bits == UINT64_C(1) << 53) {
        bits >>= 1;
        exponent++;
    }
    if (exponent >= 0x7FF) {
        return 0;
    }
    return (bits & ~(UINT64_C(1) << 52)) | (uint64_t)exponent << 52;
}

int sh_double(const struct sh_number *number, const uint64_t *powers, double *out) {
    double value;
    if (number->digits == 0) {
        value = 0.0;
    } else if (number->digits <= UINT64_C(1) << 53 && !number->more && number->power >= -22 && number->power <= 22) {
        value = (double)number->digits; /* both exact, so that one operation rounds once */
        value = number->power < 0 ? value / EXACT_TENS[-number->power] : value * EXACT_TENS[number->power];
    } else {
        uint64_t bits = nearest(number->digits, number->power, powers);
        if (bits == 0 || (number->more && nearest(number->digits + 1, number->power, powers) != bits)) {
            return 0;
        }
        memcpy(&value, &bits, sizeof value);
    }
    *out = number->negative ? -value : value;
    return 1;
}

/* A number of any length in a field that is not wanted. */
const uint8_t *sh_skip_number(const uint8_t *p, const uint8_t *end) {
    p += p < end && *p == '-';
    const uint8_t *first = p;
    while (p < end && *p >= '0' && *p <= '9') {
        p++;
    }
    if (p == first || (*first == '0' && p - first > 1)) {
        return NULL;
    }
    if (p < end && *p == '.') {
        const uint8_t *point = p++;
        while (p < end && *p >= '0' && *p <= '9') {
            p++;
        }
        if (p == point + 1) {
            return NULL;
        }
    }
    if (p < end && (*p | 0x20) == 'e') {
        p++;
        p += p < end && (*p == '-' || *p == '+');
        const uint8_t *exponent = p;
        while (p < end && *p >= '0' && *p <= '9') {
            p++;
        }
        if (p == exponent) {
            return NULL;
        }
    }
    return p;
}
