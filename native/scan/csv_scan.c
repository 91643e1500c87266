/* CSV records to columns: fields by their place, each value by the kind of its column.
 *
 * Strict by construction: a record is taken only if it has all of its fields and nothing else, each unquoted or
 * within quotes from end to end, in UTF-8, with a value that its column takes. All others are in doubt, and so are
 * carriage returns outside of quotes that are not part of a line end. No byte is looked at more than a few times: a
 * record in doubt once more to find its end, and a quote that nothing closes up to the end of the file can be met once
 * only, since all quotes behind it come in pairs.
 */
#include "bytes/bytes.h"
#include "bytes/utf8.h"
#include "scan/csv_values.h"
#include "scan/scan.h"

#ifdef __SSE2__
#include <emmintrin.h>
#endif

/* The first byte from p on that is one of three, or no ASCII; end if there is none. */
static inline const uint8_t *first_of(const uint8_t *p, const uint8_t *end, uint8_t a, uint8_t b, uint8_t c) {
#ifdef __SSE2__
    while (end - p >= 16) {
        __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)p);
        __m128i odd = _mm_or_si128(bytes, _mm_cmpeq_epi8(bytes, _mm_set1_epi8((char)a)));
        odd = _mm_or_si128(odd, _mm_cmpeq_epi8(bytes, _mm_set1_epi8((char)b)));
        odd = _mm_or_si128(odd, _mm_cmpeq_epi8(bytes, _mm_set1_epi8((char)c)));
        int mask = _mm_movemask_epi8(odd); /* the highest bit of each byte */
        if (mask) {
            return p + __builtin_ctz((unsigned)mask);
        }
        p += 16;
    }
#endif
    while (p < end && *p != a && *p != b && *p != c && *p < 0x80) {
        p++;
    }
    return p;
}

/* Passes over a character that is no ASCII; NULL if it is none. */
static const uint8_t *passed(const uint8_t *p, const uint8_t *end, struct sh_field *field) {
    int64_t length = sh_character(p, end);
    if (length == 0) {
        return NULL;
    }
    field->lead = *p > field->lead ? *p : field->lead;
    return p + length;
}

/* The field behind its opening quote; what is returned is behind the closing one, NULL in doubt. */
static const uint8_t *quoted_field(const uint8_t *p, const uint8_t *end, uint8_t quote, struct sh_field *field) {
    field->start = p;
    field->quoted = 1;
    for (;;) {
        p = first_of(p, end, quote, quote, quote);
        if (p >= end) {
            return NULL;
        }
        if (*p != quote) {
            p = passed(p, end, field);
            if (p == NULL) {
                return NULL;
            }
            continue;
        }
        if (p + 1 >= end || p[1] != quote) {
            field->stop = p;
            return p + 1;
        }
        field->doubled = 1;
        p += 2;
    }
}

static inline const uint8_t *bare_field(const uint8_t *p, const uint8_t *end, uint8_t delimiter,
                                        struct sh_field *field) {
    field->start = p;
    for (;;) {
        p = first_of(p, end, delimiter, '\n', '\r');
        if (LIKELY(p >= end || *p < 0x80)) {
            field->stop = p;
            return p;
        }
        p = passed(p, end, field);
        if (p == NULL) {
            return NULL;
        }
    }
}

/* Behind the line end that stands at p, or p at the end of everything; NULL if there is none. */
static inline const uint8_t *line_end(const uint8_t *p, const uint8_t *end) {
    if (p >= end) {
        return p;
    }
    if (*p == '\n') {
        return p + 1;
    }
    return *p == '\r' && end - p >= 2 && p[1] == '\n' ? p + 2 : NULL;
}

/* Whether a number could go on with one of the marks: then no parser may look beyond its field. */
static int in_numbers(int64_t mark) { return mark > 0 && strchr("+-.0123456789eE", (int)mark) != NULL; }

struct scan {
    const struct sh_csv *csv;
    int64_t row;
    int narrow; /* parsers are to end where the field does */
};

static int take_field(const struct scan *scan, int64_t place, const struct sh_field *field, const uint8_t *end) {
    const struct sh_csv *csv = scan->csv;
    const uint8_t *limit = UNLIKELY(scan->narrow) ? field->stop : end;
    for (int64_t column = csv->fields[place]; column >= 0; column = csv->scan->columns[column].also) {
        if (!sh_csv_value(csv, csv->scan->columns + column, scan->row, field, limit)) {
            return 0;
        }
    }
    return 1;
}

