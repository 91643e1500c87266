/* JSON lines to columns: one object a line, its fields by name, each value by the kind of its column.
 *
 * Strict by construction: what is not in the grammar here leaves its line in doubt, and nothing of it in the columns.
 * In doubt are, beside what is no JSON: doubled names, values that a column does not take, and what is rare enough to
 * be read by somebody slower.
 */
#include "bytes/bytes.h"
#include "scan/coded.h"
#include "scan/columns.h"
#include "scan/elements.h"
#include "scan/instants.h"
#include "scan/json_strings.h"
#include "scan/names.h"
#include "scan/scan.h"
#include "scan/skip.h"
#include "scan/text_ids.h"

enum { MOST_UNKNOWN = 1024, LONGEST_ESCAPED = 256 };

/* One line while it is read. */
struct line {
    struct sh_scan *scan;
    const uint8_t *end;
    int64_t row, number;
    int64_t set; /* columns with a value, or null */
    int64_t unknown_count;
    int64_t unknown[MOST_UNKNOWN];
};

static const uint8_t *take_number(struct line *line, struct sh_column *column, const uint8_t *p) {
    struct sh_number number;
    p = sh_number(p, line->end, &number);
    return p != NULL && sh_put_number(line->scan, column, line->row, &number) ? p : NULL;
}

static const uint8_t *take_string(struct line *line, struct sh_column *column, const uint8_t *p) {
    int64_t row = line->row;
    int escaped = 0;
    const uint8_t *start = p + 1;
    const uint8_t *stop = sh_string(start, line->end, column->kind == SH_TEXT ? column->last_lead : 0xF4, &escaped);
    if (stop == NULL) {
        return NULL;
    }
    if (column->kind == SH_TEXT && escaped) {
        uint8_t *out = sh_text_place(column, row, stop - start);
        int64_t length = out == NULL ? -1 : sh_unescape(start, stop, column->last_lead, out);
        if (length < 0 || !sh_text_made(column, row, out + length)) {
            return NULL;
        }
    } else if (column->kind == SH_TEXT) {
        if (!sh_put_text(column, row, start, stop, line->end)) {
            return NULL;
        }
    } else if (!sh_put_text(column, row, p, stop + 1, line->end)) {
        return NULL;
    }
    return stop + 1;
}

/* What a string has to be, and its end, are known by reading its value: it is not looked through first. */
static const uint8_t *take_known(struct line *line, struct sh_column *column, const uint8_t *p) {
    p = column->kind == SH_ISO ? sh_put_instant(line->scan, column, line->row, p + 1, line->end)
                               : sh_put_coded(line->scan, column, line->row, p + 1, line->end);
    return p != NULL && p < line->end && *p == '"' ? p + 1 : NULL;
}

/* A word as it stands. */
static const uint8_t *take_word(struct line *line, struct sh_column *column, const uint8_t *p) {
    uint8_t truth;
    const uint8_t *stop = sh_boolean_element(&truth, p, line->end);
    return stop != NULL && sh_put_text(column, line->row, p, stop, line->end) ? stop : NULL;
}

/* The value at p into its column. */
static const uint8_t *take(struct line *line, struct sh_column *column, const uint8_t *p) {
    column->line = line->number;
    line->set++;
    if (UNLIKELY(p >= line->end)) {
        return NULL;
    }
    if (*p == 'n') {
        p = sh_word(p, line->end, "null", 4);
        if (p != NULL) {
            sh_set_null(column, line->row);
        }
        return p;
    }
    switch (column->kind) {
    case SH_CHAR:
        return sh_char_element((uint16_t *)column->values + line->row, p, line->end);
    case SH_TEXT:
        return *p == '"' ? take_string(line, column, p) : NULL;
    case SH_ISO:
    case SH_DATE:
    case SH_TIME:
        return *p == '"' ? take_known(line, column, p) : NULL;
    case SH_DECIMAL:
        return *p == '"' ? take_known(line, column, p) : sh_put_decimal(column, line->row, p, line->end);
    case SH_BOOLEAN:
        return sh_boolean_element((uint8_t *)column->values + line->row, p, line->end);
    case SH_TOKEN:
    case SH_NESTED:
        if (*p == '"') {
            return take_string(line, column, p);
        }
        if (*p == 't' || *p == 'f') {
            return take_word(line, column, p);
        } else {
            int nested = column->kind == SH_NESTED && (*p == '[' || *p == '{');
            const uint8_t *stop = nested ? sh_skip(p, line->end) : sh_skip_number(p, line->end);
            return stop != NULL && sh_put_text(column, line->row, p, stop, line->end) ? stop : NULL;
        }
    default:
        return take_number(line, column, p);
    }
}

/* The value at p into all columns that take it. */
static const uint8_t *take_all(struct line *line, int64_t number, const uint8_t *p) {
    const uint8_t *stop;
    do {
        struct sh_column *column = line->scan->columns + number;
        stop = take(line, column, p);
        number = column->also;
    } while (UNLIKELY(number >= 0) && stop != NULL);
    return stop;
}

