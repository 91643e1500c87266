/* Distinct texts of several tables in the order of their UTF-16 code units, and the rank of each among them.
 *
 * Texts lie anywhere in memory. They are read twice in the order of their tables: to see which first bytes there are,
 * and to copy them to parts by these bytes. Then each part is sorted in the processor's cache. */
#include "bytes/bytes.h"
#include "merge/keyed.h"
#include "merge/merge.h"
#include "merge/numbered.h"
#include "merge/spans.h"

enum { WORD = 8, MANY = 32, BYTES = 3, SAMPLES = 64, SLACK = 16, HEAD = sizeof(struct sh_number) };

/* Where text i begins, which is where the one before it ends. */
static inline int64_t begin_of(const struct sh_texts *t, int64_t i) { return sh_end(t->ends, t->wide, t->first + i); }

static inline int64_t length_of(const struct sh_texts *t, int64_t i) { return begin_of(t, i + 1) - begin_of(t, i); }

static inline int is_valid(const struct sh_texts *t, int64_t i) {
    const int64_t bit = t->first + i;
    return t->valid == NULL || (t->valid[bit >> 3] >> (bit & 7) & 1);
}

static inline uint64_t first_key(const struct sh_texts *t, int64_t i, int64_t depth) {
    return key_at(t->data + begin_of(t, i) + depth, length_of(t, i) - depth, t->data + t->size);
}

/* Whether all texts lie in the data. */
static int fit(const struct sh_texts *t) {
    int64_t last = t->count > 0 ? begin_of(t, 0) : 0, wrong = last < 0;
    for (int64_t i = 1; i <= t->count; i++) {
        int64_t end = begin_of(t, i);
        wrong |= end < last;
        last = end;
    }
    return !wrong && last <= t->size;
}

/* To which part a text belongs: by its first bytes behind the `depth` that all begin with. Digits number the different
 * ones of each byte, in order. */
struct spread {
    int64_t depth, bytes, parts;
    uint32_t kinds[BYTES], digits[BYTES][256];
};

static inline uint32_t part_of(const struct spread *spread, uint64_t key) {
    uint32_t part = 0;
    for (int64_t b = 0; b < spread->bytes; b++) {
        part = part * spread->kinds[b] + spread->digits[b][key >> 8 * (WORD - 1 - b) & 255];
    }
    return part;
}

/* How many of `most` bytes a text begins with as another one does. */
static int64_t common_of(const struct sh_texts *t, int64_t i, const uint8_t *other, int64_t most) {
    const int64_t length = length_of(t, i);
    const uint8_t *p = t->data + begin_of(t, i);
    int64_t same = 0;
    while (same < most && same < length && p[same] == other[same]) {
        same++;
    }
    return same;
}

/* Counts the bytes behind what all texts begin with, of which spread->depth says how many they may be. Whether they are
 * so many; if not, it says how many they are. */
static int count_bytes(const struct sh_texts *tables, int64_t table_count, const uint8_t *one, const uint8_t *one_end,
                       struct spread *spread) {
    const int64_t depth = spread->depth;
    memset(spread->digits, 0, sizeof spread->digits);
    for (const struct sh_texts *t = tables; t < tables + table_count; t++) {
        for (int64_t i = 0; i < t->count; i++) {
            if (!is_valid(t, i)) {
                continue;
            }
            const uint8_t *p = t->data + begin_of(t, i);
            if (UNLIKELY(length_of(t, i) < depth || !same_bytes(p, t->data + t->size, one, one_end, depth))) {
                spread->depth = common_of(t, i, one, spread->depth);
            }
            const uint64_t key = first_key(t, i, depth);
            for (int b = 0; b < BYTES; b++) {
                spread->digits[b][key >> 8 * (WORD - 1 - b) & 255]++;
            }
        }
    }
    return spread->depth == depth;
}

/* Finds the parts of `total` texts, of which text `first` of the table `from` is not null. */
static struct spread spread_of(const struct sh_texts *tables, int64_t table_count, int64_t total,
                               const struct sh_texts *from, int64_t first) {
    const uint8_t *one = from->data + begin_of(from, first);
    struct spread spread = {.depth = length_of(from, first), .parts = 1};
    for (const struct sh_texts *t = tables; t < tables + table_count; t++) { /* a guess, for the first pass */
        for (int64_t i = 0; i < t->count; i += total / SAMPLES + 1) {
            spread.depth = is_valid(t, i) ? common_of(t, i, one, spread.depth) : spread.depth;
        }
    }
    while (!count_bytes(tables, table_count, one, from->data + from->size, &spread)) {
    }
    for (int b = 0; b < BYTES; b++) {
        uint32_t kinds = 0;
        for (int byte = 0; byte < 256; byte++) {
            const uint32_t number = spread.digits[b][byte];
            spread.digits[b][byte] = kinds;
            kinds += number > 0;
        }
        if (spread.bytes == b && spread.parts * kinds <= (total < SH_PARTS ? total : SH_PARTS)) {
            spread.kinds[b] = kinds;
            spread.parts *= kinds;
            spread.bytes++;
        }
    }
    return spread;
}

