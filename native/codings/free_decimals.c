/* Numbers of any length: the scale in four bytes, then the unscaled value as two's complement, as few bytes as hold it.
 * A plain decimal text has no exponent, and read is one without zeros behind the last digit. */
#include "bytes/tens.h"
#include "codings/codings.h"
#include "codings/entries.h"

enum { LONGEST = 4000, DIGITS = LONGEST + 2, SCALE = 4, MOST_SCALE = 2 * LONGEST, CHUNK = 16, HALF = 8 };
enum { WORDS = 210, LIMBS = 2 * WORDS, LIMB = 4, LIMB_DIGITS = 9, LIMB_TENS = 1000000000 };

typedef unsigned __int128 wide;

/* The digits of a number with `scale` of them behind the point; none in front is 0, if there are any. */
struct digits {
    int64_t count, scale;
    int negative;
    uint8_t digit[DIGITS + CHUNK];
};

static int take_digits(struct digits *number, const uint8_t *p, const uint8_t *stop, int whole) {
    int64_t count = 0, behind = -1;
    number->negative = p < stop && *p == '-';
    p += number->negative;
    if (p == stop || *p == '.' || stop[-1] == '.') {
        return 0;
    }
    for (; p < stop; p++) {
        if (*p == '.' && behind < 0 && !whole) {
            behind = 0;
            continue;
        }
        if ((uint8_t)(*p - '0') > 9) {
            return 0;
        }
        behind += behind >= 0;
        if (count > 0 || *p != '0') {
            if (count == DIGITS) {
                return 0;
            }
            number->digit[count++] = *p;
        }
    }
    number->scale = behind > 0 ? behind : 0;
    while (!whole && count > 0 && number->digit[count - 1] == '0') {
        count--;
        number->scale--;
    }
    number->scale = count > 0 ? number->scale : 0;
    number->negative &= count > 0;
    number->count = count;
    return 1;
}

static inline uint64_t value_of(const uint8_t *p, const uint8_t *end, int64_t count) {
    uint64_t value = digits_value(word_at(p, end), (int)(count < HALF ? count : HALF));
    return count <= HALF ? value : value * TENS[count - HALF] + digits_value(word_at(p + HALF, end), (int)count - HALF);
}

/* The words of the number, the lowest first; how many there are, none of them in front 0. */
static int64_t words_of(const struct digits *number, uint64_t *words) {
    const uint8_t *p = number->digit, *stop = p + number->count;
    int64_t used = 0;
    while (p < stop) {
        int64_t count = stop - p < CHUNK ? stop - p : CHUNK;
        uint64_t carry = value_of(p, stop, count);
        for (int64_t k = 0; k < used; k++) {
            wide product = (wide)words[k] * TENS[count] + carry;
            words[k] = (uint64_t)product;
            carry = (uint64_t)(product >> 64);
        }
        if (carry != 0) {
            words[used++] = carry;
        }
        p += count;
    }
    return used;
}

static inline int64_t bit_length(const uint64_t *words, int64_t used) {
    return used == 0 ? 0 : 64 * used - __builtin_clzll(words[used - 1]);
}

static void change_sign(uint64_t *words, int64_t used) {
    int carry = 1;
    for (int64_t k = 0; k < used; k++) {
        words[k] = ~words[k] + (uint64_t)carry;
        carry &= words[k] == 0;
    }
}

/* The bytes of one number; NULL where there is no room. */
static uint8_t *put_number(uint8_t *out, const uint8_t *limit, const struct digits *number) {
    uint64_t words[WORDS + 1];
    int64_t used = words_of(number, words), bits = bit_length(words, used);
    if (number->negative && used > 0 && (words[used - 1] & (words[used - 1] - 1)) == 0) { /* -2^n has one bit fewer */
        int low = 0;
        for (int64_t k = 0; k < used - 1; k++) {
            low |= words[k] != 0;
        }
        bits -= !low;
    }
    int64_t size = bits / BITS + 1;
    if (limit - out < SCALE + size) {
        return NULL;
    }
    words[used] = 0;
    if (number->negative) {
        change_sign(words, used + 1);
    }
    uint32_t scale = __builtin_bswap32((uint32_t)(int32_t)number->scale);
    memcpy(out, &scale, SCALE);
    out += SCALE + size;
    for (int64_t i = 0; i < size; i++) {
        out[-1 - i] = (uint8_t)(words[i / 8] >> (BITS * (i % 8)));
    }
    return out;
}

int64_t sh_encode_free_decimals(const int32_t *starts, const uint8_t *valid, int64_t first, int64_t count,
                                const uint8_t *data, int64_t size, int64_t whole, int64_t *ends, uint8_t *out,
                                int64_t room) {
    struct digits number;
    uint8_t *p = out;
    for (int64_t i = 0; i < count; i++) {
        if (is_valid(valid, first + i)) {
            int64_t low = starts[i], high = starts[i + 1];
            if (!is_range(low, high, size) || !take_digits(&number, data + low, data + high, whole != 0)) {
                return -1;
            }
            p = put_number(p, out + room, &number);
            if (p == NULL) {
                return -1;
            }
        }
        ends[i] = p - out;
    }
    return p - out;
}

