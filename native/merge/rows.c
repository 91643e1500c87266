/* Rows in the order of several keys. Rows that come from several sources, each in order, are in order but for a few
 * places: then they are merged, not sorted. */
#include "bytes/bytes.h"
#include "merge/keyed.h"
#include "merge/merge.h"
#include "merge/words.h"

enum { MANY = 1024, SPARSE = 4, STRETCHES = 16 };

/* What is known of keys: the least and the largest, and how many are smaller than the one before. */
struct seen {
    uint64_t least, largest;
    int64_t falls;
};

static struct seen look(const struct sh_words *key, int64_t count) {
    struct seen seen = {UINT64_MAX, 0, 0};
    uint64_t before = 0;
    for (int64_t i = 0; i < count; i++) {
        uint64_t word = word_of(key, (uint32_t)i);
        seen.least = word < seen.least ? word : seen.least;
        seen.largest = word > seen.largest ? word : seen.largest;
        seen.falls += word < before;
        before = word;
    }
    return seen;
}

/* The same of rows in an order; items get them with their words. */
static struct seen load(const struct sh_words *key, const uint32_t *order, int64_t count, struct sh_keyed *items) {
    struct seen seen = {UINT64_MAX, 0, 0};
    uint64_t before = 0;
    for (int64_t i = 0; i < count; i++) {
        uint64_t word = word_of(key, order[i]);
        items[i] = (struct sh_keyed){word, order[i]};
        seen.least = word < seen.least ? word : seen.least;
        seen.largest = word > seen.largest ? word : seen.largest;
        seen.falls += word < before;
        before = word;
    }
    return seen;
}

/* Whether there are few words for so many rows. */
static int is_dense(const struct seen *seen, int64_t count) {
    return count > MANY && seen->largest - seen->least < (uint64_t)count / SPARSE;
}

/* From how often each word is there to where the first row of it belongs. */
static void set_places(int64_t *places, const struct seen *seen) {
    int64_t at = 0;
    for (uint64_t i = 0; i <= seen->largest - seen->least; i++) {
        int64_t here = places[i];
        places[i] = at;
        at += here;
    }
}

/* One pass: every two stretches that ascend become one, in `to`. Returns how many there are then. */
static int64_t merge_pairs(const struct sh_keyed *from, struct sh_keyed *to, int64_t count) {
    int64_t stretches = 0;
    for (int64_t low = 0, middle, high; low < count; low = high, stretches++) {
        for (middle = low + 1; middle < count && from[middle].key >= from[middle - 1].key; middle++) {
        }
        for (high = middle < count ? middle + 1 : middle; high < count && from[high].key >= from[high - 1].key;
             high++) {
        }
        int64_t a = low, b = middle, at = low;
        while (a < middle && b < high) {
            int later = from[b].key < from[a].key;
            to[at++] = from[later ? b : a];
            a += !later;
            b += later;
        }
        memcpy(to + at, from + a, (size_t)(middle - a) * sizeof *to);
        memcpy(to + at + (middle - a), from + b, (size_t)(high - b) * sizeof *to);
    }
    return stretches;
}

/* Sorts items by merging their stretches, or by their digits: what moves them less often. */
static void sort_items(struct sh_keyed *items, struct sh_keyed *spare, int64_t count, const struct seen *seen) {
    int digits = (64 + 7 - __builtin_clzll(seen->largest - seen->least)) / 8; /* falls: the two differ */
    int passes = 64 - __builtin_clzll((uint64_t)seen->falls);
    if (count <= MANY || passes > digits + 1) {
        sh_sort_keyed(items, spare, count);
        return;
    }
    struct sh_keyed *from = items, *to = spare;
    for (int64_t stretches = seen->falls + 1; stretches > 1;) {
        stretches = merge_pairs(from, to, count);
        struct sh_keyed *other = from;
        from = to;
        to = other;
    }
    if (from != items) {
        memcpy(items, from, (size_t)count * sizeof *items);
    }
}

/* Sorts items of few different keys by counting them. */
static void count_items(struct sh_keyed *items, struct sh_keyed *spare, int64_t *places, int64_t count,
                        const struct seen *seen) {
    for (int64_t i = 0; i < count; i++) {
        places[items[i].key - seen->least]++;
    }
    set_places(places, seen);
    for (int64_t i = 0; i < count; i++) {
        spare[places[items[i].key - seen->least]++] = items[i];
    }
    memcpy(items, spare, (size_t)count * sizeof *items);
}

/* Room for what a sort needs, from the same row on: parts of it are of use to parts of the rows. */
struct room {
    struct sh_keyed *items, *spare;
    int64_t *places;
};

static struct room room_from(struct room room, int64_t row) {
    return (struct room){room.items + row, room.spare + row, room.places + row / SPARSE};
}

