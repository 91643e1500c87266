/* Values of fields that nobody wants: passed over, but held to JSON all the same. */
#include "scan/skip.h"
#include "scan/json_strings.h"
#include "scan/numbers.h"

enum { MOST_LEVELS = 64 };

static const uint8_t *scalar(const uint8_t *p, const uint8_t *end) {
    int escaped = 0;
    const uint8_t *stop;
    switch (*p) {
    case '"':
        stop = sh_string(p + 1, end, 0xF4, &escaped);
        return stop == NULL ? NULL : stop + 1;
    case 't':
        return sh_word(p, end, "true", 4);
    case 'f':
        return sh_word(p, end, "false", 5);
    case 'n':
        return sh_word(p, end, "null", 4);
    default:
        return sh_skip_number(p, end);
    }
}

/* The name of a field with its colon, at p behind blanks. */
static const uint8_t *key(const uint8_t *p, const uint8_t *end) {
    int escaped = 0;
    if (p >= end || *p != '"') {
        return NULL;
    }
    p = sh_string(p + 1, end, 0xF4, &escaped);
    if (p == NULL) {
        return NULL;
    }
    p = sh_blanks(p + 1, end);
    return p < end && *p == ':' ? sh_blanks(p + 1, end) : NULL;
}

const uint8_t *sh_skip(const uint8_t *p, const uint8_t *end) {
    uint64_t objects = 0; /* a bit for each level: whether it is an object; the lowest is the innermost */
    int level = 0;
    for (;;) {
        if (p >= end) {
            return NULL;
        }
        if (*p == '{' || *p == '[') {
            int object = *p == '{';
            p = sh_blanks(p + 1, end);
            if (p < end && *p == (object ? '}' : ']')) {
                p++;
            } else {
                if (++level > MOST_LEVELS) {
                    return NULL;
                }
                objects = objects << 1 | (uint64_t)object;
                if (object) {
                    p = key(p, end);
                    if (p == NULL) {
                        return NULL;
                    }
                }
                continue;
            }
        } else {
            p = scalar(p, end);
            if (p == NULL) {
                return NULL;
            }
        }
        for (;;) { /* behind a value */
            if (level == 0) {
                return p;
            }
            p = sh_blanks(p, end);
            if (p >= end) {
                return NULL;
            }
            if (*p == ',') {
                p = sh_blanks(p + 1, end);
                if (objects & 1) {
                    p = key(p, end);
                    if (p == NULL) {
                        return NULL;
                    }
                }
                break;
            }
            if (*p++ != ((objects & 1) ? '}' : ']')) {
                return NULL;
            }
            objects >>= 1;
            level--;
        }
    }
}
