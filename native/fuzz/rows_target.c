/* Rows of any keys, also of so many that they are counted or merged: each comes once, behind those that are less. */
#include "fuzz/fuzz.h"
#include "merge/merge.h"

enum { KEYS = 3, TIMES = 40, PLACES = 2 };

static uint64_t word_of(const struct sh_words *key, uint32_t row) {
    uint64_t word = 0;
    memcpy(&word, (const uint8_t *)key->words + (size_t)row * (size_t)key->width, (size_t)key->width);
    return word;
}

/* Whether a row may stand before another. */
static int is_before(const struct sh_words *keys, int64_t count, uint32_t one, uint32_t other) {
    for (int64_t i = 0; i < count; i++) {
        uint64_t first = word_of(keys + i, one), second = word_of(keys + i, other);
        if (first != second) {
            return first < second;
        }
    }
    return one < other;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const int64_t WIDTHS[] = {1, 2, 4, 8};
    if (size < 3) {
        return 0;
    }
    int64_t key_count = data[0] % (KEYS + 1), rows = (int64_t)(size - 3) * (data[1] % TIMES), step = data[2];
    struct sh_words keys[KEYS];
    uint8_t *words[KEYS];
    for (int64_t i = 0; i < key_count; i++) {
        keys[i].width = WIDTHS[(data[0] >> (2 + 2 * i)) & 3];
        words[i] = made((size_t)(rows * keys[i].width));
        for (int64_t row = 0; row < rows; row++) { /* the input again and again, and rising where there is a step */
            uint64_t word = data[3 + (size_t)(row * (i + 1)) % (size - 3)] + (uint64_t)(i > 0 ? row * step : 0);
            memcpy(words[i] + row * keys[i].width, &word, (size_t)keys[i].width);
        }
        keys[i].words = words[i];
    }
    uint32_t *order = made(sizeof *order * (size_t)rows);
    struct sh_keyed *items = made(sizeof *items * (size_t)rows), *spare = made(sizeof *spare * (size_t)rows);
    int64_t *places = made(sizeof *places * (size_t)(rows / PLACES + 1));
    HOLDS(sh_sort_rows(keys, key_count, order, rows, items, spare, places) == rows);
    uint8_t *seen = made((size_t)rows);
    for (int64_t i = 0; i < rows; i++) {
        HOLDS(order[i] < rows && !seen[order[i]]);
        seen[order[i]] = 1;
        HOLDS(i == 0 || is_before(keys, key_count, order[i - 1], order[i]));
    }
    for (int64_t i = 0; i < key_count; i++) {
        free(words[i]);
    }
    free(order);
    free(items);
    free(spare);
    free(places);
    free(seen);
    return 0;
}

/* clang-format off */
const char *const fuzz_pieces[] = {"\x01\x27\x01", "\x02\x27\x03", "\x0b\x20\xff", "\xff\x27\x01", "abcabcabcabc", "zyxwvutsrqponmlkjihgfedcba"};
/* clang-format on */
const size_t fuzz_piece_count = sizeof fuzz_pieces / sizeof *fuzz_pieces;
