/* Texts in another order: picked from one array, or from several that are one behind the other. */
#include "bytes/bytes.h"
#include "merge/merge.h"
#include "merge/spans.h"

enum { BATCH = 32, AHEAD = 2 * BATCH };

static inline int is_in(int64_t low, int64_t high, int64_t size) { return low >= 0 && high >= low && high <= size; }

/* An Arrow array of texts. */
struct array {
    const void *ends;
    int64_t wide, first, total, size;
    const uint8_t *data;
};

/* Finds picked texts, at most BATCH. Returns how many, -1 where one is out of place. */
static int64_t find(const struct array *a, const uint32_t *picks, int64_t count, struct span *found) {
    int64_t number = count < BATCH ? count : BATCH;
    for (int64_t i = 0; i < number; i++) {
        if (i + AHEAD < count) { /* where it is not the number of a text, nothing is read there */
            __builtin_prefetch((const uint8_t *)a->ends + (a->first + picks[i + AHEAD]) * (a->wide ? 8 : 4));
        }
        if (picks[i] >= a->total) {
            return -1;
        }
        int64_t low = sh_end(a->ends, a->wide, a->first + picks[i]),
                high = sh_end(a->ends, a->wide, a->first + picks[i] + 1);
        if (!is_in(low, high, a->size)) {
            return -1;
        }
        found[i] = (struct span){a->data + low, high - low, a->size - low};
        fetch(found + i);
    }
    return number;
}

/* The picked texts one after the other: their bytes, and the end of each from out_ends[1] on. Returns the bytes they
 * take; if that is more than the room, or no end can say it, only that is of use. -1 where a pick or a text is out of
 * place. */
int64_t sh_take_texts(const void *ends, int64_t wide, int64_t first, int64_t total, const uint8_t *data, int64_t size,
                      const uint32_t *picks, int64_t count, void *out_ends, uint8_t *out, int64_t room) {
    struct array a = {ends, wide, first, total, size, data};
    struct span spans[2][BATCH];
    int64_t used = 0, most = wide || room < INT32_MAX ? room : INT32_MAX;
    int64_t number = find(&a, picks, count, spans[0]);
    for (int64_t at = 0, turn = 0; at < count; turn = !turn) {
        if (number < 0) {
            return -1;
        }
        int64_t next = at + number, following = find(&a, picks + next, count - next, spans[!turn]);
        for (int64_t i = 0; i < number; i++) {
            const struct span *text = &spans[turn][i];
            if (text->length <= most - used) {
                copy(out + used, text, room - used);
            } else {
                most = -1; /* those behind it are counted only */
            }
            used += text->length;
            if (wide) {
                memcpy((uint8_t *)out_ends + 8 * (at + i + 1), &used, 8);
            } else {
                int32_t end = (int32_t)used;
                memcpy((uint8_t *)out_ends + 4 * (at + i + 1), &end, 4);
            }
        }
        at = next;
        number = following;
    }
    return used;
}

/* Rows of several parts. Row i lies in part starts[i >> shift], or in one behind it. */
struct rows {
    const struct sh_part *parts; /* the last is empty and says how many rows there are */
    const uint32_t *starts;
    int64_t shift, total;
};

static inline const struct sh_part *part_of(const struct rows *r, uint32_t row) {
    const struct sh_part *part = r->parts + r->starts[row >> r->shift];
    while (UNLIKELY(part[1].row <= row)) {
        part++;
    }
    return part;
}

/* Finds the texts of picked rows, at most BATCH. Returns how many, -1 where one is out of place. */
static int64_t find_rows(const struct rows *r, const uint32_t *picks, int64_t count, struct span *found) {
    int64_t number = count < BATCH ? count : BATCH;
    for (int64_t i = 0; i < number; i++) {
        if (picks[i] >= r->total) {
            return -1;
        }
        const struct sh_part *part = part_of(r, picks[i]);
        const int64_t *ends = part->ends + (picks[i] - part->row);
        if (!is_in(ends[0], ends[1], part->size)) {
            return -1;
        }
        found[i] = (struct span){part->data + ends[0], ends[1] - ends[0], part->size - ends[0]};
        fetch(found + i);
    }
    return number;
}

/* The picked texts one after the other, as many as there is room for; `out_ends` has the end of each, counted from
 * `end`. starts[i] is the part that has row i << shift. Returns how many texts they are, -1 where a pick or a text is
 * out of place. */
int64_t sh_take_parts(const struct sh_part *parts, int64_t part_count, const uint32_t *starts, int64_t shift,
                      const uint32_t *picks, int64_t count, int64_t end, int64_t *out_ends, uint8_t *out,
                      int64_t room) {
    struct rows rows = {parts, starts, shift, parts[part_count].row};
    struct span spans[2][BATCH];
    int64_t used = 0, number = find_rows(&rows, picks, count, spans[0]);
    for (int64_t at = 0, turn = 0; at < count; turn = !turn) {
        if (number < 0) {
            return -1;
        }
        int64_t next = at + number, following = find_rows(&rows, picks + next, count - next, spans[!turn]);
        for (int64_t i = 0; i < number; i++) {
            const struct span *text = &spans[turn][i];
            if (text->length > room - used) {
                return at + i;
            }
            copy(out + used, text, room - used);
            used += text->length;
            out_ends[at + i] = end + used;
        }
        at = next;
        number = following;
    }
    return count;
}
