/* What the files of the core ask of each other. Parsers return where they ended, or NULL: in doubt. */
#ifndef SPARKHAVEN_PARTS_H
#define SPARKHAVEN_PARTS_H

#include "bytes/bytes.h"
#include "sparkhaven.h"

#define SH_NO_INSTANT INT64_MIN

/* numbers.c: a number is digits * 10^power, or a little more: less than 10^power. sh_number takes it as JSON has it; sh_text_number also takes a plus sign,
 * further zeros in front, and a point without digits before or behind it. */
struct sh_number {
    uint64_t digits;
    int64_t power;
    int negative, more;
};
const uint8_t *sh_number(const uint8_t *p, const uint8_t *end, struct sh_number *out);
const uint8_t *sh_text_number(const uint8_t *p, const uint8_t *end, struct sh_number *out);
int sh_whole(const struct sh_number *number, int64_t *out);
int sh_scaled(const struct sh_number *number, int64_t digits, int64_t *out);
int sh_double(const struct sh_number *number, const uint64_t *powers, double *out);
const uint8_t *sh_skip_number(const uint8_t *p, const uint8_t *end);

/* text.c: bytes of the character at p, whose first is no ASCII; 0 if it is none. */
int64_t sh_character(const uint8_t *p, const uint8_t *end);

/* text.c: whether bytes are strict UTF-8. */
int sh_is_text(const uint8_t *p, const uint8_t *stop);

/* text.c: contents of JSON strings; p is behind the opening quote, what is returned is at the closing one. */
const uint8_t *sh_string(const uint8_t *p, const uint8_t *end, int64_t last_lead, int *escaped);
int64_t sh_unescape(const uint8_t *p, const uint8_t *stop, int64_t last_lead, uint8_t *out);
int64_t sh_unit(const uint8_t *p, const uint8_t *stop);

/* columns.c: null, and numbers as the kind of the column has them; 0 if it takes no such number. */
void sh_set_null(struct sh_column *column, int64_t row);
int sh_put_number(const struct sh_scan *scan, struct sh_column *column, int64_t row, const struct sh_number *number);

/* csv_values.c: the value of a field, or null; 0 in doubt. `end` is how far may be read. */
struct sh_field {
    const uint8_t *start, *stop; /* its content, without the quotes around it */
    int quoted, doubled;         /* doubled: it has quotes inside, each written twice */
    int64_t lead;                /* largest first byte of a character that is no ASCII, or 0 */
};
int sh_csv_value(const struct sh_csv *csv, struct sh_column *column, int64_t row, const struct sh_field *field,
                 const uint8_t *end);

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

/* text_ids.c: the id of the text p to stop as that of the row. `end` is how far may be read. 0 if in doubt. */
int sh_put_id(struct sh_column *column, int64_t row, const uint8_t *p, const uint8_t *stop, const uint8_t *end);

/* text_ids.c: where a text of at most `length` bytes may be made for a row, NULL if there is no room; and that it is done:
 * it ends at `stop`. */
uint8_t *sh_text_place(struct sh_column *column, int64_t row, int64_t length);
int sh_text_made(struct sh_column *column, int64_t row, const uint8_t *stop);

/* The bytes p to stop as the text of the row. `end` is how far may be read. */
static inline int sh_put_text(struct sh_column *column, int64_t row, const uint8_t *p, const uint8_t *stop,
                              const uint8_t *end) {
    if (column->ids != NULL) {
        return sh_put_id(column, row, p, stop, end);
    }
    int64_t used = column->ends[row], length = stop - p;
    if (length > column->room - used || used + length > INT32_MAX) {
        return 0;
    }
    uint8_t *out = column->bytes + used;
    column->ends[row + 1] = (int32_t)(used + length);
    if (length <= 16 && end - p >= 16 && column->room - used >= 16) {
        memcpy(out, p, 16); /* of a known length: two moves, and what is too much is written over later */
    } else {
        memcpy(out, p, (size_t)length);
    }
    return 1;
}

/* The end of a word of letters that stands at p, NULL if another text does. */
static inline const uint8_t *sh_word(const uint8_t *p, const uint8_t *end, const char *word, int64_t length) {
    return end - p >= length && memcmp(p, word, (size_t)length) == 0 ? p + length : NULL;
}

#endif
