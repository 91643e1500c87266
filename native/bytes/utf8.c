/* Strict UTF-8, eight bytes at a time where they are ASCII. */
#include "bytes/utf8.h"
#include "bytes/bytes.h"

static inline int follows(uint8_t byte) { return (byte & 0xC0) == 0x80; }

int64_t sh_character(const uint8_t *p, const uint8_t *end) {
    uint8_t lead = *p;
    int64_t length = lead < 0xC2 ? 0 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : lead < 0xF5 ? 4 : 0;
    if (length == 0 || end - p < length || !follows(p[1])) {
        return 0;
    }
    if (length > 2 && !follows(p[2])) {
        return 0;
    }
    if (length > 3 && !follows(p[3])) {
        return 0;
    }
    if ((lead == 0xE0 && p[1] < 0xA0) || (lead == 0xED && p[1] > 0x9F)) {
        return 0; /* longer than need be; half a surrogate pair */
    }
    if ((lead == 0xF0 && p[1] < 0x90) || (lead == 0xF4 && p[1] > 0x8F)) {
        return 0; /* longer than need be; beyond U+10FFFF */
    }
    return length;
}

int sh_is_text(const uint8_t *p, const uint8_t *stop) {
    const uint8_t *start = p;
    while (p < stop) {
        if (stop - p < 8 && stop - start >= 8 &&
            ((word_at(stop - 8, stop) >> 8 * (8 - (stop - p))) & UINT64_C(0x8080808080808080)) == 0) {
            return 1; /* the last bytes at once */
        }
        if (stop - p >= 8 && (word_at(p, stop) & UINT64_C(0x8080808080808080)) == 0) {
            p += 8;
        } else if (*p < 0x80) {
            p++;
        } else {
            int64_t length = sh_character(p, stop);
            if (length == 0) {
                return 0;
            }
            p += length;
        }
    }
    return 1;
}

int sh_is_ascii(const uint8_t *p, const uint8_t *stop) {
    uint64_t all = 0;
    for (; stop - p >= 8; p += 8) {
        uint64_t word;
        memcpy(&word, p, 8);
        all |= word;
    }
    return ((all | word_at(p, stop)) & UINT64_C(0x8080808080808080)) == 0;
}
