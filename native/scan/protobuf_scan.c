/* Protobuf messages to columns: flat ones, of fields that are no message but Timestamp, and not repeated.
 *
 * As of the page "Encoding" of Protobuf's documentation. In doubt is what a parser takes in one of several ways: a field
 * that comes twice, one of another wire type, one that nobody has declared, groups, numbers beyond their type. */
#include "scan/wire.h"

enum { VARINT = 0, EIGHT = 1, LENGTH = 2, FOUR = 5, WIRE_BITS = 3, MOST_NUMBER = 0x1FFFFFFF };

static int wire_of(int64_t kind) {
    switch (kind) {
    case SH_WIRE_DOUBLE:
    case SH_WIRE_FIXED64:
    case SH_WIRE_SFIXED64:
        return EIGHT;
    case SH_WIRE_FLOAT:
    case SH_WIRE_FIXED32:
    case SH_WIRE_SFIXED32:
        return FOUR;
    case SH_WIRE_STRING:
    case SH_WIRE_BYTES:
    case SH_WIRE_TIMESTAMP:
        return LENGTH;
    default:
        return VARINT;
    }
}

/* The field with a number, by way of the one that is behind the last; NULL if there is none. */
static struct sh_wire_field *field_of(struct sh_records *records, int64_t number, int64_t guess) {
    for (int64_t i = 0; i < records->field_count; i++) {
        struct sh_wire_field *field = records->fields + (guess + i) % records->field_count;
        if (field->number == number) {
            return field;
        }
    }
    return NULL;
}

/* Whether a number of a kind is one, as *value with its sign. */
static int whole_of(int64_t kind, uint64_t bits, int64_t *value) {
    *value = (int64_t)bits;
    switch (kind) {
    case SH_WIRE_INT:
        return sh_is_int(*value);
    case SH_WIRE_UINT:
        return bits <= UINT32_MAX;
    case SH_WIRE_ULONG:
    case SH_WIRE_FIXED64:
        return *value >= 0;
    case SH_WIRE_SINT:
        *value = sh_zigzag(bits);
        return sh_is_int(*value);
    case SH_WIRE_SLONG:
        *value = sh_zigzag(bits);
        return 1;
    case SH_WIRE_SFIXED32:
        *value = (int32_t)(uint32_t)bits;
        return 1;
    default:
        return 1;
    }
}

/* Seconds and nanoseconds of a Timestamp, each once. */
static int take_timestamp(struct record *record, const struct sh_wire_field *field, const uint8_t *p,
                          const uint8_t *stop) {
    enum { SECONDS = 1 << WIRE_BITS, NANOS = 2 << WIRE_BITS };
    uint64_t seconds = 0, nanos = 0, bits;
    int has_seconds = 0, has_nanos = 0;
    while (p < stop) {
        uint8_t tag = *p++;
        p = sh_varint(p, stop, &bits);
        if (p == NULL || (tag != SECONDS && tag != NANOS) || (tag == SECONDS ? has_seconds++ : has_nanos++)) {
            return 0;
        }
        *(tag == SECONDS ? &seconds : &nanos) = bits;
    }
    return sh_take_instant(record, field->column, (int64_t)seconds, (int64_t)nanos);
}

static int take_bits(struct record *record, const struct sh_wire_field *field, uint64_t bits) {
    int64_t value;
    switch (field->kind) {
    case SH_WIRE_BOOLEAN:
        return sh_take_truth(record, field->column, bits);
    case SH_WIRE_FLOAT:
        return sh_take_real(record, field->column, sh_float_of((uint32_t)bits), 1);
    case SH_WIRE_DOUBLE:
        return sh_take_real(record, field->column, sh_double_of(bits), 0);
    default:
        return whole_of(field->kind, bits, &value) && sh_take_whole(record, field->column, value);
    }
}

/* The value of a field at p. *set is 0 for a default, which a field without columns does not show. */
static const uint8_t *take_value(struct record *record, const struct sh_wire_field *field, const uint8_t *p, int *set) {
    uint64_t bits;
    int wire = wire_of(field->kind), width = wire == EIGHT ? 8 : 4;
    if (wire == VARINT || wire == LENGTH) {
        p = sh_varint(p, record->end, &bits);
        if (p == NULL || (wire == LENGTH && bits > (uint64_t)(record->end - p))) {
            return NULL;
        }
    } else if (record->end - p < width) {
        return NULL;
    } else {
        bits = wire == EIGHT ? sh_bytes_8(p) : sh_bytes_4(p);
        p += width;
    }
    *set = bits != 0;
    if (wire != LENGTH) {
        return take_bits(record, field, bits) ? p : NULL;
    }
    const uint8_t *stop = p + bits;
    int good = field->kind == SH_WIRE_STRING      ? sh_take_text(record, field->column, p, stop)
               : field->kind == SH_WIRE_TIMESTAMP ? take_timestamp(record, field, p, stop)
                                                  : 1;
    return good ? stop : NULL;
}

/* What an unset field is: null, or the default of its type. */
static int take_unset(struct record *record, const struct sh_wire_field *field) {
    if (field->nulls) {
        return sh_take_null(record, field->column);
    }
    return field->kind == SH_WIRE_STRING ? sh_take_text(record, field->column, record->end, record->end)
                                         : take_bits(record, field, 0);
}

static int read_protobuf(struct record *record, const uint8_t *p) {
    struct sh_records *records = record->records;
    struct sh_wire_field *fields = records->fields, *stop = fields + records->field_count;
    int64_t next = 0, taken = 0;
    while (p < record->end) {
        uint64_t tag;
        int set;
        p = sh_varint(p, record->end, &tag);
        if (p == NULL || tag >> WIRE_BITS > MOST_NUMBER) {
            return 0;
        }
        struct sh_wire_field *field = field_of(records, (int64_t)(tag >> WIRE_BITS), next);
        if (field == NULL || field->record == record->number || (int)(tag & 7) != wire_of(field->kind)) {
            return 0;
        }
        next = field - fields + 1;
        field->record = record->number;
        p = take_value(record, field, p, &set);
        if (p == NULL || (field->column < 0 && !set && !field->nulls)) {
            return 0;
        }
        taken++;
    }
    for (struct sh_wire_field *field = fields; taken < records->field_count && field < stop; field++) {
        if (field->record != record->number && field->column >= 0 && !take_unset(record, field)) {
            return 0;
        }
    }
    for (struct sh_wire_field *field = fields; field < stop; field++) {
        field->met += field->column < 0 && field->record == record->number;
    }
    return 1;
}

int64_t sh_protobuf_scan(struct sh_records *records, const uint8_t *data, const int32_t *ends, int64_t count,
                         int64_t *rows) {
    return sh_scan_records(records, data, ends, count, rows, read_protobuf);
}
