/* Texts in the order of their UTF-16 code units: sorting, and ranks among the distinct ones. */
#include "bytes/bytes.h"
#include "merge/keyed.h"
#include "merge/merge.h"

enum { WORD = 8, NEXT = 16, AFTER_NEXT = 2 * NEXT };

/* Texts as one Arrow array has them; `end` is the end of all bytes. */
struct texts {
    const void *ends;
    int64_t wide, first;
    const uint8_t *data, *end;
};

static inline const uint8_t *start_of(const struct texts *t, int64_t i) {
    return t->data + sh_end(t->ends, t->wide, t->first + i);
}

static inline int64_t length_of(const struct texts *t, int64_t i) {
    return sh_end(t->ends, t->wide, t->first + i + 1) - sh_end(t->ends, t->wide, t->first + i);
}

/* Whether all texts lie in the data. */
static int fit(const void *ends, int64_t wide, int64_t first, int64_t count, int64_t size) {
    int64_t last = count > 0 ? sh_end(ends, wide, first) : 0, wrong = last < 0;
    for (int64_t i = 1; i <= count; i++) {
        int64_t end = sh_end(ends, wide, first + i);
        wrong |= end < last;
        last = end;
    }
    return !wrong && last <= size;
}

/* UTF-8 orders by code point. UTF-16 has U+10000 and above (first byte F0 to F4) before U+E000 to U+FFFF (EE and EF);
 * these bytes are first bytes of a character only. */
static inline uint8_t raised(uint8_t byte) {
    return byte < 0xEE ? byte : byte < 0xF0 ? byte + 5 : byte < 0xF5 ? byte - 2 : byte;
}

/* The eight bytes of a text from `depth` on, zeros behind its end, so that they compare as numbers. */
static uint64_t key_of(const struct texts *t, int64_t i, int64_t depth) {
    int64_t left = length_of(t, i) - depth;
    if (left <= 0) {
        return 0;
    }
    uint64_t word = first_bytes(word_at(start_of(t, i) + depth, t->end), left);
    if (word & UINT64_C(0x8080808080808080)) {
        uint64_t other = 0;
        for (int k = 0; k < WORD; k++) {
            other |= (uint64_t)raised((uint8_t)(word >> 8 * k)) << 8 * k;
        }
        word = other;
    }
    return __builtin_bswap64(word);
}

/* Gives all items the keys of their texts from `depth` on. They lie anywhere: later ones are fetched meanwhile. */
static void set_keys(const struct texts *t, struct sh_keyed *items, int64_t count, int64_t depth) {
    for (int64_t i = 0; i < count; i++) {
        if (i + AFTER_NEXT < count) {
            __builtin_prefetch((const uint8_t *)t->ends + (t->first + items[i + AFTER_NEXT].index) * (t->wide ? 8 : 4));
            __builtin_prefetch(start_of(t, items[i + NEXT].index) + depth);
        }
        items[i].key = key_of(t, items[i].index, depth);
    }
}

/* The same behind what all texts begin with from `depth` on. Returns the depth of the keys. */
static int64_t set_differing_keys(const struct texts *t, struct sh_keyed *items, int64_t count, int64_t depth) {
    for (;;) {
        set_keys(t, items, count, depth);
        uint64_t one = items[0].key, differing = 0;
        for (int64_t i = 1; i < count; i++) {
            differing |= items[i].key ^ one;
        }
        int64_t same = differing == 0 ? WORD : __builtin_clzll(differing) >> 3, common = 0;
        while (common < same && (one >> 8 * (WORD - 1 - common) & 255) != 0) { /* a zero may be the end of a text */
            common++;
        }
        if (common == 0) {
            return depth;
        }
        depth += common;
    }
}

/* Orders texts whose first `depth` bytes are equal; then a key is 1 where a text is that before it, else 0. The largest
 * group of equal keys is done by going round again, the others, at most half as large, by calls: they nest to the
 * logarithm of the count. */
