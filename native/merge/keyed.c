/* Items in the order of their keys: by insertion, by merging, or digit by digit, as many as they are. */
#include "merge/keyed.h"
#include "bytes/bytes.h"

enum { SOME = 1024, WORD = 8 };

void sh_sort_few(struct sh_keyed *items, int64_t count) {
    for (int64_t i = 1; i < count; i++) {
        struct sh_keyed item = items[i];
        int64_t at = i;
        for (; at > 0 && items[at - 1].key > item.key; at--) {
            items[at] = items[at - 1];
        }
        items[at] = item;
    }
}

static void sort_some(struct sh_keyed *items, struct sh_keyed *spare, int64_t count) {
    for (int64_t low = 0; low < count; low += SH_FEW) {
        sh_sort_few(items + low, count - low < SH_FEW ? count - low : SH_FEW);
    }
    for (int64_t width = SH_FEW; width < count; width *= 2) {
        for (int64_t low = 0; low + width < count; low += 2 * width) {
            int64_t high = low + 2 * width < count ? low + 2 * width : count;
            memcpy(spare, items + low, (size_t)width * sizeof *items);
            int64_t a = 0, b = low + width;
            for (int64_t at = low; a < width; at++) {
                items[at] = b < high && items[b].key < spare[a].key ? items[b++] : spare[a++];
            }
        }
    }
}

static void sort_many(struct sh_keyed *items, struct sh_keyed *spare, int64_t count) {
    static const int64_t ALL = 256;
    int64_t counts[WORD][256];
    memset(counts, 0, sizeof counts);
    for (int64_t i = 0; i < count; i++) {
        for (int k = 0; k < WORD; k++) {
            counts[k][items[i].key >> 8 * k & 255]++;
        }
    }
    struct sh_keyed *from = items, *to = spare;
    for (int k = 0; k < WORD; k++) {
        if (counts[k][from[0].key >> 8 * k & 255] == count) {
            continue;
        }
        for (int64_t i = 0, at = 0; i < ALL; i++) {
            int64_t here = counts[k][i];
            counts[k][i] = at;
            at += here;
        }
        for (int64_t i = 0; i < count; i++) {
            to[counts[k][from[i].key >> 8 * k & 255]++] = from[i];
        }
        struct sh_keyed *other = from;
        from = to;
        to = other;
    }
    if (from != items) {
        memcpy(items, from, (size_t)count * sizeof *items);
    }
}

void sh_sort_keyed(struct sh_keyed *items, struct sh_keyed *spare, int64_t count) {
    if (count <= SH_FEW) {
        sh_sort_few(items, count);
    } else if (count <= SOME) {
        sort_some(items, spare, count);
    } else {
        sort_many(items, spare, count);
    }
}
