/* JSON that nobody wants: blanks, words of letters, whole values. */
#ifndef SPARKHAVEN_SKIP_H
#define SPARKHAVEN_SKIP_H

#include <stdint.h>
#include <string.h>

/* Any JSON value, at most 64 levels deep. Returns its end, or NULL: in doubt. */
const uint8_t *sh_skip(const uint8_t *p, const uint8_t *end);

static inline const uint8_t *sh_blanks(const uint8_t *p, const uint8_t *end) {
    while (p < end && (*p == ' ' || *p == '\n' || *p == '\r' || *p == '\t')) {
        p++;
    }
    return p;
}

/* The end of a word of letters that stands at p, NULL if another text does. */
static inline const uint8_t *sh_word(const uint8_t *p, const uint8_t *end, const char *word, int64_t length) {
    return end - p >= length && memcmp(p, word, (size_t)length) == 0 ? p + length : NULL;
}

#endif
