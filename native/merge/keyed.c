/* Items in the order of their keys: distributed by the first bits that differ until few are left, then inserted. */
#include "merge/keyed.h"
#include "bytes/bytes.h"

enum { SMALL_DIGIT = 5, SOME = 512, DIGIT = 8, LARGE = 1 << 15, LARGE_DIGIT = 11 };

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

/* How many leading bits all keys have in common. */
static int common_bits(const struct sh_keyed *items, int64_t count) {
    uint64_t differing = 0;
    for (int64_t i = 1; i < count; i++) {
        differing |= items[i].key ^ items[0].key;
    }
    return differing == 0 ? 64 : __builtin_clzll(differing);
}

/* Distributes items by the first bits in which they differ, each part by those behind them, and so on: to `other`, from
 * there back, and so on, until what is left is few. They are sorted in `items` if `here`, else in `other`. */
static void sort_parts(struct sh_keyed *items, struct sh_keyed *other, int64_t count, int here) {
    const int common = count <= SH_FEW ? 64 : common_bits(items, count);
    if (common == 64) {
        if (!here) {
            memcpy(other, items, (size_t)count * sizeof *items);
        }
        if (count <= SH_FEW) {
            sh_sort_few(here ? items : other, count);
        }
        return;
    }
    const int digit = count < SOME ? SMALL_DIGIT : count < LARGE ? DIGIT : LARGE_DIGIT;
    const int64_t kinds = INT64_C(1) << digit;
    int64_t ends[1 << LARGE_DIGIT];
    memset(ends, 0, (size_t)kinds * sizeof *ends);
    for (int64_t i = 0; i < count; i++) {
        ends[items[i].key << common >> (64 - digit)]++;
    }
    for (int64_t i = 0, at = 0; i < kinds; i++) {
        const int64_t number = ends[i];
        ends[i] = at;
        at += number;
    }
    for (int64_t i = 0; i < count; i++) {
        other[ends[items[i].key << common >> (64 - digit)]++] = items[i];
    }
    for (int64_t i = 0, low = 0; i < kinds; low = ends[i], i++) {
        if (ends[i] > low) {
            sort_parts(other + low, items + low, ends[i] - low, !here);
        }
    }
}

void sh_sort_keyed(struct sh_keyed *items, struct sh_keyed *spare, int64_t count) {
    sort_parts(items, spare, count, 1);
}
