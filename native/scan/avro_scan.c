/* Avro records to columns: flat ones, whose fields are primitive or a union of one with null.
 *
 * As of the specification of Avro 1.11, "Binary Encoding". What the schema does not allow is in doubt, and so is
 * what is left over. */
#include "scan/wire.h"

/* The length at p, of bytes that end before `end`; NULL in doubt. */
static const uint8_t *length_at(const uint8_t *p, const uint8_t *end, int64_t *length) {
    uint64_t bits;
    p = sh_varint(p, end, &bits);
    if (p == NULL) {
        return NULL;
    }
    *length = sh_zigzag(bits);
    return *length < 0 || *length > end - p ? NULL : p;
}

static const uint8_t *take_number(struct record *record, const struct sh_wire_field *field, const uint8_t *p) {
    uint64_t bits;
    p = sh_varint(p, record->end, &bits);
    if (p == NULL) {
        return NULL;
    }
    int64_t value = sh_zigzag(bits);
    if (field->kind == SH_WIRE_ENUM) {
        return value >= 0 && value < field->size ? p : NULL;
    }
    if (field->kind == SH_WIRE_INT && !sh_is_int(value)) {
        return NULL;
    }
    return sh_take_whole(record, field->column, value) ? p : NULL;
}

static const uint8_t *take_value(struct record *record, const struct sh_wire_field *field, const uint8_t *p) {
    int64_t left = record->end - p, length;
    switch (field->kind) {
    case SH_WIRE_NULL:
        sh_take_null(record, field->column);
        return p;
    case SH_WIRE_BOOLEAN:
        return left >= 1 && sh_take_truth(record, field->column, *p) ? p + 1 : NULL;
    case SH_WIRE_FLOAT:
        return left >= 4 && sh_take_real(record, field->column, sh_float_of(sh_bytes_4(p)), 1) ? p + 4 : NULL;
    case SH_WIRE_DOUBLE:
        return left >= 8 && sh_take_real(record, field->column, sh_double_of(sh_bytes_8(p)), 0) ? p + 8 : NULL;
    case SH_WIRE_STRING:
        p = length_at(p, record->end, &length);
        return p != NULL && sh_take_text(record, field->column, p, p + length) ? p + length : NULL;
    case SH_WIRE_BYTES:
        p = length_at(p, record->end, &length);
        return p == NULL ? NULL : p + length;
    case SH_WIRE_FIXED:
        return left >= field->size ? p + field->size : NULL;
    default:
        return take_number(record, field, p);
    }
}

static int read_avro(struct record *record, const uint8_t *p) {
    const struct sh_wire_field *field = record->records->fields, *stop = field + record->records->field_count;
    for (; field < stop; field++) {
        if (field->nulls >= 0) {
            if (p >= record->end || *p > 2 || *p == 1) { /* 0 and 1, as zigzag */
                return 0;
            }
            if (*p++ == 2 * field->nulls) {
                sh_take_null(record, field->column);
                continue;
            }
        }
        p = take_value(record, field, p);
        if (p == NULL) {
            return 0;
        }
    }
    return p == record->end;
}

int64_t sh_avro_scan(struct sh_records *records, const uint8_t *data, const int32_t *ends, int64_t count,
                     int64_t *rows) {
    return sh_scan_records(records, data, ends, count, rows, read_avro);
}
