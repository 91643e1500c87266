/* Values of bytes, each a text: base64, or a JSON array of numbers. */
#include "scan/elements.h"

enum { GROUP = 4, BITS = 6, NONE = 0x80 };
enum { BASE64, STRING, STRING_OR_ARRAY }; /* forms of texts */

/* What a character of base64 stands for; NONE for others. */
/* clang-format off */
static const uint8_t SIXTH[256] = {
    0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80,
    0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80,
    0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x3E, 0x80, 0x80, 0x80, 0x3F,
    0x34, 0x35, 0x36, 0x37, 0x38, 0x39, 0x3A, 0x3B, 0x3C, 0x3D, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80,
    0x80, 0x00, 0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08, 0x09, 0x0A, 0x0B, 0x0C, 0x0D, 0x0E,
    0x0F, 0x10, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18, 0x19, 0x80, 0x80, 0x80, 0x80, 0x80,
    0x80, 0x1A, 0x1B, 0x1C, 0x1D, 0x1E, 0x1F, 0x20, 0x21, 0x22, 0x23, 0x24, 0x25, 0x26, 0x27, 0x28,
    0x29, 0x2A, 0x2B, 0x2C, 0x2D, 0x2E, 0x2F, 0x30, 0x31, 0x32, 0x33, 0x80, 0x80, 0x80, 0x80, 0x80,
    0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80,
    0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80,
    0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80,
    0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80,
    0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80,
    0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80,
    0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80,
    0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80,
};
/* clang-format on */

/* Three bytes of a group of four characters; NONE or above if one of them is none. */
static inline uint32_t group_at(const uint8_t *p, uint32_t *odd) {
    uint32_t a = SIXTH[p[0]], b = SIXTH[p[1]], c = SIXTH[p[2]], d = SIXTH[p[3]];
    *odd |= a | b | c | d;
    return a << (3 * BITS) | b << (2 * BITS) | c << BITS | d;
}

/* The bytes of base64 from p to `stop`; how many there are, -1 in doubt. */
static int64_t put_base64(uint8_t *out, const uint8_t *p, const uint8_t *stop) {
    const uint8_t *first = out;
    uint32_t odd = 0;
    if ((stop - p) % GROUP != 0) {
        return -1;
    }
    if (p == stop) {
        return 0;
    }
    for (; p < stop - GROUP; p += GROUP, out += 3) {
        uint32_t bytes = group_at(p, &odd);
        out[0] = (uint8_t)(bytes >> 16);
        out[1] = (uint8_t)(bytes >> 8);
        out[2] = (uint8_t)bytes;
    }
    int left = p[3] != '=' ? 3 : p[2] != '=' ? 2 : 1;
    uint8_t last[GROUP] = {p[0], p[1], left > 1 ? p[2] : 'A', left > 2 ? p[3] : 'A'};
    uint32_t bytes = group_at(last, &odd);
    if ((odd & NONE) != 0 || (left < 3 && (bytes << (8 * left + 8)) != 0)) {
        return -1;
    }
    for (int i = 0; i < left; i++) {
        *out++ = (uint8_t)(bytes >> (16 - 8 * i));
    }
    return out - first;
}

/* The bytes of an array of numbers from -128 to 127 from p to `end`. */
static int64_t put_numbers(uint8_t *out, const uint8_t *p, const uint8_t *end) {
    const uint8_t *first = out;
    p = sh_blanks(p + 1, end);
    if (p < end && *p == ']') {
        return p + 1 == end ? 0 : -1;
    }
    for (;;) {
        struct sh_number number;
        int64_t whole;
        p = sh_number(p, end, &number);
        if (p == NULL || !sh_whole(&number, &whole) || whole < INT8_MIN || whole > INT8_MAX) {
            return -1;
        }
        *out++ = (uint8_t)whole;
        p = sh_blanks(p, end);
        if (p >= end || *p != ',') {
            return p < end && *p == ']' && p + 1 == end ? out - first : -1;
        }
        p = sh_blanks(p + 1, end);
    }
}

/* Text i is data[ends[i]] to data[ends[i + 1]] where wanted[i] is 1. `out` has room for as many bytes as the texts have;
 * value_ends gets 0 and then the end of each value. doubt[i] is 1 for a text that is not taken, else 0; neither it nor
 * one that is not wanted has bytes. */
void sh_byte_values(const uint8_t *data, const int32_t *ends, const uint8_t *wanted, int64_t count, int64_t form,
                    int32_t *value_ends, uint8_t *out, uint8_t *doubt) {
    int64_t used = 0;
    value_ends[0] = 0;
    for (int64_t i = 0; i < count; i++) {
        const uint8_t *p = data + ends[i], *stop = data + ends[i + 1];
        int64_t size = -1;
        if (wanted[i] && form == BASE64) {
            size = put_base64(out + used, p, stop);
        } else if (wanted[i] && stop - p >= 2 && *p == '"' && stop[-1] == '"') {
            size = put_base64(out + used, p + 1, stop - 1);
        } else if (wanted[i] && form == STRING_OR_ARRAY && p < stop && *p == '[') {
            size = put_numbers(out + used, p, stop);
        }
        doubt[i] = wanted[i] && size < 0;
        used += size > 0 ? size : 0;
        value_ends[i + 1] = (int32_t)used;
    }
}
