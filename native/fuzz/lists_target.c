/* Arrays of numbers, one a line, of each kind of plain value; of texts; objects; and values of bytes. */
#include "fuzz/columns.h"

static const int64_t KINDS[] = {SH_BYTE, SH_SHORT, SH_INT, SH_LONG, SH_FLOAT, SH_DOUBLE, SH_BOOLEAN, SH_CHAR};

/* The same input as arrays of texts. */
static void check_texts(const uint8_t *input, size_t size, const int32_t *ends, const uint8_t *wanted, int64_t total) {
    int64_t room = (int64_t)(size / (size % 7 == 0 ? 8 : 3));
    int32_t *list_ends = made(sizeof *list_ends * (size_t)(total + 1));
    int32_t *text_ends = made(sizeof *text_ends * (size_t)(room + 1));
    uint8_t *texts = made(size), *valid = made((size_t)room), *doubt = made((size_t)total);
    int64_t used = sh_text_lists(input, ends, wanted, total, room, list_ends, text_ends, texts, valid, doubt);
    HOLDS(used >= 0 && used <= room && list_ends[0] == 0 && list_ends[total] == used && text_ends[0] == 0);
    for (int64_t i = 0; i < total; i++) {
        int64_t count = list_ends[i + 1] - list_ends[i];
        HOLDS(doubt[i] <= wanted[i] && count >= 0 && 3 * count <= ends[i + 1] - ends[i]);
        HOLDS((wanted[i] && !doubt[i]) || count == 0);
    }
    for (int64_t k = 0; k < used; k++) {
        HOLDS(valid[k] <= 1 && text_ends[k] <= text_ends[k + 1] && (valid[k] || text_ends[k] == text_ends[k + 1]));
    }
    free(list_ends);
    free(text_ends);
    free(texts);
    free(valid);
    free(doubt);
}

/* The same input as objects, whose values are of the column, or texts. */
static void check_maps(struct sh_scan *scan, const uint8_t *input, size_t size, const int32_t *ends,
                       const uint8_t *wanted, int64_t total, int64_t room, int texts) {
    int64_t longest = 0;
    for (int64_t i = 0; i < total; i++) {
        longest = ends[i + 1] - ends[i] > longest ? ends[i + 1] - ends[i] : longest;
    }
    struct sh_map_lists maps;
    memset(&maps, 0, sizeof maps);
    maps.room = room;
    maps.key_ends = made(sizeof *maps.key_ends * (size_t)(room + 1));
    maps.keys = made(size);
    maps.numbers = made(sizeof *maps.numbers * (size_t)(2 * (longest / 5)));
    if (texts) {
        maps.value_ends = made(sizeof *maps.value_ends * (size_t)(room + 1));
        maps.values = made(size);
    }
    int32_t *list_ends = made(sizeof *list_ends * (size_t)(total + 1));
    uint8_t *doubt = made((size_t)total);
    int64_t used = sh_map_lists(scan, input, ends, wanted, total, &maps, list_ends, doubt);
    HOLDS(used >= 0 && used <= room && list_ends[0] == 0 && list_ends[total] == used && maps.key_ends[0] == 0);
    for (int64_t i = 0; i < total; i++) {
        int64_t count = list_ends[i + 1] - list_ends[i];
        HOLDS(doubt[i] <= wanted[i] && count >= 0 && 5 * count <= ends[i + 1] - ends[i]);
        HOLDS((wanted[i] && !doubt[i]) || count == 0);
    }
    for (int64_t k = 0; k < used; k++) {
        HOLDS(maps.key_ends[k] <= maps.key_ends[k + 1]);
        HOLDS(!texts || maps.value_ends[k] <= maps.value_ends[k + 1]);
    }
    for (int64_t k = used; !texts && k < room; k++) {
        HOLDS(scan->columns->valid[k] == 1);
    }
    free(maps.key_ends);
    free(maps.keys);
    free(maps.numbers);
    free(maps.value_ends);
    free(maps.values);
    free(list_ends);
    free(doubt);
}