/* Whether the name with a number stands at p, with its closing quote. */
static inline int stands(const struct sh_names *names, int64_t number, const uint8_t *p, const uint8_t *end) {
    const struct sh_name *name = names->list + number;
    const uint8_t *text = names->text + name->start;
    return end - p > name->length && p[name->length] == '"' &&
           same_bytes(text, names->text + names->used, p, end, name->length);
}

/* The number of a name with escapes. A name that can only be written by them is in doubt: `stands` compares with what
 * is written. */
static int64_t escaped_name(struct sh_names *names, int64_t object, const uint8_t *p, const uint8_t *stop) {
    uint8_t plain[LONGEST_ESCAPED];
    int64_t length = stop - p <= LONGEST_ESCAPED ? sh_unescape(p, stop, 0xF4, plain) : -1;
    for (int64_t i = 0; i < length; i++) {
        if (plain[i] < 0x20 || plain[i] == '"' || plain[i] == '\\') {
            return -1;
        }
    }
    return length < 0 ? -1 : sh_name(names, plain, length, plain + length, object);
}

/* What is behind the name at p and its closing quote, NULL in doubt; its number goes to *guess. Names mostly come in
 * the order of the line before. */
static const uint8_t *name_at(struct sh_names *names, int64_t *guess, int64_t object, const uint8_t *p,
                              const uint8_t *end) {
    if (LIKELY(*guess >= 0 && stands(names, *guess, p, end))) {
        return p + names->list[*guess].length + 1;
    }
    int escaped = 0;
    const uint8_t *stop = sh_string(p, end, 0xF4, &escaped);
    if (stop == NULL) {
        return NULL;
    }
    *guess = escaped ? escaped_name(names, object, p, stop) : sh_name(names, p, stop - p, end, object);
    return *guess < 0 ? NULL : stop + 1;
}

/* The object at p, behind its brace. */
static const uint8_t *take_object(struct line *line, int64_t object, const uint8_t *p) {
    struct sh_names *names = line->scan->names;
    const uint8_t *end = line->end;
    int64_t *guess = line->scan->first + object;
    p = sh_blanks(p, end);
    if (p < end && *p == '}') {
        return p + 1;
    }
    for (;;) {
        if (p >= end || *p != '"') {
            return NULL;
        }
        p = name_at(names, guess, object, p + 1, end);
        if (p == NULL) {
            return NULL;
        }
        int64_t number = *guess;
        struct sh_name *name = names->list + number;
        if (name->line == line->number) {
            return NULL;
        }
        name->line = line->number;
        guess = &name->after;
        p = sh_blanks(p, end);
        if (p >= end || *p != ':') {
            return NULL;
        }
        p = sh_blanks(p + 1, end);
        if (LIKELY(name->column >= 0)) {
            p = take_all(line, name->column, p);
        } else if (name->inner >= 0) {
            p = p < end && *p == '{' ? take_object(line, name->inner, p + 1) : sh_word(p, end, "null", 4);
        } else {
            if (line->unknown_count == MOST_UNKNOWN || (line->scan->strict && number >= names->known)) {
                return NULL;
            }
            line->unknown[line->unknown_count++] = number;
            p = sh_skip(p, end);
        }
        if (p == NULL) {
            return NULL;
        }
        p = sh_blanks(p, end);
        if (p >= end) {
            return NULL;
        }
        if (*p == '}') {
            return p + 1;
        }
        if (*p++ != ',') {
            return NULL;
        }
        p = sh_blanks(p, end);
    }
}

static int take_line(struct line *line, const uint8_t *p) {
    p = sh_blanks(p, line->end);
    if (p >= line->end || *p != '{') {
        return 0;
    }
    p = take_object(line, 0, p + 1);
    return p != NULL && sh_blanks(p, line->end) == line->end;
}

static void keep(struct line *line) {
    struct sh_scan *scan = line->scan;
    for (int64_t i = 0; i < line->unknown_count; i++) {
        scan->names->list[line->unknown[i]].met++;
    }
    if (line->set == scan->column_count) {
        return;
    }
    for (int64_t i = 0; i < scan->column_count; i++) {
        if (scan->columns[i].line != line->number) {
            sh_set_null(scan->columns + i, line->row);
            scan->columns[i].absent++;
        }
    }
}

static void drop(struct line *line) {
    for (int64_t i = 0; i < line->scan->column_count; i++) {
        line->scan->columns[i].valid[line->row] = 1;
    }
}

/* Line i is data[ends[i]] to data[ends[i + 1]], with or without its line feed. The columns have room for all lines.
 * Writes the index of each accepted line to rows, and returns how many there are; row r of each column is line
 * rows[r]. All other lines are in doubt. */
int64_t sh_json_scan(struct sh_scan *scan, const uint8_t *data, const int32_t *ends, int64_t lines, int64_t *rows) {
    struct line line;
    line.scan = scan;
    line.row = 0;
    for (int64_t i = 0; i < lines; i++) {
        line.end = data + ends[i + 1];
        line.number = ++scan->line;
        line.set = 0;
        line.unknown_count = 0;
        if (LIKELY(take_line(&line, data + ends[i]) && !(scan->strict && line.set < scan->column_count))) {
            keep(&line);
            rows[line.row++] = i;
        } else {
            drop(&line);
        }
    }
    return line.row;
}
