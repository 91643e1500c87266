/* Records of Avro and of Protobuf, one a line, with a field of each kind and columns that take it. */
#include "fuzz/columns.h"

enum { FIELDS = SH_WIRE_TIMESTAMP + 1, COLUMNS = FIELDS + 2, CODED = FIELDS, DOUBLED = FIELDS + 1 };

/* The kind of a column that takes fields of a kind. */
static int64_t column_kind(int64_t wire) {
    static const int64_t KINDS[FIELDS] = {
        [SH_WIRE_NULL] = SH_LONG,       [SH_WIRE_BOOLEAN] = SH_BOOLEAN, [SH_WIRE_INT] = SH_INT,
        [SH_WIRE_LONG] = SH_LONG,       [SH_WIRE_FLOAT] = SH_FLOAT,     [SH_WIRE_DOUBLE] = SH_DOUBLE,
        [SH_WIRE_STRING] = SH_TEXT,     [SH_WIRE_BYTES] = -1,           [SH_WIRE_ENUM] = -1,
        [SH_WIRE_FIXED] = -1,           [SH_WIRE_UINT] = SH_BYTE,       [SH_WIRE_ULONG] = SH_EPOCH,
        [SH_WIRE_SINT] = SH_SHORT,      [SH_WIRE_SLONG] = SH_LONG,      [SH_WIRE_FIXED32] = SH_INT,
        [SH_WIRE_FIXED64] = SH_DOUBLE,  [SH_WIRE_SFIXED32] = SH_INT,    [SH_WIRE_SFIXED64] = SH_EPOCH,
        [SH_WIRE_TIMESTAMP] = SH_EPOCH,
    };
    return KINDS[wire];
}

static void scan_lines(const uint8_t *input, size_t size, const int32_t *ends, int64_t total, int protobuf) {
    struct sh_column columns[COLUMNS];
    struct sh_wire_field fields[FIELDS];
    memset(columns, 0, sizeof columns);
    memset(fields, 0, sizeof fields);
    int64_t last = protobuf ? SH_WIRE_TIMESTAMP : SH_WIRE_FIXED, count = 0;
    for (int64_t kind = 0; kind < FIELDS; kind++) {
        int64_t takes = column_kind(kind);
        fuzz_column(columns + kind, takes < 0 ? SH_LONG : takes, size, total);
        if (kind == SH_WIRE_TIMESTAMP) {
            columns[kind].digits = 0;
        }
        if (kind > last || (protobuf && (kind == SH_WIRE_NULL || kind == SH_WIRE_ENUM || kind == SH_WIRE_FIXED))) {
            continue;
        }
        int64_t column = takes < 0 ? -1 : kind;
        int64_t nulls = protobuf ? kind % 2 : kind % 3 - 1;
        fields[count++] = (struct sh_wire_field){kind, column, nulls, 3, kind, 0, 0};
    }
    struct sh_column *plain = columns + SH_WIRE_STRING, *coded = columns + CODED;
    fuzz_text_ids(coded, plain, size, total);
    plain->also = CODED;
    int32_t *ids = coded->ids;
    fuzz_column(columns + DOUBLED, SH_DOUBLE, size, total);
    columns[SH_WIRE_LONG].also = DOUBLED;
    struct sh_scan scan = {NULL, columns, COLUMNS, NULL, NULL, 0, 0, 0, 0};
    struct sh_records records = {&scan, fields, count, "P", (int64_t)(size % 2)};
    int64_t *rows = made(sizeof *rows * (size_t)total);
    int64_t good = (protobuf ? sh_protobuf_scan : sh_avro_scan)(&records, input, ends, total, rows);
    HOLDS(good >= 0 && good <= total);
    for (int64_t row = 0; row < good; row++) {
        HOLDS(rows[row] >= row && rows[row] < total);
    }
    for (int64_t i = 0; i < count; i++) {
        HOLDS(fields[i].met >= 0 && fields[i].met <= good);
    }
    fuzz_text_ids_end(coded, plain, ids, good);
    fuzz_columns_end(columns, COLUMNS, good);
    free(rows);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    uint8_t *input = made(size + 1); /* of its own, with a line feed behind the last record */
    memcpy(input, data, size);
    input[size++] = '\n';
    int64_t total = sh_line_ends(input, (int64_t)size, NULL, 0);
    int32_t *ends = made(sizeof *ends * (size_t)(total + 1));
    sh_line_ends(input, (int64_t)size, ends + 1, total);
    scan_lines(input, size, ends, total, 0);
    scan_lines(input, size, ends, total, 1);
    free(ends);
    free(input);
    return 0;
}

/* clang-format off */
const char *const fuzz_pieces[] = {
    /* Avro: a union or none before each: boolean, int, long, float, double, string, bytes, enum, fixed */
    "\x02\x01", "\x06", "\x02\x08", "abcd", "abcdefgh", "\x02\x06xyz", "\x04hi", "\x02\x02", "\x02uvw",
    "\x02\x01\x02\x08\x02\x61\x62\x63\x64\x02\x06xyz\x02\x04hi\x02uvw\n", "\x02\x04hi\x02uvw",
    /* Protobuf: tags and values */
    "\x08\x01", "\x10\x05", "\x18\x96\x01", "%abcd", "1abcdefgh", "2\x03xyz", ":\x02hi", "P\x07", "X\x08", "`\x09", "h\x03",
    "uabcd", "yabcdefgh", "\x85\x01\x61\x62\x63\x64", "\x89\x01\x61\x62\x63\x64\x65\x66gh", "\x92\x01\x04\x08\x05\x10\x07", "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
    "P", "\n", "\x80", "\xf0\x9f\x98\x80", "\xc3\xa9"};
/* clang-format on */
const size_t fuzz_piece_count = sizeof fuzz_pieces / sizeof *fuzz_pieces;
