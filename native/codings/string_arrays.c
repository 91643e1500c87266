/* Arrays of texts as Java streams: a head, the number of elements in four bytes, and the elements. An element is 70 for
 * null, 74 with a length in two bytes or 7C with one in eight, and a text in modified UTF-8; or 71 with the number of a
 * text before it. Modified UTF-8 writes NUL as C0 80, and a character of four bytes as two surrogates of three. */
#include "bytes/utf8.h"
#include "codings/codings.h"
#include "codings/entries.h"
#include "codings/lists.h"

enum { HEAD = 40, COUNT = 4, FRONT = HEAD + COUNT, NONE = 0x70, REFERENCE = 0x71, TEXT = 0x74, LONG_TEXT = 0x7C };
enum { SHORT_FRONT = 3, LONG_FRONT = 9, HANDLE = 5, FIRST_TEXT = 0x7E0002, SHORT = 0xFFFF, FOUR_BYTES = 0xF0 };
enum { SURROGATE = 3, CONTINUED = 0x3F };

/* Whether all bytes are ASCII, and none is NUL. */
static int is_plain(const uint8_t *p, const uint8_t *stop, const uint8_t *end) {
    uint64_t odd = 0;
    for (; stop - p > 0; p += 8) {
        uint64_t unused = stop - p < 8 ? UINT64_C(0x0101010101010101) << (BITS * (stop - p)) : 0;
        uint64_t word = first_bytes(word_at(p, end), stop - p) | unused;
        odd |= word | (word - UINT64_C(0x0101010101010101));
    }
    return (odd & UINT64_C(0x8080808080808080)) == 0;
}

/* Bytes of UTF-8 as modified UTF-8. */
static int64_t modified_size(const uint8_t *p, const uint8_t *stop) {
    int64_t size = stop - p;
    for (; p < stop; p++) {
        size += *p == 0 ? 1 : *p >= FOUR_BYTES ? 2 : 0;
    }
    return size;
}

static uint8_t *put_surrogate(uint8_t *p, uint32_t unit) {
    p[0] = (uint8_t)(0xE0 | unit >> 12);
    p[1] = (uint8_t)(0x80 | (unit >> 6 & CONTINUED));
    p[2] = (uint8_t)(0x80 | (unit & CONTINUED));
    return p + SURROGATE;
}

static uint8_t *put_modified(uint8_t *out, const uint8_t *p, const uint8_t *stop) {
    while (p < stop) {
        if (*p >= FOUR_BYTES) {
            uint32_t code = (uint32_t)(p[0] & 7) << 18 | (uint32_t)(p[1] & CONTINUED) << 12 |
                            (uint32_t)(p[2] & CONTINUED) << 6 | (uint32_t)(p[3] & CONTINUED);
            code -= 0x10000;
            out = put_surrogate(out, 0xD800 + (code >> 10));
            out = put_surrogate(out, 0xDC00 + (code & 0x3FF));
            p += 4;
        } else if (*p == 0) {
            *out++ = 0xC0;
            *out++ = 0x80;
            p++;
        } else {
            *out++ = *p++;
        }
    }
    return out;
}

/* One text with its front; NULL in doubt. */
static inline uint8_t *put_text(uint8_t *out, const uint8_t *limit, const uint8_t *p, const uint8_t *stop,
                                const uint8_t *end) {
    int plain = is_plain(p, stop, end);
    if (!plain && !sh_is_text(p, stop)) {
        return NULL;
    }
    int64_t size = plain ? stop - p : modified_size(p, stop);
    if (limit - out < LONG_FRONT || size > limit - out - LONG_FRONT) {
        return NULL;
    }
    if (size <= SHORT) {
        out[0] = TEXT;
        out[1] = (uint8_t)(size >> BITS);
        out[2] = (uint8_t)size;
        out += SHORT_FRONT;
    } else {
        uint64_t stored = __builtin_bswap64((uint64_t)size);
        out[0] = LONG_TEXT;
        memcpy(out + 1, &stored, LONG_FRONT - 1);
        out += LONG_FRONT;
    }
    if (!plain) {
        return put_modified(out, p, stop);
    }
    memcpy(out, p, (size_t)size);
    return out + size;
}

int64_t sh_encode_texts(const int32_t *starts, const uint8_t *valid, int64_t first, int64_t count, const int32_t *texts,
                        const uint8_t *valid_texts, int64_t first_text, int64_t total, const uint8_t *data,
                        int64_t size, const char *head, int64_t *ends, uint8_t *out, int64_t room) {
    uint8_t *p = out;
    const uint8_t *limit = out + room;
    for (int64_t i = 0; i < count; i++) {
        if (is_valid(valid, first + i)) {
            int64_t low = starts[i], high = starts[i + 1];
            if (!is_range(low, high, total) || limit - p < FRONT) {
                return -1;
            }
            uint32_t stored = __builtin_bswap32((uint32_t)(high - low));
            memcpy(p, head, HEAD);
            memcpy(p + HEAD, &stored, COUNT);
            p += FRONT;
            for (int64_t k = low; k < high; k++) {
                if (!is_valid(valid_texts, first_text + k)) {
                    if (p == limit) {
                        return -1;
                    }
                    *p++ = NONE;
                    continue;
                }
                int64_t begin = texts[k], stop = texts[k + 1];
                if (!is_range(begin, stop, size)) {
                    return -1;
                }
                p = put_text(p, limit, data + begin, data + stop, data + size);
                if (p == NULL) {
                    return -1;
                }
            }
        }
        ends[i] = p - out;
    }
    return p - out;
}