/* Sorts by one key after the other, each within rows of which those before are equal. */
static void sort_rows(const struct sh_words *keys, int64_t key_count, uint32_t *order, int64_t count,
                      struct room room) {
    struct seen seen = {0, 0, 0};
    for (; key_count > 0 && count > 1; keys++, key_count--) {
        seen = load(keys, order, count, room.items);
        if (seen.least != seen.largest) {
            break;
        }
    }
    if (seen.falls > 0) {
        if (is_dense(&seen, count)) {
            memset(room.places, 0, (size_t)(seen.largest - seen.least + 1) * sizeof *room.places);
            count_items(room.items, room.spare, room.places, count, &seen);
        } else {
            sort_items(room.items, room.spare, count, &seen);
        }
        for (int64_t i = 0; i < count; i++) {
            order[i] = (uint32_t)room.items[i].index;
        }
    }
    for (int64_t low = 0, high; key_count > 1 && low < count; low = high) {
        for (high = low + 1; high < count && room.items[high].key == room.items[low].key; high++) {
        }
        if (high - low > 1) { /* what is behind `high` stays as it is */
            sort_rows(keys + 1, key_count - 1, order + low, high - low, room_from(room, low));
        }
    }
}

/* Orders rows by two keys, the last of which ascends but for a few places: the stretches between them are merged, and
 * each row is put to those of its first word, whose places are known. Whether the stretches are so few. */
static int merge_rows(const struct sh_words *keys, uint64_t least, uint32_t *order, int64_t count, int64_t *places) {
    int64_t rows[STRETCHES], stops[STRETCHES], left = 1;
    uint64_t words[STRETCHES], before = word_of(keys + 1, 0);
    rows[0] = 0;
    words[0] = before;
    for (int64_t i = 1; i < count; i++) {
        uint64_t word = word_of(keys + 1, (uint32_t)i);
        if (word < before) {
            if (left == STRETCHES) {
                return 0;
            }
            stops[left - 1] = rows[left] = i;
            words[left++] = word;
        }
        before = word;
    }
    stops[left - 1] = count;
    while (left > 0) {
        int64_t next = 0;
        uint64_t word = words[0];
        for (int64_t i = 1; i < left; i++) {
            const int is_less = words[i] < word; /* of equal ones the first stretch has the first row */
            next = is_less ? i : next;
            word = is_less ? words[i] : word;
        }
        const int64_t row = rows[next]++;
        order[places[word_of(keys, (uint32_t)row) - least]++] = (uint32_t)row;
        if (rows[next] < stops[next]) {
            words[next] = word_of(keys + 1, (uint32_t)rows[next]);
            continue;
        }
        for (left--; next < left; next++) {
            rows[next] = rows[next + 1];
            stops[next] = stops[next + 1];
            words[next] = words[next + 1];
        }
    }
    return 1;
}

/* Gives order the numbers below `count`, in the order of keys, the first key first, and those of equal keys ascending.
 * Items and spare have room for `count`, places for half of that. Returns count, -1 where the width of a key is none.
 */
int64_t sh_sort_rows(const struct sh_words *keys, int64_t key_count, uint32_t *order, int64_t count,
                     struct sh_keyed *items, struct sh_keyed *spare, int64_t *places) {
    for (int64_t i = 0; i < key_count; i++) {
        if (!is_word(keys + i)) {
            return -1;
        }
    }
    struct room room = {items, spare, places + count / SPARSE};
    struct seen seen = {0, 0, 0};
    for (; key_count > 0 && count > 1; keys++, key_count--) {
        seen = look(keys, count);
        if (seen.least != seen.largest) {
            break;
        }
    }
    for (int64_t i = 0; i < count; i++) {
        order[i] = (uint32_t)i;
    }
    if (key_count == 0 || count < 2 || !is_dense(&seen, count)) {
        sort_rows(keys, key_count, order, count, room);
        return count;
    }
    int64_t kinds = (int64_t)(seen.largest - seen.least + 1); /* what is sorted later is one kind, not all rows */
    memset(places, 0, (size_t)kinds * sizeof *places);
    for (int64_t i = 0; i < count; i++) {
        places[word_of(keys, (uint32_t)i) - seen.least]++;
    }
    set_places(places, &seen);
    if (key_count == 2 && merge_rows(keys, seen.least, order, count, places)) {
        return count;
    }
    for (int64_t i = 0; i < count; i++) {
        order[places[word_of(keys, (uint32_t)i) - seen.least]++] = (uint32_t)i;
    }
    for (int64_t i = 0, low = 0; i < kinds; low = places[i], i++) {
        sort_rows(keys + 1, key_count - 1, order + low, places[i] - low, room);
    }
    return count;
}
