/* Feeds the scanner with mutated blocks of lines. Every buffer has exactly the size that was promised, so that the
 * address sanitizer sees each byte too many.
 *
 * With clang, libFuzzer calls LLVMFuzzerTestOneInput: -fsanitize=fuzzer -DSH_LIBFUZZER. Without it main has a loop of
 * its own: gcc's -fsanitize-coverage=trace-pc calls __sanitizer_cov_trace_pc at each branch, and an input that passes a
 * pair of branches for the first time is kept and mutated further. */
#include <stdio.h>
#include <stdlib.h>

#include "../parts.h"

enum { COLUMNS = 12, OBJECTS = 2, NAMES = 40, SLOTS = 64, NAME_TEXT = 256, LARGEST = 2048 };

extern uint64_t fuzz_powers[]; /* powers.c, which run.py writes */

static void *made(size_t size) {
    void *found = calloc(size ? size : 1, 1);
    if (found == NULL) {
        abort();
    }
    return found;
}

static const size_t WIDTHS[COLUMNS] = {1, 2, 4, 8, 2, 4, 8, 1, 8, 8, 0, 0};

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
    for (int i = 0; i < COLUMNS; i++) {
        struct sh_column *c = columns + i;
        uint8_t name = (uint8_t)('a' + i);
        c->kind = i;
        c->low = -127;
        c->high = 127;
        c->digits = 6;
        c->last_lead = size % 3 == 0 ? 0x7F : size % 3 == 1 ? 0xC3 : 0xF4;
        c->valid = made((size_t)total);
        memset(c->valid, 1, (size_t)total);
        c->values = made(WIDTHS[i] * (size_t)total);
        c->local = i == SH_ISO && size % 2 ? made((size_t)total) : NULL;
        c->ends = made(sizeof *c->ends * (size_t)(total + 1));
        c->room = (int64_t)size;
        c->bytes = made(size);
        sh_declare(&names, &name, 1, i % OBJECTS, i, -1);
    }
    sh_declare(&names, (const uint8_t *)"z", 1, 0, -1, 1);
    int64_t first[OBJECTS] = {-1, -1};
    struct sh_scan scan = {&names, columns, COLUMNS, first, fuzz_powers, 0, 0, 0, 0};
    int64_t *rows = made(sizeof *rows * (size_t)total);
    int64_t good = sh_json_scan(&scan, input, ends, total, rows);
    if (good > total) {
        abort();
    }
    for (int i = 0; i < COLUMNS; i++) {
        for (int64_t r = 0; r < good && WIDTHS[i] == 0; r++) {
            if (columns[i].ends[r] > columns[i].ends[r + 1]) {
                abort();
            }
        }
        free(columns[i].valid);
        free(columns[i].values);
        free(columns[i].local);
        free(columns[i].ends);
        free(columns[i].bytes);
    }
    free(names.text);
    free(list);
    free(slots);
    free(rows);
    free(ends);
    free(input);
    return 0;
}

#ifndef SH_LIBFUZZER
#if defined(__clang__)
#define NOT_WATCHED
#else
#define NOT_WATCHED __attribute__((no_sanitize_coverage))
#endif

static uint8_t seen[1 << 16], fresh;
static uint64_t before, state = 88172645463325252u;

NOT_WATCHED void __sanitizer_cov_trace_pc(void) {
    uint64_t here = (uint64_t)__builtin_return_address(0);
    uint64_t pair = (here ^ before * 3) * UINT64_C(0x9E3779B97F4A7C15) >> 48;
    before = here;
    if (!seen[pair]) {
        seen[pair] = fresh = 1;
    }
}

NOT_WATCHED static uint64_t chance(uint64_t below) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state % below;
}

static const char *const PIECES[] = {
    "{\"a\":5,\"c\":-7,\"z\":{\"b\":1,\"d\":9223372036854775807}}\n", "{\"e\":\"x\",\"g\":1.5e300,\"h\":true}\n",
    "{\"i\":\"2013-01-01T05:00:00.123456789+01:00\",\"k\":\"\\ud83d\\ude00\\n\"}\n", "{\"q\":[1,{\"r\":null}],\"w\":1e5}\n",
    "{\"z\":{\"f\":0.000001234567890123456,\"j\":1357016400000.25,\"l\":\"t\\\\\"}}\n", "\xf0\x9f\x98\x80", "\xc3\xa9", "null",
    "\\u0041", "\"", "}", "{", ",", ":", "\n", "1e22", "-", "0.", "[[[[[[[[", "]]]]]]]]"};

NOT_WATCHED int main(int count, char **words) {
    enum { KEPT = 4096 };
    static uint8_t *corpus[KEPT], work[2 * LARGEST];
    static size_t sizes[KEPT];
    const size_t pieces = sizeof PIECES / sizeof *PIECES;
    long rounds = count > 1 ? atol(words[1]) : 100000;
    state ^= count > 2 ? (uint64_t)atol(words[2]) * 2654435761u : 0;
    size_t kept = 0;
    for (long round = 0; round < rounds; round++) {
        size_t size = 0;
        if (kept > 0 && chance(20)) {
            size_t from = chance(kept);
            size = sizes[from];
            memcpy(work, corpus[from], size);
        }
        for (uint64_t change = 1 + chance(4); change > 0; change--) {
            const char *piece = PIECES[chance(pieces)];
            size_t length = strlen(piece), at = chance(size + 1);
            uint64_t kind = chance(4);
            if (kind == 0 && size > 0) {
                work[chance(size)] = (uint8_t)chance(256);
            } else if (kind == 1 && size > 0) {
                size_t gone = chance(size - at + 1);
                memmove(work + at, work + at + gone, size - at - gone);
                size -= gone;
            } else if (size + length <= LARGEST) {
                memmove(work + at + length, work + at, size - at);
                memcpy(work + at, piece, length);
                size += length;
            }
        }
        fresh = 0;
        LLVMFuzzerTestOneInput(work, size);
        if (fresh && kept < KEPT) {
            corpus[kept] = malloc(size ? size : 1);
            memcpy(corpus[kept], work, size);
            sizes[kept++] = size;
        }
    }
    printf("%ld inputs, %zu of them reached something new\n", rounds, kept);
    return 0;
}
#endif
