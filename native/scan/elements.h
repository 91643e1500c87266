/* Elements of JSON arrays and objects: plain values in the only column of a scan, and texts. */
#ifndef SPARKHAVEN_ELEMENTS_H
#define SPARKHAVEN_ELEMENTS_H

#include "scan/columns.h"
#include "scan/json_strings.h"
#include "scan/numbers.h"
#include "scan/scan.h"
#include "scan/skip.h"

/* Texts so far: ends, 0 first, and bytes, which have room for all that there is to read. */
struct sh_texts {
    int64_t used;
    int32_t *ends;
    uint8_t *bytes;
};

/* The string at p as the next text. Returns its end, or NULL: in doubt. */
static inline const uint8_t *sh_text_element(struct sh_texts *texts, const uint8_t *p, const uint8_t *end) {
    enum { LAST_LEAD = 0xF4 };
    int64_t begin = texts->ends[texts->used], length;
    int escaped = 0;
    if (p >= end || *p != '"') {
        return NULL;
    }
    const uint8_t *stop = sh_string(++p, end, LAST_LEAD, &escaped);
    if (stop == NULL) {
        return NULL;
    }
    length = stop - p;
    if (escaped) {
        length = sh_unescape(p, stop, LAST_LEAD, texts->bytes + begin);
        if (length < 0) {
            return NULL;
        }
    } else {
        memcpy(texts->bytes + begin, p, (size_t)length);
    }
    texts->ends[++texts->used] = (int32_t)(begin + length);
    return stop + 1;
}

/* A string of one UTF-16 unit at p, other than FFFF. */
static inline const uint8_t *sh_char_element(uint16_t *out, const uint8_t *p, const uint8_t *end) {
    int escaped = 0;
    if (p >= end || *p != '"') {
        return NULL;
    }
    const uint8_t *stop = sh_string(p + 1, end, 0xF4, &escaped);
    int64_t unit = stop == NULL ? -1 : escaped ? sh_escaped_unit(p + 1, stop) : sh_unit(p + 1, stop);
    if (unit < 0 || unit == 0xFFFF) {
        return NULL;
    }
    *out = (uint16_t)unit;
    return stop + 1;
}

static inline const uint8_t *sh_boolean_element(uint8_t *out, const uint8_t *p, const uint8_t *end) {
    const uint8_t *stop = sh_word(p, end, "true", 4);
    *out = stop != NULL;
    return stop != NULL ? stop : sh_word(p, end, "false", 5);
}

/* The value at p, or null, as that with an index. Returns its end, or NULL: in doubt. */
static inline const uint8_t *sh_plain_element(const struct sh_scan *scan, int64_t index, const uint8_t *p,
                                              const uint8_t *end) {
    struct sh_column *column = scan->columns;
    struct sh_number number;
    if (p < end && *p == 'n') {
        p = sh_word(p, end, "null", 4);
        if (p != NULL) {
            sh_set_null(column, index);
        }
        return p;
    }
    if (column->kind == SH_BOOLEAN) {
        return sh_boolean_element((uint8_t *)column->values + index, p, end);
    }
    if (column->kind == SH_CHAR) {
        return sh_char_element((uint16_t *)column->values + index, p, end);
    }
    p = sh_number(p, end, &number);
    return p != NULL && sh_put_number(scan, column, index, &number) ? p : NULL;
}

/* Elements of an array or object that is in doubt were none. */
static inline void sh_drop_elements(const struct sh_scan *scan, int64_t start, int64_t used) {
    for (int64_t i = start; i < used; i++) {
        scan->columns->valid[i] = 1;
    }
}

#endif
