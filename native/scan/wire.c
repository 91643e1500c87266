/* Values of binary formats into the buffers of columns: what a column has no exact place for is in doubt. */
#include <float.h>

#include "bytes/utf8.h"
#include "scan/columns.h"
#include "scan/text_ids.h"
#include "scan/wire.h"

static const int64_t NS = 1000000000;
static const int64_t EXACT = INT64_C(1) << 53; /* up to here each whole number is a double */

static int put_whole(struct sh_column *column, int64_t row, int64_t value) {
    static const int64_t UNITS[] = {1, 10, 100, 1000, 10000, 100000, 1000000, 10000000, 100000000, 1000000000};
    switch (column->kind) {
    case SH_BYTE:
    case SH_SHORT:
    case SH_INT:
    case SH_LONG:
        if (value < column->low || value > column->high) {
            return 0;
        }
        break;
    case SH_DOUBLE:
        if (value < -EXACT || value > EXACT) {
            return 0;
        }
        break;
    case SH_EPOCH:
        if (__builtin_mul_overflow(value, UNITS[column->digits], &value) || value == INT64_MIN) {
            return 0;
        }
        break;
    default:
        return 0;
    }
    switch (column->kind) {
    case SH_BYTE:
        ((int8_t *)column->values)[row] = (int8_t)value;
        break;
    case SH_SHORT:
        ((int16_t *)column->values)[row] = (int16_t)value;
        break;
    case SH_INT:
        ((int32_t *)column->values)[row] = (int32_t)value;
        break;
    case SH_DOUBLE:
        ((double *)column->values)[row] = (double)value;
        break;
    default:
        ((int64_t *)column->values)[row] = value;
    }
    return 1;
}

static int put_real(struct sh_column *column, int64_t row, double value, int single) {
    if (!(value > -DBL_MAX && value <= DBL_MAX)) { /* no number, infinite, null */
        return 0;
    }
    if (column->kind == SH_DOUBLE) {
        ((double *)column->values)[row] = value;
        return 1;
    }
    if (column->kind == SH_FLOAT && single && value != (double)-FLT_MAX) {
        ((float *)column->values)[row] = (float)value;
        return 1;
    }
    return 0;
}

static int fits(const struct sh_column *column, const uint8_t *p, const uint8_t *stop) {
    enum { LEAD = 0xC0, ALL = 0xF4 };
    if (column->kind != SH_TEXT || (stop - p == 1 && *p == 0)) { /* one zero byte would be read as an empty text */
        return 0;
    }
    for (; column->last_lead < ALL && p < stop; p++) {
        if (*p >= LEAD && *p > column->last_lead) {
            return 0;
        }
    }
    return 1;
}

int sh_take_null(struct record *record, int64_t number) {
    for (; number >= 0; number = record->records->scan->columns[number].also) {
        sh_set_null(record->records->scan->columns + number, record->row);
    }
    return 1;
}

int sh_take_whole(struct record *record, int64_t number, int64_t value) {
    for (; number >= 0; number = record->records->scan->columns[number].also) {
        if (!put_whole(record->records->scan->columns + number, record->row, value)) {
            return 0;
        }
    }
    return 1;
}

int sh_take_truth(struct record *record, int64_t number, uint64_t value) {
    if (value > 1) {
        return 0;
    }
    for (; number >= 0; number = record->records->scan->columns[number].also) {
        struct sh_column *column = record->records->scan->columns + number;
        if (column->kind != SH_BOOLEAN) {
            return 0;
        }
        ((uint8_t *)column->values)[record->row] = (uint8_t)value;
    }
    return 1;
}

int sh_take_real(struct record *record, int64_t number, double value, int single) {
    for (; number >= 0; number = record->records->scan->columns[number].also) {
        if (!put_real(record->records->scan->columns + number, record->row, value, single)) {
            return 0;
        }
    }
    return 1;
}

int sh_take_instant(struct record *record, int64_t number, int64_t seconds, int64_t nanos) {
    int64_t value;
    if (nanos < 0 || nanos >= NS || __builtin_mul_overflow(seconds, NS, &value) ||
        __builtin_add_overflow(value, nanos, &value) || value == INT64_MIN) {
        return number < 0 && nanos >= 0 && nanos < NS;
    }
    for (; number >= 0; number = record->records->scan->columns[number].also) {
        struct sh_column *column = record->records->scan->columns + number;
        if (column->kind != SH_EPOCH || column->digits != 0) {
            return 0;
        }
        ((int64_t *)column->values)[record->row] = value;
    }
    return 1;
}

int sh_take_text(struct record *record, int64_t number, const uint8_t *p, const uint8_t *stop) {
    if (!sh_is_text(p, stop)) {
        return 0;
    }
    for (; number >= 0; number = record->records->scan->columns[number].also) {
        struct sh_column *column = record->records->scan->columns + number;
        if (!fits(column, p, stop) || !sh_put_text(column, record->row, p, stop, record->limit)) {
            return 0;
        }
    }
    return 1;
}

int64_t sh_scan_records(struct sh_records *records, const uint8_t *data, const int32_t *ends, int64_t count,
                        int64_t *rows, read_record *read) {
    struct sh_scan *scan = records->scan;
    struct record record = {records, data, data + ends[count], 0, 0};
    for (int64_t i = 0; i < count; i++) {
        const uint8_t *p = data + ends[i];
        record.end = data + ends[i + 1] - 1;
        record.number = ++scan->line;
        int begins =
            record.end - p >= records->prefix_length && memcmp(p, records->prefix, (size_t)records->prefix_length) == 0;
        if (LIKELY(begins && read(&record, p + records->prefix_length))) {
            rows[record.row++] = i;
            continue;
        }
        for (int64_t column = 0; column < scan->column_count; column++) {
            scan->columns[column].valid[record.row] = 1;
        }
    }
    return record.row;
}
