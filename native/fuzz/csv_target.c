/* CSV records in many dialects, with a column of each kind; the first bytes choose the dialect. */
#include "fuzz/columns.h"

enum { KINDS = SH_TOKEN, COLUMNS = KINDS + 1, FIELDS = 5, SETTINGS = 4 };

static void check(const int64_t *starts, const int64_t *stops, int64_t count, int64_t first, int64_t lines) {
    for (int64_t i = 0; i < count; i++) {
        HOLDS(starts[i] >= first && stops[i] > starts[i] && stops[i] <= lines);
        first = stops[i];
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char DELIMITERS[] = ",;\t.1|", QUOTES[] = "\"'5";
    static const char NULLS[] = "NA-1\"q";
    static const int64_t NULL_ENDS[] = {0, 2, 4, 6};
    if (size <= SETTINGS) {
        return 0;
    }
    uint8_t chosen[SETTINGS];
    memcpy(chosen, data, SETTINGS);
    size -= SETTINGS;
    uint8_t *input = made(size); /* of its own, so that it ends where the input does */
    memcpy(input, data + SETTINGS, size);
    int framed = chosen[2] >> 2 & 1;
    if (framed) {
        input[size - 1] = '\n'; /* messages are followed by one */
    }
    int64_t lines = sh_line_ends(input, (int64_t)size, NULL, 0);
    int64_t total = lines + (input[size - 1] != '\n');
    int32_t *ends = made(sizeof *ends * (size_t)(total + 1));
    sh_line_ends(input, (int64_t)size, ends + 1, lines);
    ends[total] = (int32_t)size;

    int count = 1 + chosen[3] % COLUMNS, fields = 1 + (chosen[3] >> 4) % FIELDS;
    struct sh_column columns[COLUMNS + 1];
    memset(columns, 0, sizeof columns);
    int64_t taken[FIELDS] = {-1, -1, -1, -1, -1};
    for (int i = 0; i < count; i++) {
        struct sh_column *c = columns + i;
        fuzz_column(c, (i + chosen[0]) % KINDS, size, total);
        c->also = taken[i % fields];
        taken[i % fields] = i;
    }
    struct sh_column *plain = NULL, *coded = columns + count;
    for (int i = 0; i < count && plain == NULL; i++) {
        plain = columns[i].kind == SH_TEXT ? columns + i : NULL;
    }
    if (plain != NULL) {
        fuzz_text_ids(coded, plain, size, total);
        coded->also = plain->also;
        plain->also = count++;
    }
    int32_t *ids = plain != NULL ? coded->ids : NULL;
    struct sh_scan scan = {NULL, columns, count, NULL, fuzz_powers, 0, 0, 0, 0};
    int64_t first = chosen[1] >> 4 < total ? chosen[1] >> 4 : 0;
    struct sh_csv csv;
    memset(&csv, 0, sizeof csv);
    csv.scan = &scan;
    csv.fields = taken;
    csv.field_count = fields;
    csv.delimiter = (uint8_t)DELIMITERS[chosen[0] % (sizeof DELIMITERS - 1)];
    csv.quote = chosen[1] % 4 == 3 ? -1 : (uint8_t)QUOTES[chosen[1] % 4];
    csv.trailing = chosen[2] & 1;
    csv.last = chosen[2] >> 1 & 1;
    csv.framed = framed;
    csv.comment = "#";
    csv.comment_length = chosen[2] >> 3 & 1;
    csv.nulls = NULLS;
    csv.null_ends = NULL_ENDS;
    csv.null_count = 4;
    csv.null_lengths = 1 | 1 << 2;
    csv.quoted_null = chosen[2] >> 4 & 1;
    csv.longest = 40;
    csv.alone = chosen[2] >> 5 == 7 ? first : -1;
    csv.rows = made(sizeof *csv.rows * (size_t)total);
    csv.stops = made(sizeof *csv.stops * (size_t)total);
    csv.odd = made(sizeof *csv.odd * (size_t)total);
    csv.odd_stops = made(sizeof *csv.odd_stops * (size_t)total);
    int64_t good = sh_csv_scan(&csv, input, ends, first, total);
    check(csv.rows, csv.stops, good, first, total);
    check(csv.odd, csv.odd_stops, csv.odd_count, first, total);
    if (plain != NULL) {
        fuzz_text_ids_end(coded, plain, ids, good);
    }
    fuzz_columns_end(columns, count, good);
    free(csv.rows);
    free(csv.stops);
    free(csv.odd);
    free(csv.odd_stops);
    free(ends);
    free(input);
    return 0;
}

/* clang-format off */
const char *const fuzz_pieces[] = {
    "5,-7,9223372036854775807,1.5e300\n", "\"a\nb\",\"\"\"x\",\"y\"\r\n", "true;2013-01-01T05:00:00.123456789+01:00;+07.;NaN\n",
    "x,0.000001234567890123456789012345,1357016400000.25,2013-01-01\n", "#\"\n", "\r\n", "\"", "\"\"", "'", "5", ",", ";", "\t", ".",
    "\n", "NA", "-1", "\xf0\x9f\x98\x80", "\xc3\xa9", "-Infinity", "1e22", "0000000000", "12345678901234567890",
    "abcdefghijklmnopqrstuvwxyz", "False", "2024-02-29", "23:59:59.999999", "+0012345678901234567890.12"};
/* clang-format on */
const size_t fuzz_piece_count = sizeof fuzz_pieces / sizeof *fuzz_pieces;
