/* The columns that a target of the fuzzer gives to a scanner, and what must hold of them after it. */
#ifndef SPARKHAVEN_FUZZ_COLUMNS_H
#define SPARKHAVEN_FUZZ_COLUMNS_H

#include "../sparkhaven.h"
#include "fuzz.h"

/* A column of a kind with room for `total` rows of an input of `size` bytes, for a field of its own. */
static inline void fuzz_column(struct sh_column *c, int64_t kind, size_t size, int64_t total) {
    static const size_t WIDTHS[] = {1, 2, 4, 8, 2, 4, 8, 1, 8, 8, 0, 0}; /* of a value, by sh_kind */
    c->kind = kind;
    c->low = -127;
    c->high = 127;
    c->digits = 6;
    c->also = -1;
    c->last_lead = size % 3 == 0 ? 0x7F : size % 3 == 1 ? 0xC3 : 0xF4;
    c->valid = made((size_t)total);
    memset(c->valid, 1, (size_t)total);
    c->values = made(WIDTHS[kind] * (size_t)total);
    c->local = kind == SH_ISO && size % 2 ? made((size_t)total) : NULL;
    c->ends = made(sizeof *c->ends * (size_t)(total + 1));
    c->room = (int64_t)size;
    c->bytes = made(size);
}

/* Texts of accepted rows follow each other; frees all. */
static inline void fuzz_columns_end(struct sh_column *columns, int count, int64_t good) {
    for (int i = 0; i < count; i++) {
        int texts = columns[i].kind == SH_TEXT || columns[i].kind == SH_TOKEN;
        for (int64_t r = 0; texts && r < good; r++) {
            HOLDS(columns[i].ends[r] <= columns[i].ends[r + 1]);
        }
        free(columns[i].valid);
        free(columns[i].values);
        free(columns[i].local);
        free(columns[i].ends);
        free(columns[i].bytes);
    }
}

#endif