/* The record at p; what is returned is behind its line end, NULL in doubt. */
__attribute__((nonnull)) static const uint8_t *take_record(const struct scan *scan, const uint8_t *p,
                                                           const uint8_t *end) {
    const struct sh_csv *csv = scan->csv;
    const uint8_t delimiter = (uint8_t)csv->delimiter;
    for (int64_t place = 0; place < csv->field_count; place++) {
        struct sh_field field = {NULL, NULL, 0, 0, 0};
        if (p < end && *p == csv->quote) {
            p = quoted_field(p + 1, end, (uint8_t)csv->quote, &field);
        } else {
            p = bare_field(p, end, delimiter, &field);
        }
        if (p == NULL || !take_field(scan, place, &field, end)) {
            return NULL;
        }
        if (place == csv->field_count - 1) {
            break;
        }
        if (p >= end || *p != delimiter) {
            return NULL;
        }
        p++;
    }
    return line_end(p + (csv->trailing && p < end && *p == delimiter), end);
}

/* Behind the line end of the record at p, whatever is wrong with it; NULL if a quote is open at the end. Text behind a
 * closing quote goes on to the next delimiter. */
static const uint8_t *record_end(const struct sh_csv *csv, const uint8_t *p, const uint8_t *end) {
    for (;;) {
        if (p < end && *p == csv->quote) {
            for (p++;; p += 2) {
                p = memchr(p, (int)csv->quote, (size_t)(end - p));
                if (p == NULL) {
                    return NULL;
                }
                if (end - p < 2 || p[1] != csv->quote) {
                    p++;
                    break;
                }
            }
        }
        while (p < end && *p != csv->delimiter && *p != '\n') {
            p++;
        }
        if (p >= end) {
            return p;
        }
        if (*p++ == '\n') {
            return p;
        }
    }
}

/* Whether a line is passed over where a record could begin: a comment, or blank where a record has several fields. */
static int no_record(const struct sh_csv *csv, const uint8_t *p, const uint8_t *stop) {
    if (csv->field_count > 1 && (*p == '\n' || (*p == '\r' && (stop - p == 1 || p[1] == '\n')))) {
        return 1;
    }
    return csv->comment_length > 0 && stop - p >= csv->comment_length &&
           memcmp(p, csv->comment, (size_t)csv->comment_length) == 0;
}

static void drop(const struct sh_csv *csv, int64_t row) {
    for (int64_t i = 0; i < csv->scan->column_count; i++) {
        csv->scan->columns[i].valid[row] = 1;
    }
}

/* Looks at the lines from `first` on, at the first of which a record may begin; line i is data[ends[i]] to
 * data[ends[i + 1]], and none is empty. Columns and lists have room for all lines. Returns how many records are
 * accepted; row r of each column is the record that begins at line rows[r]. */
int64_t sh_csv_scan(struct sh_csv *csv, const uint8_t *data, const int32_t *ends, int64_t first, int64_t lines) {
    struct scan scan = {csv, 0, in_numbers(csv->delimiter) || in_numbers(csv->quote)};
    csv->odd_count = 0;
    csv->open = -1;
    for (int64_t line = first, next; line < lines; line = next) {
        const uint8_t *p = data + ends[line];
        const uint8_t *end = data + ends[csv->framed ? line + 1 : lines];
        next = line + 1;
        if (!csv->framed && no_record(csv, p, data + ends[next])) {
            continue;
        }
        const uint8_t *stop = line == csv->alone ? NULL : take_record(&scan, p, end);
        if (LIKELY(stop != NULL)) {
            while (data + ends[next] < stop) {
                next++;
            }
            int whole = !csv->framed || stop == end;
            if (LIKELY(whole && (next - line == 1 || ends[next] - ends[line] <= csv->longest))) {
                csv->rows[scan.row] = line;
                csv->stops[scan.row++] = next;
                continue;
            }
        }
        drop(csv, scan.row);
        if (!csv->framed && line != csv->alone) {
            stop = record_end(csv, p, end);
            if (stop == NULL && !csv->last) {
                csv->open = line;
                break;
            }
            while (stop != NULL && data + ends[next] < stop) {
                next++;
            }
        }
        csv->odd[csv->odd_count] = line;
        csv->odd_stops[csv->odd_count++] = next;
    }
    return scan.row;
}
