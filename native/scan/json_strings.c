/* Contents of JSON strings: strict UTF-8, no control characters, known escapes. */
#include "scan/json_strings.h"
#include "bytes/bytes.h"
#include "bytes/utf8.h"

#ifdef __SSE2__
#include <emmintrin.h>
#endif

/* The first byte from p on that is a quote, a backslash, a control character or no ASCII; end if there is none. */
static inline const uint8_t *plain_end(const uint8_t *p, const uint8_t *end) {
#ifdef __SSE2__
    while (end - p >= 16) {
        __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)p);
        __m128i odd = _mm_cmplt_epi8(bytes, _mm_set1_epi8(0x20)); /* signed: takes 0x80 to 0xFF too */
        odd = _mm_or_si128(odd, _mm_cmpeq_epi8(bytes, _mm_set1_epi8('"')));
        odd = _mm_or_si128(odd, _mm_cmpeq_epi8(bytes, _mm_set1_epi8('\\')));
        int mask = _mm_movemask_epi8(odd);
        if (mask) {
            return p + __builtin_ctz((unsigned)mask);
        }
        p += 16;
    }
#endif
    while (p < end && *p >= 0x20 && *p < 0x80 && *p != '"' && *p != '\\') {
        p++;
    }
    return p;
}

/* The four hexadecimal digits at p, -1 if they are none. */
static int64_t hexadecimal(const uint8_t *p) {
    int64_t value = 0;
    for (int i = 0; i < 4; i++) {
        unsigned byte = p[i], digit = byte - '0', letter = (byte | 0x20) - 'a';
        if (digit > 9 && letter > 5) {
            return -1;
        }
        value = value * 16 + (digit <= 9 ? digit : letter + 10);
    }
    return value;
}

/* Length of the escape at p, a backslash, and its character; 0 if in doubt: U+0000 and half surrogate pairs are too. */
static int64_t escape(const uint8_t *p, const uint8_t *end, uint32_t *out) {
    if (end - p < 2) {
        return 0;
    }
    static const char LETTERS[] = "\"\\/bfnrt", MEANT[] = "\"\\/\b\f\n\r\t";
    if (p[1] != 'u') {
        const char *place = p[1] ? strchr(LETTERS, p[1]) : NULL;
        if (place == NULL) {
            return 0;
        }
        *out = (uint8_t)MEANT[place - LETTERS];
        return 2;
    }
    int64_t unit = end - p >= 6 ? hexadecimal(p + 2) : -1;
    if (unit <= 0) {
        return 0;
    }
    if (unit < 0xD800 || unit > 0xDFFF) {
        *out = (uint32_t)unit;
        return 6;
    }
    int64_t second = end - p >= 12 && p[6] == '\\' && p[7] == 'u' ? hexadecimal(p + 8) : -1;
    if (unit > 0xDBFF || second < 0xDC00 || second > 0xDFFF) {
        return 0;
    }
    *out = (uint32_t)(0x10000 + ((unit - 0xD800) << 10) + (second - 0xDC00));
    return 12;
}

const uint8_t *sh_string(const uint8_t *p, const uint8_t *end, int64_t last_lead, int *escaped) {
    for (;;) {
        p = plain_end(p, end);
        if (p >= end || *p < 0x20) {
            return NULL;
        }
        if (LIKELY(*p == '"')) {
            return p;
        }
        int64_t length;
        if (*p == '\\') {
            uint32_t meant;
            length = escape(p, end, &meant);
            *escaped = 1;
        } else {
            length = *p > last_lead ? 0 : sh_character(p, end);
        }
        if (length == 0) {
            return NULL;
        }
        p += length;
    }
}

/* The text p to stop, which sh_string has taken, without escapes. Returns its bytes, -1 if a character is too large
 * for last_lead. It is never longer than the text was. */
int64_t sh_unescape(const uint8_t *p, const uint8_t *stop, int64_t last_lead, uint8_t *out) {
    uint8_t *at = out;
    while (p < stop) {
        if (*p != '\\') {
            *at++ = *p++;
            continue;
        }
        uint32_t c = 0;
        int64_t length = escape(p, stop, &c);
        if (length == 0) {
            return -1;
        }
        p += length;
        int lead = c < 0x80 ? 0 : c < 0x800 ? 0xC0 | (int)(c >> 6) : c < 0x10000 ? 0xE0 : 0xF0;
        if (lead > last_lead) {
            return -1;
        }
        if (c < 0x80) {
            *at++ = (uint8_t)c;
            continue;
        }
        if (c < 0x800) {
            *at++ = (uint8_t)lead;
        } else {
            if (c < 0x10000) {
                *at++ = (uint8_t)(0xE0 | c >> 12);
            } else {
                *at++ = (uint8_t)(0xF0 | c >> 18);
                *at++ = (uint8_t)(0x80 | (c >> 12 & 0x3F));
            }
            *at++ = (uint8_t)(0x80 | (c >> 6 & 0x3F));
        }
        *at++ = (uint8_t)(0x80 | (c & 0x3F));
    }
    return at - out;
}

/* The only UTF-16 unit of a text without escapes that sh_string has taken, -1 if it has none or several. */
int64_t sh_unit(const uint8_t *p, const uint8_t *stop) {
    int64_t length = stop - p;
    if (length == 1 && *p < 0x80) {
        return *p;
    }
    if (length == 2 && *p >= 0xC0) {
        return (*p & 0x1F) << 6 | (p[1] & 0x3F);
    }
    if (length == 3 && *p >= 0xE0) {
        return (*p & 0x0F) << 12 | (p[1] & 0x3F) << 6 | (p[2] & 0x3F);
    }
    return -1;
}

/* The same of a text with escapes. */
int64_t sh_escaped_unit(const uint8_t *p, const uint8_t *stop) {
    uint8_t plain[8];
    int64_t length = stop - p <= 6 ? sh_unescape(p, stop, 0xF4, plain) : -1;
    return length < 0 ? -1 : sh_unit(plain, plain + length);
}
