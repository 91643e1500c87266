/* Texts in the order of their UTF-16 code units: sorting, ranks among the distinct ones, picking. */
#include "bytes.h"
#include "sparkhaven.h"

enum { FEW = 24, SOME = 1024, WORD = 8 };

/* Texts as one Arrow array has them; `end` is the end of all bytes. */
struct texts {
    const void *ends;
    int64_t wide, first;
    const uint8_t *data, *end;
};

static inline const uint8_t *start_of(const struct texts *t, int64_t i) { return t->data + sh_end(t->ends, t->wide, t->first + i); }

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
static inline uint8_t raised(uint8_t byte) { return byte < 0xEE ? byte : byte < 0xF0 ? byte + 5 : byte < 0xF5 ? byte - 2 : byte; }

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

static void sort_few(struct sh_keyed *items, int64_t count) {
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
    for (int64_t low = 0; low < count; low += FEW) {
        sort_few(items + low, count - low < FEW ? count - low : FEW);
    }
    for (int64_t width = FEW; width < count; width *= 2) {
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

static void sort_by_key(struct sh_keyed *items, struct sh_keyed *spare, int64_t count) {
    if (count <= FEW) {
        sort_few(items, count);
    } else if (count <= SOME) {
        sort_some(items, spare, count);
    } else {
        sort_many(items, spare, count);
    }
}

/* Orders texts whose first `depth` bytes are equal. The largest group of equal keys is done by going round again, the
 * others, at most half as large, by calls: they nest to the logarithm of the count. */
static void sort_texts(const struct texts *t, struct sh_keyed *items, struct sh_keyed *spare, int64_t count, int64_t depth) {
    while (count > 1) {
        for (int64_t i = 0; i < count; i++) {
            items[i].key = key_of(t, items[i].index, depth);
        }
        sort_by_key(items, spare, count);
        struct sh_keyed *large = NULL;
        int64_t large_count = 0;
        for (int64_t low = 0, high; low < count; low = high) {
            uint64_t key = items[low].key;
            for (high = low + 1; high < count && items[high].key == key; high++) {
            }
            if (high - low == 1) {
                continue;
            }
            for (int64_t i = low; i < high; i++) { /* texts that end within the eight bytes come first, by length */
                int64_t left = length_of(t, items[i].index) - depth;
                items[i].key = left > WORD ? WORD + 1 : left < 0 ? 0 : (uint64_t)left;
            }
            sort_by_key(items + low, spare, high - low);
            int64_t longer = low;
            while (longer < high && items[longer].key <= WORD) {
                longer++;
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
}

/* Orders the texts whose numbers the items have. -1 where texts are not in the data. */
int64_t sh_sort_texts(const void *ends, int64_t wide, int64_t first, int64_t total, const uint8_t *data, int64_t size,
                      struct sh_keyed *items, struct sh_keyed *spare, int64_t count) {
    if (!fit(ends, wide, first, total, size)) {
        return -1;
    }
    for (int64_t i = 0; i < count; i++) {
        if (items[i].index < 0 || items[i].index >= total) {
            return -1;
        }
    }
    struct texts t = {ends, wide, first, data, data + size};
    sort_texts(&t, items, spare, count, 0);
    return 0;
}

static int same_text(const struct texts *t, int64_t a, int64_t b) {
    int64_t length = length_of(t, a);
    return length == length_of(t, b) && (length == 0 || memcmp(start_of(t, a), start_of(t, b), (size_t)length) == 0);
}

/* From ordered items: the rank of each text among the distinct ones, and the number of the first text of each rank.
 * Returns how many distinct there are. The numbers are those that sh_sort_texts has checked. */
int64_t sh_rank_texts(const void *ends, int64_t wide, int64_t first, const uint8_t *data, const struct sh_keyed *items,
                      int64_t count, int32_t *ranks, uint32_t *distinct) {
    struct texts t = {ends, wide, first, data, NULL};
    int64_t found = 0;
    for (int64_t i = 0; i < count; i++) {
        if (i == 0 || !same_text(&t, items[i - 1].index, items[i].index)) {
            distinct[found++] = (uint32_t)items[i].index;
        }
        ranks[items[i].index] = (int32_t)(found - 1);
    }
    return found;
}

/* The number of the first text that is not behind the one before it; `count` if all are; -1 where texts are not in the
 * data. */
int64_t sh_texts_ordered(const void *ends, int64_t wide, int64_t first, int64_t count, const uint8_t *data, int64_t size) {
    if (!fit(ends, wide, first, count, size)) {
        return -1;
    }
    struct texts t = {ends, wide, first, data, data + size};
    for (int64_t i = 1; i < count; i++) {
        int64_t one = length_of(&t, i - 1), other = length_of(&t, i), shorter = one < other ? one : other, at = 0;
        const uint8_t *p = start_of(&t, i - 1), *q = start_of(&t, i);
        while (at < shorter && p[at] == q[at]) {
            at++;
        }
        if (at == shorter ? one >= other : raised(p[at]) > raised(q[at])) {
            return i;
        }
    }
    return count;
}

/* The picked texts one after the other: their bytes, and the end of each from out_ends[1] on. Returns the bytes they
 * take; if that is more than the room, or no end can say it, only that. -1 where a pick or a text is out of place. */
int64_t sh_take_texts(const void *ends, int64_t wide, int64_t first, int64_t total, const uint8_t *data, int64_t size,
                      const uint32_t *picks, int64_t count, void *out_ends, uint8_t *out, int64_t room) {
    int64_t used = 0;
    for (int64_t i = 0; i < count; i++) {
        if (picks[i] >= total) {
            return -1;
        }
        int64_t low = sh_end(ends, wide, first + picks[i]), high = sh_end(ends, wide, first + picks[i] + 1);
        if (low < 0 || high < low || high > size) {
            return -1;
        }
        used += high - low;
    }
    if (used > room || (!wide && used > INT32_MAX)) {
        return used;
    }
    int64_t at = 0;
    for (int64_t i = 0; i < count; i++) {
        int64_t low = sh_end(ends, wide, first + picks[i]), length = sh_end(ends, wide, first + picks[i] + 1) - low;
        if (length <= 16 && size - low >= 16 && room - at >= 16) {
            memcpy(out + at, data + low, 16); /* of a known length: what is too much is written over later */
        } else if (length > 0) {
            memcpy(out + at, data + low, (size_t)length);
        }
        at += length;
        if (wide) {
            memcpy((uint8_t *)out_ends + 8 * (i + 1), &at, 8);
        } else {
            int32_t end = (int32_t)at;
            memcpy((uint8_t *)out_ends + 4 * (i + 1), &end, 4);
        }
    }
    return used;
}