static void sort_texts(const struct texts *t, struct sh_keyed *items, struct sh_keyed *spare, int64_t count,
                       int64_t depth) {
    while (count > 1) {
        depth = set_differing_keys(t, items, count, depth);
        sh_sort_keyed(items, spare, count);
        struct sh_keyed *large = NULL;
        int64_t large_count = 0;
        for (int64_t low = 0, high; low < count; low = high) {
            uint64_t key = items[low].key, before = WORD + 2;
            for (high = low + 1; high < count && items[high].key == key; high++) {
            }
            if (high - low == 1) {
                items[low].key = 0;
                continue;
            }
            for (int64_t i = low; i < high; i++) { /* texts that end within the eight bytes come first, by length */
                int64_t left = length_of(t, items[i].index) - depth;
                items[i].key = (uint64_t)(left > WORD ? WORD + 1 : left); /* none ends before depth */
            }
            sh_sort_keyed(items + low, spare, high - low);
            int64_t longer = low;
            for (; longer < high && items[longer].key <= WORD; longer++) {
                uint64_t left = items[longer].key;
                items[longer].key = left == before;
                before = left;
            }
            if (high - longer > count / 2) {
                large = items + longer;
                large_count = high - longer;
            } else {
                sort_texts(t, items + longer, spare, high - longer, depth + WORD);
            }
        }
        items = large;
        count = large_count;
        depth += WORD;
    }
    if (count == 1) {
        items[0].key = 0;
    }
}

/* Makes items of all texts that are not null, in order; a key is then 1 where a text is that before it, else 0. Bit
 * first + i of `valid`, if given, is 0 where text i is null. Returns how many items there are, -1 where texts are not
 * in the data. */
int64_t sh_sort_texts(const void *ends, int64_t wide, const uint8_t *valid, int64_t first, int64_t total,
                      const uint8_t *data, int64_t size, struct sh_keyed *items, struct sh_keyed *spare) {
    if (!fit(ends, wide, first, total, size)) {
        return -1;
    }
    int64_t count = 0;
    for (int64_t i = 0; i < total; i++) {
        items[count].index = i; /* the next is written over that of a null */
        count += valid == NULL || (valid[(first + i) >> 3] >> ((first + i) & 7) & 1);
    }
    struct texts t = {ends, wide, first, data, data + size};
    sort_texts(&t, items, spare, count, 0);
    return count;
}

/* From items as sh_sort_texts leaves them: the rank of each text among the distinct ones, and the number of the first
 * text of each rank. Returns how many distinct there are. */
int64_t sh_rank_texts(const struct sh_keyed *items, int64_t count, int32_t *ranks, uint32_t *distinct) {
    int64_t found = 0;
    for (int64_t i = 0; i < count; i++) {
        if (items[i].key == 0) {
            distinct[found++] = (uint32_t)items[i].index;
        }
        ranks[items[i].index] = (int32_t)(found - 1);
    }
    return found;
}

/* The number of the first text that is not behind the one before it; `count` if all are; -1 where texts are not in the
 * data. */
int64_t sh_texts_ordered(const void *ends, int64_t wide, int64_t first, int64_t count, const uint8_t *data,
                         int64_t size) {
    if (!fit(ends, wide, first, count, size)) {
        return -1;
    }
    struct texts t = {ends, wide, first, data, data + size};
    for (int64_t i = 1; i < count; i++) {
        int64_t one = length_of(&t, i - 1), other = length_of(&t, i), shorter = one < other ? one : other, at = 0;
        const uint8_t *p = start_of(&t, i - 1), *q = start_of(&t, i);
        fetch_ahead(data, q - data, q - data + other, size);
        uint64_t differing = 0;
        while (at < shorter && differing == 0) {
            differing = word_at(p + at, t.end) ^ word_at(q + at, t.end);
            at += differing == 0 ? WORD : __builtin_ctzll(differing) >> 3;
        }
        at = at < shorter ? at : shorter; /* what differs may be behind the shorter one */
        if (at == shorter ? one >= other : raised(p[at]) > raised(q[at])) {
            return i;
        }
    }
    return count;
}
