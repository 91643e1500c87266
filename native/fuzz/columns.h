/* The columns that a target of the fuzzer gives to a scanner, and what must hold of them after it. */
#ifndef SPARKHAVEN_FUZZ_COLUMNS_H
#define SPARKHAVEN_FUZZ_COLUMNS_H

#include "fuzz/fuzz.h"
#include "scan/scan.h"

/* A column of a kind with room for `total` rows of an input of `size` bytes, for a field of its own. */
static inline void fuzz_column(struct sh_column *c, int64_t kind, size_t size, int64_t total) {
    static const size_t WIDTHS[] = {1, 2, 4, 8, 2, 4, 8, 1, 8, 8, 4, 8, 32, 0, 0, 0}; /* of a value, by sh_kind */
    c->kind = kind;
    c->low = -127;
    c->high = kind == SH_TIME ? 1000 : kind == SH_DECIMAL ? (int64_t[]){18, 30, 76}[size % 3] : 127;
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

/* A column that takes the same texts as another one, with ids for at most a few of them. */
static inline void fuzz_text_ids(struct sh_column *c, const struct sh_column *plain, size_t size, int64_t total) {
    enum { SLOTS = 16 };
    fuzz_column(c, SH_TEXT, size, total);
    c->last_lead = plain->last_lead;
    c->most = (int64_t)(size / 3 % 8);
    c->seed = size;
    c->ids = made(sizeof *c->ids * (size_t)total);
    c->text_ends = made(sizeof *c->text_ends * (size_t)(c->most + 1));
    c->text_bytes = made(size);
    c->text_ends[0] = 0;
    c->slot_mask = SLOTS - 1;
    c->slots = made(sizeof *c->slots * SLOTS);
    memset(c->slots, 0, sizeof *c->slots * SLOTS);
}

static inline void fuzz_same_text(const uint8_t *a, int64_t length, const uint8_t *b, int64_t other, int same) {
    HOLDS((length == other && memcmp(a, b, (size_t)length) == 0) == same);
}

/* Ids mean the texts that the column without them has; each text is there once. Frees what belongs to ids. */
static inline void fuzz_text_ids_end(struct sh_column *c, const struct sh_column *plain, int32_t *ids, int64_t good) {
    HOLDS(c->ids == NULL || c->ids == ids);
    HOLDS(c->texts >= 0 && c->texts <= c->most);
    for (int64_t r = 0; r < good; r++) {
        HOLDS(c->valid[r] == plain->valid[r]);
        int64_t row = c->ids != NULL ? c->ids[r] : r;
        const int32_t *ends = c->ids != NULL ? c->text_ends : c->ends;
        const uint8_t *bytes = c->ids != NULL ? c->text_bytes : c->bytes;
        if (c->valid[r]) {
            HOLDS(row >= 0 && (c->ids == NULL || row < c->texts));
            fuzz_same_text(bytes + ends[row], ends[row + 1] - ends[row], plain->bytes + plain->ends[r],
                           plain->ends[r + 1] - plain->ends[r], 1);
        }
    }
    for (int64_t i = 0; i < c->texts; i++) {
        for (int64_t k = 0; k < i; k++) {
            fuzz_same_text(c->text_bytes + c->text_ends[i], c->text_ends[i + 1] - c->text_ends[i],
                           c->text_bytes + c->text_ends[k], c->text_ends[k + 1] - c->text_ends[k], 0);
        }
    }
    free(ids);
    free(c->text_ends);
    free(c->text_bytes);
    free(c->slots);
}

/* A date, time or decimal is in its range. */
static inline void fuzz_coded(const struct sh_column *c, int64_t row) {
    static const int64_t MOST = INT64_C(1000000000000000000), DAY = INT64_C(86400000000000);
    const int32_t *days = c->values;
    const int64_t *values = c->values;
    HOLDS(c->kind != SH_DATE || (days[row] >= -719162 && days[row] <= 2932896));
    HOLDS(c->kind != SH_TIME || (values[row] >= 0 && values[row] < DAY && values[row] % c->high == 0));
    if (c->kind == SH_DECIMAL && c->high == 18) {
        HOLDS(values[2 * row] > -MOST && values[2 * row] < MOST && values[2 * row + 1] == values[2 * row] >> 63);
    }
}

/* Texts of accepted rows follow each other; frees all. */
static inline void fuzz_columns_end(struct sh_column *columns, int count, int64_t good) {
    for (int i = 0; i < count; i++) {
        int texts = (columns[i].kind == SH_TEXT && columns[i].ids == NULL) || columns[i].kind >= SH_TOKEN;
        for (int64_t r = 0; texts && r < good; r++) {
            HOLDS(columns[i].ends[r] <= columns[i].ends[r + 1]);
        }
        for (int64_t r = 0; r < good; r++) {
            fuzz_coded(columns + i, r);
        }
        free(columns[i].valid);
        free(columns[i].values);
        free(columns[i].local);
        free(columns[i].ends);
        free(columns[i].bytes);
    }
}

#endif
