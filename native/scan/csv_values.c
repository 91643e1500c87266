/* Fields of CSV records to columns, each by the kind of its column. */
#include "scan/csv_values.h"
#include "bytes/bytes.h"
#include "scan/coded.h"
#include "scan/columns.h"
#include "scan/instants.h"
#include "scan/json_strings.h"
#include "scan/text_ids.h"

/* Whether a content is a null text; in a doubled one each pair of quotes is one. */
static int same_text(const struct sh_field *field, int64_t quote, const uint8_t *text, const uint8_t *text_end) {
    const uint8_t *p = field->start;
    if (!field->doubled) {
        int64_t length = field->stop - p;
        return length == text_end - text && memcmp(p, text, (size_t)length) == 0;
    }
    while (p < field->stop && text < text_end && *p == *text) {
        p += *p == quote ? 2 : 1;
        text++;
    }
    return p == field->stop && text == text_end;
}

static int is_null(const struct sh_csv *csv, const struct sh_field *field) {
    int64_t length = field->stop - field->start, start = 0;
    if (field->quoted && !csv->quoted_null) {
        return 0;
    }
    if (!field->doubled && LIKELY(!(csv->null_lengths >> (length < 62 ? length : 62) & 1))) {
        return 0;
    }
    const uint8_t *nulls = (const uint8_t *)csv->nulls;
    for (int64_t i = 0; i < csv->null_count; i++) {
        if (same_text(field, csv->quote, nulls + start, nulls + csv->null_ends[i])) {
            return 1;
        }
        start = csv->null_ends[i];
    }
    return 0;
}

static int put_doubled(struct sh_column *column, int64_t row, const struct sh_field *field, int64_t quote) {
    const uint8_t *p = field->start;
    uint8_t *out = sh_text_place(column, row, field->stop - p);
    if (out == NULL) {
        return 0;
    }
    while (p < field->stop) {
        const uint8_t *found = memchr(p, (int)quote, (size_t)(field->stop - p));
        const uint8_t *stop = found == NULL ? field->stop : found + 1;
        memcpy(out, p, (size_t)(stop - p));
        out += stop - p;
        p = stop + (found != NULL);
    }
    return sh_text_made(column, row, out);
}

/* Not-a-number and the infinities, as texts have them. */
static int special(const uint8_t *p, const uint8_t *stop, double *out) {
    int64_t length = stop - p, minus = length > 0 && *p == '-';
    if (length == 3 && (memcmp(p, "nan", 3) == 0 || memcmp(p, "NaN", 3) == 0)) {
        *out = __builtin_nan("");
        return 1;
    }
    p += minus || (length > 0 && *p == '+');
    length = stop - p;
    if ((length == 3 && (memcmp(p, "inf", 3) == 0 || memcmp(p, "Inf", 3) == 0)) ||
        (length == 8 && (memcmp(p, "Infinity", 8) == 0 || memcmp(p, "infinity", 8) == 0))) {
        *out = minus ? -__builtin_inf() : __builtin_inf();
        return 1;
    }
    return 0;
}

static int put_special(struct sh_column *column, int64_t row, const struct sh_field *field) {
    double value;
    if ((column->kind != SH_DOUBLE && column->kind != SH_FLOAT) || !special(field->start, field->stop, &value)) {
        return 0;
    }
    if (column->kind == SH_DOUBLE) {
        ((double *)column->values)[row] = value;
    } else {
        ((float *)column->values)[row] = (float)value;
    }
    return 1;
}

static int put_boolean(struct sh_column *column, int64_t row, const struct sh_field *field) {
    static const char *const TRUE[] = {"true", "True", "TRUE"}, *const FALSE[] = {"false", "False", "FALSE"};
    int64_t length = field->stop - field->start;
    for (int i = 0; i < 3 && (length == 4 || length == 5); i++) {
        if (memcmp(field->start, length == 4 ? TRUE[i] : FALSE[i], (size_t)length) == 0) {
            ((uint8_t *)column->values)[row] = length == 4;
            return 1;
        }
    }
    return 0;
}

static int put_char(struct sh_column *column, int64_t row, const struct sh_field *field) {
    int64_t unit = field->stop - field->start == 1 ? *field->start : sh_unit(field->start, field->stop);
    if (unit < 0 || unit == 0xFFFF) {
        return 0;
    }
    ((uint16_t *)column->values)[row] = (uint16_t)unit;
    return 1;
}

int sh_csv_value(const struct sh_csv *csv, struct sh_column *column, int64_t row, const struct sh_field *field,
                 const uint8_t *end) {
    struct sh_number number;
    if (is_null(csv, field)) {
        sh_set_null(column, row);
        return 1;
    }
    if (column->kind == SH_TEXT) {
        if (field->lead > column->last_lead || (field->stop - field->start == 1 && *field->start == 0)) {
            return 0; /* a single U+0000 reads back as the empty string */
        }
        return field->doubled ? put_doubled(column, row, field, csv->quote)
                              : sh_put_text(column, row, field->start, field->stop, end);
    }
    if (UNLIKELY(field->doubled)) {
        return 0;
    }
    switch (column->kind) {
    case SH_CHAR:
        return put_char(column, row, field);
    case SH_BOOLEAN:
        return put_boolean(column, row, field);
    case SH_ISO:
        return sh_put_instant(csv->scan, column, row, field->start, field->stop) == field->stop;
    case SH_DATE:
    case SH_TIME:
    case SH_DECIMAL:
        return sh_put_coded(csv->scan, column, row, field->start, field->stop) == field->stop;
    case SH_TOKEN:
        return 0;
    default:
        if (LIKELY(sh_text_number(field->start, end, &number) == field->stop)) {
            return sh_put_number(csv->scan, column, row, &number);
        }
        return put_special(column, row, field);
    }
}