/* The same input as values of bytes of each form. */
static void check_bytes(const uint8_t *input, size_t size, const int32_t *ends, const uint8_t *wanted, int64_t total) {
    int32_t *value_ends = made(sizeof *value_ends * (size_t)(total + 1));
    uint8_t *out = made(size), *doubt = made((size_t)total);
    for (int64_t form = 0; form < 3; form++) {
        sh_byte_values(input, ends, wanted, total, form, value_ends, out, doubt);
        HOLDS(value_ends[0] == 0);
        for (int64_t i = 0; i < total; i++) {
            int64_t count = value_ends[i + 1] - value_ends[i];
            HOLDS(doubt[i] <= wanted[i] && count >= 0 && count <= ends[i + 1] - ends[i]);
            HOLDS((wanted[i] && !doubt[i]) || count == 0);
        }
    }
    free(value_ends);
    free(out);
    free(doubt);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    uint8_t *input = made(size); /* of its own, so that it ends where the input does */
    memcpy(input, data, size);
    int64_t lines = sh_line_ends(input, (int64_t)size, NULL, 0);
    int32_t *ends = made(sizeof *ends * (size_t)(lines + 2));
    sh_line_ends(input, (int64_t)size, ends + 1, lines);
    ends[lines + 1] = (int32_t)size;
    int64_t total = lines + 1, room = (int64_t)(size / (size % 7 == 0 ? 8 : 2));
    struct sh_column column;
    memset(&column, 0, sizeof column);
    fuzz_column(&column, KINDS[size % 8], size, room);
    struct sh_scan scan = {NULL, &column, 1, NULL, fuzz_powers, 0, 0, 0, 0};
    uint8_t *wanted = made((size_t)total), *doubt = made((size_t)total);
    int32_t *list_ends = made(sizeof *list_ends * (size_t)(total + 1));
    for (int64_t i = 0; i < total; i++) {
        wanted[i] = i % 5 != 3;
    }
    int64_t used = sh_number_lists(&scan, input, ends, wanted, total, room, list_ends, doubt);
    HOLDS(used >= 0 && used <= room && list_ends[0] == 0 && list_ends[total] == used);
    for (int64_t i = 0; i < total; i++) {
        int64_t count = list_ends[i + 1] - list_ends[i], length = ends[i + 1] - ends[i];
        HOLDS(doubt[i] <= wanted[i] && count >= 0 && 2 * count <= length);
        HOLDS((wanted[i] && !doubt[i]) || count == 0);
    }
    for (int64_t k = 0; k < room; k++) {
        HOLDS(column.valid[k] == 1 || (k < used && column.some_null));
    }
    memset(column.valid, 1, (size_t)room);
    check_maps(&scan, input, size, ends, wanted, total, room, 0);
    check_maps(&scan, input, size, ends, wanted, total, room, 1);
    fuzz_columns_end(&column, 1, 0);
    check_texts(input, size, ends, wanted, total);
    check_bytes(input, size, ends, wanted, total);
    free(wanted);
    free(doubt);
    free(list_ends);
    free(ends);
    free(input);
    return 0;
}

/* clang-format off */
const char *const fuzz_pieces[] = {"[1,2,-3]", "[]\n", "[ 1.5e300 , null ]", "[null,null]\n", "[[1]]", "[\"a\"]", "[\"\\u00e9\",null]\n", "\"\"", "\\n", "\xc3\xa9", "127",
                                   "-128", "0.1", "9223372036854775807", "[", "]", ",", "\n", " ", "null", "1e400", "true", "false", "{", "}", ":", "{\"a\":1,\"b\":null}\n",
                                   "{\"a\":\"x\",\"a\":\"y\"}", "\"AQID\"\n", "AQI=", "AQ==", "[-128,127]\n"};
/* clang-format on */
const size_t fuzz_piece_count = sizeof fuzz_pieces / sizeof *fuzz_pieces;
