/* Numbered texts in order: by eight bytes at a time, as numbers. */
#include "merge/numbered.h"
#include "merge/keyed.h"

enum { WORD = 8, NEXT = 16 };

uint64_t sh_raised_word(uint64_t word) {
    uint64_t other = 0;
    for (int k = 0; k < WORD; k++) {
        other |= (uint64_t)raised((uint8_t)(word >> 8 * k)) << 8 * k;
    }
    return other;
}

/* Gives all items the keys of their texts from `depth` on. They lie anywhere: later ones are fetched meanwhile. */
static void set_keys(const struct sh_numbered *of, struct sh_keyed *items, int64_t count, int64_t depth) {
    for (int64_t i = 0; i < count; i++) {
        if (i + NEXT < count) {
            __builtin_prefetch(of->texts + items[i + NEXT].index);
        }
        items[i].key = key_of(of, items[i].index, depth);
    }
}

/* The same behind what all texts begin with from `depth` on. Returns the depth of the keys. */
static int64_t set_differing_keys(const struct sh_numbered *of, struct sh_keyed *items, int64_t count, int64_t depth) {
    for (;;) {
        set_keys(of, items, count, depth);
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

/* The largest group of equal keys is done by going round again, the others, at most half as large, by calls: they nest
 * to the logarithm of the count. */
static void sort_texts(const struct sh_numbered *of, struct sh_keyed *items, struct sh_keyed *spare, int64_t count,
                       int64_t depth, int keyed) {
    for (; count > 1; keyed = 0) {
        depth = keyed ? depth : set_differing_keys(of, items, count, depth);
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
                int64_t left = (int64_t)number_of(of, items[i].index).length - depth;
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
                sort_texts(of, items + longer, spare, high - longer, depth + WORD, 0);
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

void sh_sort_numbered(const struct sh_numbered *of, struct sh_keyed *items, struct sh_keyed *spare, int64_t count,
                      int64_t depth) {
    sort_texts(of, items, spare, count, depth, 1);
}