/* The number of two's complement from p to `stop`; 0 in doubt, and for more digits than are written. */
static int read_digits(struct digits *number, const uint8_t *p, const uint8_t *stop) {
    uint32_t limbs[LIMBS];
    int64_t size = stop - p;
    if (size < 1 || size > (int64_t)LIMBS * LIMB) {
        return 0;
    }
    int64_t used = (size + LIMB - 1) / LIMB;
    number->negative = (*p & 0x80) != 0;
    uint32_t flip = number->negative ? UINT32_MAX : 0;
    uint64_t carry = number->negative;
    for (int64_t k = 0; k < used; k++) {
        int64_t left = size - LIMB * k, taken = left < LIMB ? left : LIMB;
        uint32_t limb = 0;
        for (int64_t i = 0; i < taken; i++) {
            limb |= (uint32_t)(uint8_t)(stop[-1 - LIMB * k - i] ^ flip) << (BITS * i);
        }
        carry += limb;
        limbs[k] = (uint32_t)carry;
        carry >>= 32;
    }
    while (used > 0 && limbs[used - 1] == 0) {
        used--;
    }
    int64_t bits = used > 0 ? 32 * used - __builtin_clz(limbs[used - 1]) : 0;
    number->count = bits * 30103 / 100000 + 1; /* or one less */
    if (number->count + (number->scale < 0 ? -number->scale : 0) > DIGITS) {
        return 0;
    }
    uint8_t *end = number->digit + sizeof number->digit, *digit = end;
    while (used > 0) {
        uint64_t rest = 0;
        for (int64_t k = used - 1; k >= 0; k--) {
            rest = rest << 32 | limbs[k];
            limbs[k] = (uint32_t)(rest / LIMB_TENS);
            rest %= LIMB_TENS;
        }
        used -= limbs[used - 1] == 0;
        for (int i = 0; i < LIMB_DIGITS && (used > 0 || rest > 0); i++, rest /= 10) {
            *--digit = (uint8_t)('0' + rest % 10);
        }
    }
    number->count = end - digit;
    memmove(number->digit, digit, (size_t)number->count);
    return 1;
}

static inline uint8_t *put_bytes(uint8_t *out, const uint8_t *p, int64_t count) {
    memcpy(out, p, (size_t)count);
    return out + count;
}

static inline uint8_t *put_zeros(uint8_t *out, int64_t count) {
    memset(out, '0', (size_t)count);
    return out + count;
}

/* The text of a number, written if there is room; returns its length. */
static int64_t put_text(uint8_t *out, int64_t room, const struct digits *number) {
    int64_t count = number->count, scale = number->scale, zeros = 0;
    while (zeros < count && number->digit[count - 1 - zeros] == '0') {
        zeros++;
    }
    int64_t front = count > scale ? count - scale : 0, behind = scale > zeros && count > 0 ? scale - zeros : 0;
    front = count == 0 ? 0 : front;
    int64_t size = (number->negative && count > 0) + (front > 0 ? front : 1) + (behind > 0 ? 1 + behind : 0);
    if (size > room) {
        return size;
    }
    if (number->negative && count > 0) {
        *out++ = '-';
    }
    int64_t there = front < count ? front : count;
    out = put_zeros(put_bytes(out, number->digit, there), front > 0 ? front - there : 1);
    if (behind > 0) {
        int64_t between = scale > count ? scale - count : 0;
        *out++ = '.';
        put_bytes(put_zeros(out, between), number->digit + there, behind - between);
    }
    return size;
}

int64_t sh_decode_free_decimals(const int64_t *ends, int64_t count, const uint8_t *data, int64_t bytes, int64_t whole,
                                int32_t *starts, uint8_t *valid, uint8_t *out, int64_t room) {
    struct digits number;
    int64_t used = 0;
    starts[0] = 0;
    memset(valid, 0, (size_t)((count + 7) / 8));
    for (int64_t i = 0; i < count; i++) {
        int64_t low = ends[i], high = ends[i + 1];
        if (!is_range(low, high, bytes)) {
            return -1;
        }
        if (high > low) {
            uint32_t scale;
            if (high - low <= SCALE) {
                return -1;
            }
            memcpy(&scale, data + low, SCALE);
            number.scale = (int32_t)__builtin_bswap32(scale);
            if (number.scale > MOST_SCALE || number.scale < -MOST_SCALE || (whole != 0 && number.scale != 0) ||
                !read_digits(&number, data + low + SCALE, data + high)) {
                return -1;
            }
            used += put_text(out + (used < room ? used : room), room - used, &number);
            if (used > INT32_MAX) {
                return -1;
            }
            set_valid(valid, i);
        }
        starts[i + 1] = (int32_t)used;
    }
    return used;
}
