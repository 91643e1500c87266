/* What the files of the core ask of each other. Parsers return where they ended, or NULL: in doubt. */
#ifndef SPARKHAVEN_PARTS_H
#define SPARKHAVEN_PARTS_H

#include "bytes.h"
#include "sparkhaven.h"

#define SH_NO_INSTANT INT64_MIN

/* numbers.c: a JSON number is digits * 10^power. */
struct sh_number {
    uint64_t digits;
    int64_t power;
    int negative;
};
const uint8_t *sh_number(const uint8_t *p, const uint8_t *end, struct sh_number *out);
int sh_whole(const struct sh_number *number, int64_t *out);
int sh_scaled(const struct sh_number *number, int64_t digits, int64_t *out);
int sh_double(const struct sh_number *number, const uint64_t *powers, double *out);
const uint8_t *sh_skip_number(const uint8_t *p, const uint8_t *end);

/* text.c: contents of strings; p is behind the opening quote, what is returned is at the closing one. */
const uint8_t *sh_string(const uint8_t *p, const uint8_t *end, int64_t last_lead, int *escaped);
int64_t sh_unescape(const uint8_t *p, const uint8_t *stop, int64_t last_lead, uint8_t *out);
int64_t sh_unit(const uint8_t *p, const uint8_t *stop);

/* instants.c: ns of an ISO time, SH_NO_INSTANT if in doubt; *local is set where it has no offset. */
int64_t sh_instant(struct sh_scan *scan, const uint8_t *p, const uint8_t *stop, int *local);

/* names.c: the number of a name in an object, -1 if there is no room for it. */
int64_t sh_name(struct sh_names *names, const uint8_t *p, int64_t length, const uint8_t *end, int64_t object);

/* skip.c: any JSON value, at most 64 levels deep. */
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