/* The same of any texts: few are one part. */
static struct spread parts_of(const struct sh_texts *tables, int64_t table_count) {
    int64_t total = 0;
    for (int64_t k = 0; k < table_count; k++) {
        total += tables[k].count;
    }
    for (const struct sh_texts *t = tables; total >= MANY && t < tables + table_count; t++) {
        for (int64_t i = 0; i < t->count; i++) {
            if (is_valid(t, i)) {
                return spread_of(tables, table_count, total, t, i);
            }
        }
    }
    return (struct spread){.parts = 1};
}

/* Copies texts to their parts, which end at `ends` then. A part has room for SLACK bytes behind it. */
static void move(const struct sh_texts *tables, int64_t table_count, const struct spread *spread, uint8_t *room,
                 int64_t *ends) {
    uint32_t number = 0;
    for (const struct sh_texts *t = tables; t < tables + table_count; t++, number++) {
        for (int64_t i = 0; i < t->count; i++, number++) {
            if (!is_valid(t, i)) {
                continue;
            }
            const int64_t low = begin_of(t, i), length = length_of(t, i);
            const struct span text = {t->data + low, length, t->size - low};
            const struct sh_number head = {number, (uint32_t)length};
            int64_t *end = ends + part_of(spread, first_key(t, i, spread->depth));
            memcpy(room + *end, &head, HEAD);
            copy(room + *end + HEAD, &text, length + SLACK);
            *end += HEAD + length;
        }
    }
}

/* Finds the distinct texts of tables, one behind the other: `out` gets them, `out_ends` where each ends, from [1] on, and
 * `ranks` the rank of each text that is not null: those of a table, then one that stays, and so on. `items` and `spare`
 * have room for all texts, `scratch` for all their bytes, 8 more for each and 16 * (SH_PARTS + 1). Returns how many
 * distinct ones there are, -1 where texts are not in the data, -2 where they have no room. */
int64_t sh_union_texts(const struct sh_texts *tables, int64_t table_count, struct sh_keyed *items,
                       struct sh_keyed *spare, uint8_t *scratch, int64_t scratch_room, int32_t *ranks,
                       int32_t *out_ends, uint8_t *out, int64_t out_room) {
    int64_t ends[SH_PARTS] = {0}, found = 0, used = 0, at = 0, total = table_count;
    for (int64_t k = 0; k < table_count; k++) {
        if (!fit(tables + k)) {
            return -1;
        }
        total += tables[k].count;
    }
    if (total > UINT32_MAX) {
        return -2;
    }
    const struct spread spread = parts_of(tables, table_count);
    for (const struct sh_texts *t = tables; t < tables + table_count; t++) {
        for (int64_t i = 0; i < t->count; i++) {
            if (!is_valid(t, i)) { /* its bytes are not among those that were counted */
                continue;
            }
            if (length_of(t, i) > INT32_MAX) {
                return -2;
            }
            ends[part_of(&spread, first_key(t, i, spread.depth))] += HEAD + length_of(t, i);
        }
    }
    for (int64_t part = 0; part < spread.parts; part++) {
        const int64_t size = ends[part];
        ends[part] = at;
        at += size + SLACK;
    }
    if (at > scratch_room) {
        return -2;
    }
    move(tables, table_count, &spread, scratch, ends);
    const struct sh_numbered moved = {scratch, scratch + scratch_room};
    at = 0;
    for (int64_t part = 0; part < spread.parts; part++, at += SLACK) {
        int64_t count = 0;
        for (; at < ends[part]; at += HEAD + number_of(&moved, at).length) {
            items[count++] = (struct sh_keyed){key_of(&moved, at, spread.depth), at};
        }
        sh_sort_numbered(&moved, items, spare, count, spread.depth);
        for (int64_t i = 0; i < count; i++) {
            const struct sh_number head = number_of(&moved, items[i].index);
            if (items[i].key == 0) {
                const struct span text = {scratch + items[i].index + HEAD, head.length,
                                          scratch_room - items[i].index - HEAD};
                if (text.length > out_room - used || text.length > INT32_MAX - used) {
                    return -2;
                }
                copy(out + used, &text, out_room - used);
                used += text.length;
                out_ends[++found] = (int32_t)used;
            }
            ranks[head.number] = (int32_t)(found - 1);
        }
    }
    return found;
}

/* The number of the first text that is not behind the one before it; `count` if all are; -1 where texts are not in the
 * data. */
int64_t sh_texts_ordered(const void *ends, int64_t wide, int64_t first, int64_t count, const uint8_t *data,
                         int64_t size) {
    const struct sh_texts t = {ends, wide, NULL, first, count, data, size};
    if (!fit(&t)) {
        return -1;
    }
    for (int64_t i = 1; i < count; i++) {
        int64_t one = length_of(&t, i - 1), other = length_of(&t, i), shorter = one < other ? one : other, at = 0;
        const uint8_t *p = data + begin_of(&t, i - 1), *q = data + begin_of(&t, i);
        fetch_ahead(data, q - data, q - data + other, size);
        uint64_t differing = 0;
        while (at < shorter && differing == 0) {
            differing = word_at(p + at, data + size) ^ word_at(q + at, data + size);
            at += differing == 0 ? WORD : __builtin_ctzll(differing) >> 3;
        }
        at = at < shorter ? at : shorter; /* what differs may be behind the shorter one */
        if (at == shorter ? one >= other : raised(p[at]) > raised(q[at])) {
            return i;
        }
    }
    return count;
}
