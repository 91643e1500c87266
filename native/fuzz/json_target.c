/* Lines of JSON, with a column of each kind and unknown names up to the end of their table. */
#include "fuzz/columns.h"

enum { KINDS = SH_NESTED + 1, COLUMNS = KINDS + 1, OBJECTS = 2, NAMES = 40, SLOTS = 64, NAME_TEXT = 256 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    uint8_t *input = made(size); /* of its own, so that it ends where the input does */
    memcpy(input, data, size);
    int64_t lines = sh_line_ends(input, (int64_t)size, NULL, 0);
    int64_t total = lines + (size > 0 && input[size - 1] != '\n');
    int32_t *ends = made(sizeof *ends * (size_t)(total + 1));
    sh_line_ends(input, (int64_t)size, ends + 1, lines);
    ends[total] = (int32_t)size;

    struct sh_name *list = made(sizeof *list * NAMES);
    int32_t *slots = made(sizeof *slots * SLOTS);
    memset(slots, 0xFF, sizeof *slots * SLOTS);
    struct sh_names names = {list, 0, NAMES, made(NAME_TEXT), 0, NAME_TEXT, slots, SLOTS - 1, size};
    struct sh_column columns[COLUMNS];
    memset(columns, 0, sizeof columns);
    for (int i = 0; i < KINDS; i++) {
        struct sh_column *c = columns + i;
        uint8_t name = (uint8_t)('a' + i);
        fuzz_column(c, i, size, total);
        sh_declare(&names, &name, 1, i % OBJECTS, i, -1);
    }
    sh_declare(&names, (const uint8_t *)"z", 1, 0, -1, 1);
    struct sh_column *plain = columns + SH_TEXT, *coded = columns + KINDS;
    fuzz_text_ids(coded, plain, size, total);
    plain->also = KINDS;
    int32_t *ids = coded->ids;
    int64_t first[OBJECTS] = {-1, -1};
    struct sh_scan scan = {&names, columns, COLUMNS, first, fuzz_powers, 0, 0, 0, 0};
    int64_t *rows = made(sizeof *rows * (size_t)total);
    int64_t good = sh_json_scan(&scan, input, ends, total, rows);
    HOLDS(good <= total);
    fuzz_text_ids_end(coded, plain, ids, good);
    fuzz_columns_end(columns, COLUMNS, good);
    free(names.text);
    free(list);
    free(slots);
    free(rows);
    free(ends);
    free(input);
    return 0;
}

/* clang-format off */
const char *const fuzz_pieces[] = {
    "{\"a\":5,\"c\":-7,\"z\":{\"b\":1,\"d\":9223372036854775807}}\n", "{\"e\":\"x\",\"g\":1.5e300,\"h\":true}\n",
    "{\"i\":\"2013-01-01T05:00:00.123456789+01:00\",\"n\":\"\\ud83d\\ude00\\n\"}\n", "{\"o\":5,\"w\":1e5,\"z\":{\"p\":[1,{\"r\":null}]}}\n",
    "{\"k\":\"2024-02-29\",\"m\":-1.500000}\n", "{\"m\":\"+0012345678901234567890.12\",\"z\":{\"l\":\"23:59:59.999999\"}}\n",
    "{\"z\":{\"l\":\"13:30\"},\"k\":null,\"m\":null}\n",
    "{\"z\":{\"f\":0.000001234567890123456,\"j\":1357016400000.25,\"n\":\"t\\\\\"}}\n", "\xf0\x9f\x98\x80", "\xc3\xa9", "null",
    "\\u0041", "\"", "}", "{", ",", ":", "\n", "1e22", "-", "0.", "[[[[[[[[", "]]]]]]]]"};
/* clang-format on */
const size_t fuzz_piece_count = sizeof fuzz_pieces / sizeof *fuzz_pieces;