int64_t sh_text_lengths(const int64_t *ends, int64_t count, const uint8_t *data, int64_t bytes, const char *head,
                        int32_t *starts, uint8_t *valid) {
    struct list_form form = {head, HEAD, 1, 0};
    return list_starts(ends, count, data, bytes, form, starts, valid);
}

static inline int is_half(const uint8_t *p, const uint8_t *stop, uint8_t least) {
    return stop - p >= SURROGATE && p[0] == 0xED && (p[1] & 0xF0) == least && (p[2] & 0xC0) == 0x80;
}

/* Modified UTF-8 as UTF-8, which has no more bytes; returns how many, -1 in doubt. Nothing is written where `out` is
 * NULL. */
static int64_t plain_text(uint8_t *out, const uint8_t *p, const uint8_t *stop) {
    int64_t size = 0;
    while (p < stop) {
        uint8_t character[4];
        int64_t taken = 1, length = 1;
        character[0] = *p;
        if (*p == 0xC0 && stop - p > 1 && p[1] == 0x80) {
            character[0] = 0;
            taken = 2;
        } else if (is_half(p, stop, 0xA0)) {
            if (!is_half(p + SURROGATE, stop, 0xB0)) {
                return -1;
            }
            uint32_t code = (uint32_t)(p[1] & 0x0F) << 16 | (uint32_t)(p[2] & CONTINUED) << 10 |
                            (uint32_t)(p[4] & 0x0F) << 6 | (uint32_t)(p[5] & CONTINUED);
            code += 0x10000;
            character[0] = (uint8_t)(0xF0 | code >> 18);
            character[1] = (uint8_t)(0x80 | (code >> 12 & CONTINUED));
            character[2] = (uint8_t)(0x80 | (code >> 6 & CONTINUED));
            character[3] = (uint8_t)(0x80 | (code & CONTINUED));
            taken = (int64_t)2 * SURROGATE;
            length = 4;
        } else if (*p >= 0x80) {
            length = *p >= FOUR_BYTES ? 0 : sh_character(p, stop);
            if (length == 0) {
                return -1;
            }
            memcpy(character, p, (size_t)length);
            taken = length;
        }
        if (out != NULL) {
            memcpy(out + size, character, (size_t)length);
        }
        size += length;
        p += taken;
    }
    return size;
}

/* What was taken: ends of elements, which of them are the texts of a stream, and texts, written while they have room. */
struct texts {
    int32_t *ends, *known;
    uint8_t *out, *valid;
    int64_t room, used, nulls;
};

static inline int add_text(struct texts *texts, const uint8_t *p, const uint8_t *stop, const uint8_t *end) {
    int plain = is_plain(p, stop, end);
    int64_t size = plain ? stop - p : plain_text(NULL, p, stop);
    if (size >= 0 && texts->used + size <= texts->room) {
        if (plain) {
            memcpy(texts->out + texts->used, p, (size_t)size);
        } else {
            plain_text(texts->out + texts->used, p, stop);
        }
    }
    texts->used += size;
    return size >= 0;
}

/* A text that came before, which is element `other`. */
static inline void add_again(struct texts *texts, int64_t other) {
    int64_t begin = texts->ends[other], size = texts->ends[other + 1] - begin;
    if (texts->used + size <= texts->room) {
        memcpy(texts->out + texts->used, texts->out + begin, (size_t)size);
    }
    texts->used += size;
}

/* The elements of one stream from p on: number k up to `last`. */
static int take_stream(struct texts *texts, const uint8_t *p, const uint8_t *stop, int64_t k, int64_t last) {
    int64_t first = k, known = 0;
    for (; k < last; k++) {
        if (p == stop) {
            return 0;
        }
        uint8_t tag = *p;
        int64_t front = tag == TEXT ? SHORT_FRONT : tag == LONG_TEXT ? LONG_FRONT : tag == REFERENCE ? HANDLE : 1;
        if (stop - p < front) {
            return 0;
        }
        if (tag == NONE) {
            texts->nulls++;
        } else if (tag == REFERENCE) {
            int64_t number = (int64_t)(big_at(p + 1, stop, HANDLE - 1)) - FIRST_TEXT;
            if (number < 0 || number >= known) {
                return 0;
            }
            add_again(texts, texts->known[first + number]);
        } else if (tag == TEXT || tag == LONG_TEXT) {
            uint64_t size = big_at(p + 1, stop, (int)(front - 1));
            if (size > (uint64_t)(stop - p - front)) {
                return 0;
            }
            if (!add_text(texts, p + front, p + front + (int64_t)size, stop)) {
                return 0;
            }
            texts->known[first + known++] = (int32_t)k;
            front += (int64_t)size;
        } else {
            return 0;
        }
        p += front;
        if (texts->used > INT32_MAX) {
            return 0;
        }
        texts->valid[k >> 3] |= (uint8_t)((tag != NONE) << (k & 7));
        texts->ends[k + 1] = (int32_t)texts->used;
    }
    return p == stop;
}

int64_t sh_decode_texts(const int64_t *ends, const int32_t *starts, int64_t count, const uint8_t *data, int32_t *known,
                        int32_t *texts, uint8_t *valid_texts, uint8_t *out, int64_t room, int64_t *nulls) {
    struct texts taken = {texts, known, out, valid_texts, room, 0, 0};
    texts[0] = 0;
    memset(valid_texts, 0, (size_t)((starts[count] + 7) / 8));
    for (int64_t i = 0; i < count; i++) {
        const uint8_t *p = data + ends[i], *stop = data + ends[i + 1];
        if (p < stop && !take_stream(&taken, p + FRONT, stop, starts[i], starts[i + 1])) {
            return -1;
        }
    }
    *nulls = taken.nulls;
    return taken.used;
}
