/* Fixed-width entries: any order, also beyond the entries, any ids and tables; digests, nulls and bounds of any bytes.
 * What comes out is compared with loops that look at one entry after the other. */
#include <stdbool.h>

#include "bytes/crc.h"
#include "bytes/entries.h"
#include "bytes/hash.h"
#include "bytes/processor.h"
#include "fuzz/fuzz.h"
#include "merge/merge.h"
#include "verify/checked.h"
#include "verify/verify.h"

enum { SETTINGS = 6, KINDS = 8 };

static const int64_t WIDTHS[KINDS] = {1, 2, 4, 8, 2, 4, 8, 1}; /* by sh_entry */

/* Bytes of the input as an array of its own, `times` one after the other. */
static uint8_t *repeated(const uint8_t *data, size_t size, size_t times) {
    uint8_t *found = made(size * times);
    for (size_t i = 0; i < times; i++) {
        memcpy(found + i * size, data, size);
    }
    return found;
}

/* An order of `count`, most of it below `total`; `odd` makes some of it beyond. */
static uint32_t *order_of(const uint8_t *data, int64_t count, int64_t total, bool odd) {
    uint32_t *order = made(sizeof *order * (size_t)count);
    for (int64_t i = 0; i < count; i++) {
        order[i] = odd && data[i] >= 0xF0 ? UINT32_MAX - (data[i] & 1) * (UINT32_MAX - (uint32_t)total)
                                          : (uint32_t)(total > 0 ? (data[i] * 7 + i) % total : 0);
    }
    return order;
}

/* How many of the order come before the first that is not below `total`. */
static int64_t sound(const uint32_t *order, int64_t count, int64_t total) {
    int64_t i = 0;
    while (i < count && order[i] < total) {
        i++;
    }
    return i;
}

static void check_gather(const uint8_t *entries, int64_t width, int64_t total, const uint32_t *order, int64_t count) {
    uint8_t *out = made((size_t)(count * width));
    int64_t good = sound(order, count, total), found = sh_gather(entries, width, total, order, count, out);
    HOLDS(found == good);
    for (int64_t i = 0; i < good * width; i++) {
        HOLDS(out[i] == entries[(int64_t)order[i / width] * width + i % width]);
    }
    for (int64_t i = good * width; i < count * width; i++) {
        HOLDS(out[i] == 0); /* nothing is written from there on */
    }
    free(out);
}

/* Each entry stands behind those of its piece that come before it, and behind all of earlier pieces. */
static void check_part(const uint8_t *entries, int64_t width, const uint8_t *numbers, int64_t count, int64_t pieces) {
    uint32_t *chosen = made(sizeof *chosen * (size_t)count);
    int64_t *places = made(sizeof *places * (size_t)pieces), *ends = made(sizeof *ends * (size_t)pieces);
    for (int64_t i = 0; i < count; i++) {
        chosen[i] = numbers[i];
        for (int64_t j = numbers[i] + 1; j < pieces; j++) {
            places[j]++;
        }
    }
    memcpy(ends, places, sizeof *places * (size_t)pieces);
    uint8_t *out = made((size_t)(count * width));
    int64_t good = sound(chosen, count, pieces), found = sh_part(entries, width, chosen, count, places, pieces, out);
    HOLDS(found == good);
    for (int64_t i = 0; i < good; i++) {
        HOLDS(memcmp(out + ends[chosen[i]]++ * width, entries + i * width, (size_t)width) == 0);
    }
    free(out);
    free(ends);
    free(places);
    free(chosen);
}

/* The piece of a row is the number of bounds that it is at or after: rows and bounds of two words each. */
static void check_pieces(const uint8_t *words, int64_t rows, const uint8_t *data, int64_t count) {
    uint64_t *bounds = made(sizeof *bounds * (size_t)(2 * count));
    int64_t *lengths = made(sizeof *lengths * (size_t)count);
    uint32_t *pieces = made(sizeof *pieces * (size_t)rows);
    for (int64_t i = 0; i < count; i++) { /* ascending */
        bounds[2 * i] = (uint64_t)i / 2;
        bounds[2 * i + 1] = i % 2 ? data[i] : 0;
        lengths[i] = 1 + i % 2;
    }
    const struct sh_words keys[] = {{words, 1}, {words + rows, 1}};
    const struct sh_bounds given = {keys, 2, bounds, lengths, count};
    HOLDS(sh_number_pieces(&given, rows, pieces) == rows);
    for (int64_t i = 0; i < rows; i++) {
        uint32_t piece = 0;
        for (int64_t j = 0; j < count; j++) {
            piece += words[i] > bounds[2 * j] ||
                     (words[i] == bounds[2 * j] && (lengths[j] == 1 || words[rows + i] >= bounds[2 * j + 1]));
        }
        HOLDS(pieces[i] == piece);
    }
    free(pieces);
    free(lengths);
    free(bounds);
}

/* Entries by moves are those by the order. */
static void check_moves(const uint8_t *entries, int64_t width, int64_t total, const uint32_t *order, int64_t count,
                        const uint8_t *chosen) {
    enum { WINDOWS = 4 };
    int64_t shift = chosen[0] % 5, blocks = (total >> shift) + 1, starts[WINDOWS], good = sound(order, count, total);
    uint16_t *windows = made(sizeof *windows * (size_t)blocks);
    for (int64_t i = 0; i < blocks; i++) {
        windows[i] = (uint16_t)((chosen[1] + i * chosen[2]) % WINDOWS);
    }
    uint32_t *origins = made(sizeof *origins * (size_t)count), *places = made(sizeof *places * (size_t)count);
    HOLDS(sh_plan_moves(order, good, windows, blocks, shift, starts, WINDOWS, origins, places) == good);
    uint8_t *out = made((size_t)(good * width));
    HOLDS(sh_move(entries, width, total, origins, places, good, out, good) == good);
    for (int64_t i = 0; i < good * width; i++) {
        HOLDS(out[i] == entries[(int64_t)order[i / width] * width + i % width]);
    }
    HOLDS(good == 0 || sh_move(entries, width, total, origins, places, good, out, good - 1) < good);
    HOLDS(good == 0 ||
          sh_plan_moves(order, good, windows, order[0] >> shift, shift, starts, WINDOWS, origins, places) == -1);
    free(windows);
    free(origins);
    free(places);
    free(out);
}

static void check_ids(const uint8_t *entries, int64_t total, const uint32_t *order, int64_t count, int64_t table_size) {
    uint32_t *ids = made(sizeof *ids * (size_t)total);
    for (int64_t i = 0; i < total; i++) { /* in the table, about its end, and far beyond, as the null is */
        ids[i] = entries[i] < 0xE0 ? entries[i] % 32u : UINT32_C(0x80000000) >> (entries[i] & 1) * 31;
    }
    int32_t *table = made(sizeof *table * (size_t)table_size), *out = made(sizeof *out * (size_t)count);
    for (int64_t i = 0; i < table_size; i++) {
        table[i] = (int32_t)(i * 1000003 - 7);
    }
    int64_t good = table_size > 0 ? sound(order, count, total) : 0;
    HOLDS(sh_gather_ids(ids, total, order, count, table, table_size, out) == good);
    for (int64_t i = 0; i < count; i++) {
        uint32_t id = i < good ? ids[order[i]] : 0;
        HOLDS(out[i] == (i >= good ? 0 : id < table_size ? table[id] : table[table_size - 1]));
    }
    int64_t *counts = made(sizeof *counts * (size_t)table_size), *wanted = made(sizeof *wanted * (size_t)table_size);
    for (int64_t i = 0; table_size > 0 && i < total; i++) {
        wanted[ids[i] < table_size ? ids[i] : table_size - 1]++;
    }
    HOLDS(sh_count_ids(ids, total, counts, table_size) == (table_size > 0 ? total : -1));
    HOLDS(memcmp(counts, wanted, sizeof *counts * (size_t)table_size) == 0);
    free(counts);
    free(wanted);
    free(ids);
    free(table);
    free(out);
}

/* What is hashed of an entry, of the bits of its value: a whole number, or the bits of a double. */
static int64_t value_of(int64_t kind, uint64_t bits) {
    double wide;
    float narrow;
    int64_t found;
    switch (kind) {
    case SH_ENTRY_BYTE:
        return (int8_t)bits;
    case SH_ENTRY_SHORT:
        return (int16_t)bits;
    case SH_ENTRY_INT:
        return (int32_t)bits;
    case SH_ENTRY_FLOAT:
        memcpy(&narrow, &bits, sizeof narrow);
        wide = narrow;
        break;
    case SH_ENTRY_DOUBLE:
        memcpy(&wide, &bits, sizeof wide);
        break;
    case SH_ENTRY_BOOLEAN:
        return bits != 0;
    default:
        return (int64_t)bits;
    }
    memcpy(&found, &wide, sizeof found);
    return wide != wide ? INT64_C(0x7FF8000000000000) : found;
}

static void check_digest(int64_t kind, const uint8_t *entries, int64_t count, uint64_t null, uint64_t start) {
    const uint64_t prefix = UINT64_C(0x0512345678);
    uint64_t total[2] = {start, ~start};
    sh_u128 wanted = (sh_u128)total[1] << 64 | total[0];
    int64_t nulls = 0;
    for (int64_t i = 0; i < count; i++) {
        uint64_t bits = 0;
        memcpy(&bits, entries + i * WIDTHS[kind], (size_t)WIDTHS[kind]);
        uint8_t text[8];
        int64_t value = value_of(kind, bits);
        memcpy(text, &value, sizeof text);
        if (bits == null) {
            nulls++;
        } else {
            wanted += sh_hash_text(prefix, text, sizeof text);
        }
    }
    HOLDS(sh_digest_fixed(prefix, kind, entries, count, null, NULL, total) == nulls);
    HOLDS(total[0] == (uint64_t)wanted && total[1] == (uint64_t)(wanted >> 64));
    HOLDS(sh_digest_fixed(prefix, kind < 4 ? -1 - kind : KINDS + kind - 4, NULL, count, null, NULL, total) == -1);
    uint64_t *hashes = made(sizeof *hashes * (size_t)count), again[2] = {start, ~start};
    HOLDS(sh_digest_fixed(prefix, kind, entries, count, null, hashes, again) == nulls);
    HOLDS(memcmp(again, total, sizeof total) == 0);
    for (int64_t i = 0; i < count; i++) {
        uint64_t bits = 0, one[2] = {0, 0};
        memcpy(&bits, entries + i * WIDTHS[kind], (size_t)WIDTHS[kind]);
        sh_digest_fixed(prefix, kind, entries + i * WIDTHS[kind], 1, null, NULL, one);
        HOLDS(hashes[i] == (bits == null ? 0 : one[0]));
    }
    free(hashes);
}

/* The entry as a double; of 8 bytes that are a whole number, only its order counts. */
static double real_of(int64_t kind, const uint8_t *entry) {
    double wide;
    float narrow;
    if (kind == SH_ENTRY_DOUBLE) {
        memcpy(&wide, entry, sizeof wide);
        return wide;
    }
    memcpy(&narrow, entry, sizeof narrow);
    return narrow;
}

/* Three entries of the input are null, low and high. */
static void check_within(int64_t kind, const uint8_t *entries, int64_t count) {
    if (count < 3 || kind == SH_ENTRY_BOOLEAN) {
        return;
    }
    const bool real = kind == SH_ENTRY_FLOAT || kind == SH_ENTRY_DOUBLE;
    double reals[3];
    int64_t wholes[3], found[3] = {5, 6, 7}, wanted[3] = {5, 6, 7};
    for (int64_t i = 0; i < 3; i++) {
        uint64_t bits = 0;
        memcpy(&bits, entries + i * WIDTHS[kind], (size_t)WIDTHS[kind]);
        wholes[i] = real ? 0 : value_of(kind, bits);
        reals[i] = real ? real_of(kind, entries + i * WIDTHS[kind]) : 0;
        if (real && reals[i] != reals[i]) {
            return;
        }
    }
    for (int64_t i = 0; i < count; i++) {
        uint64_t bits = 0;
        memcpy(&bits, entries + i * WIDTHS[kind], (size_t)WIDTHS[kind]);
        int64_t whole = real ? 0 : value_of(kind, bits);
        double value = real ? real_of(kind, entries + i * WIDTHS[kind]) : 0;
        bool null = real ? value == reals[0] : whole == wholes[0];
        wanted[0] += null;
        wanted[1] += value != value;
        wanted[2] += !null && (real ? value < reals[1] || value > reals[2] : whole < wholes[1] || whole > wholes[2]);
    }
    HOLDS(sh_within(kind, entries, count, real ? (const void *)reals : wholes, found) == count);
    HOLDS(memcmp(found, wanted, sizeof found) == 0);
    int64_t again[3] = {5, 6, 7};
    uint32_t crc = (uint32_t)count;
    HOLDS(sh_verify_fixed(kind, WIDTHS[kind], entries, count, real ? (const void *)reals : wholes, again, &crc) ==
          count);
    HOLDS(memcmp(again, wanted, sizeof again) == 0);
    HOLDS(crc == slow_crc(entries, count * WIDTHS[kind], (uint32_t)count));
    HOLDS(sh_within(SH_ENTRY_BOOLEAN, entries, count, wholes, found) == -1);
}

static void check_nulls(const uint8_t *entries, int64_t width, int64_t count, uint64_t null) {
    uint8_t *bits = made((size_t)((count + 7) / 8));
    int64_t nulls = 0;
    HOLDS(sh_valid_bits(entries, width, count, null, bits) == count);
    for (int64_t i = 0; i < (count + 7) / 8 * 8; i++) {
        bool equal = i < count && memcmp(entries + i * width, &null, (size_t)width) == 0;
        nulls += equal;
        HOLDS((bits[i / 8] >> i % 8 & 1) == (i < count && !equal));
    }
    HOLDS(sh_count_nulls(entries, width, count, null) == nulls);
    HOLDS(sh_count_nulls(NULL, 3, 0, null) == -1 && sh_valid_bits(NULL, 3, 0, null, NULL) == -1);
    free(bits);
}

static void check_symbols(const uint8_t *ids, int64_t count, int64_t table_size) {
    int64_t nulls = 0;
    bool good = true;
    for (int64_t i = 0; i < count; i++) {
        int32_t id;
        memcpy(&id, ids + 4 * i, 4);
        nulls += id == INT32_MIN;
        good = good && (id == INT32_MIN || (id >= 0 && id < table_size));
    }
    HOLDS(sh_check_ids(ids, count, table_size) == (good ? nulls : -1));
    uint32_t sum = (uint32_t)table_size, parts[] = {sum, 7};
    HOLDS(sh_verify_ids(ids, count, table_size, &sum) == (good ? nulls : -1));
    HOLDS(!good || sum == slow_crc(ids, 4 * count, (uint32_t)table_size));
    const int64_t sizes[] = {count, 3 * count};
    sh_crc32(ids, sizes, 2, parts);
    HOLDS(parts[0] == slow_crc(ids, count, (uint32_t)table_size) && parts[1] == slow_crc(ids + count, 3 * count, 7));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < SETTINGS) {
        return 0;
    }
    sh_limit((int64_t[]){64, 32, 16, 0}[size % 4]);
    const uint8_t *chosen = data;
    data += SETTINGS;
    size -= SETTINGS;
    int64_t kind = chosen[0] % KINDS, width = WIDTHS[kind], total = (int64_t)size / width;
    uint8_t *entries = repeated(data, (size_t)(total * width), 1);
    int64_t count = chosen[1] % 4 == 0 ? total : total > 0 ? chosen[1] % (total + 1) : 0;
    uint32_t *order = order_of(data, count, total, chosen[2] & 1);
    check_gather(entries, width, total, order, count);
    check_moves(entries, width, total, order, count, chosen);
    check_part(entries, width, data, total, chosen[3]);
    check_pieces(data, (int64_t)size / 2, data, size > 0 ? chosen[3] % (int64_t)size : 0);
    if (chosen[2] % 32 == 2) { /* widths that there are not */
        check_gather(entries, chosen[3] % 16, 0, order, 0);
    }
    free(order);

    int64_t ids = (int64_t)size; /* an id for each byte */
    order = order_of(data, ids, ids, chosen[2] & 2);
    uint8_t *bytes = repeated(data, size, 1);
    check_ids(bytes, ids, order, ids, chosen[3] % 40);
    free(bytes);
    free(order);

    uint64_t null = 0;
    const bool first = total > 0 && chosen[4] & 1;
    memcpy(&null, first ? data : chosen, (size_t)(first || width < SETTINGS ? width : SETTINGS));
    check_digest(kind, entries, total, null, chosen[5] * UINT64_C(0x0101010101010101));
    check_within(kind, entries, total);
    check_nulls(entries, width, total, null);
    if (width == 4) {
        check_symbols(entries, total, chosen[3] < 128 ? chosen[3] : INT64_C(1) << (chosen[3] % 50));
    }
    free(entries);
    /* more than one block, with few and with many different values */
    if (size % 64 == 6 && chosen[4] % 16 == 6 && total > 0) {
        size_t times = (size_t)(17000 / (total * width) + 1);
        entries = repeated(data, (size_t)(total * width), times);
        check_digest(kind, entries, total * (int64_t)times, null, chosen[5]);
        free(entries);
        int64_t count_of = 9000, narrow = 2047 + chosen[3] % 4; /* about as many as are counted first */
        uint16_t *ramp = made(sizeof *ramp * (size_t)count_of);
        for (int64_t i = 0; i < count_of; i++) {
            ramp[i] = (uint16_t)(i % narrow);
        }
        check_digest(SH_ENTRY_SHORT, (const uint8_t *)ramp, count_of, UINT64_MAX, chosen[5]);
        free(ramp);
    }
    return 0;
}

/* clang-format off */
const char *const fuzz_pieces[] = {
    "\x01\x04\x01\x05\x06\x01", "\x02\x04\x02\x07\x01\xff", "\x05\x04\x03\x21\x06\x02", "\x06\x05\x01\x01\x06\x03",
    "\x03\x04\x02\x03\x46\x04", "\x07\x04\x01\x04\x06\x05", "\x01\x01\x01\x80\x7f", "\x01\x01\xf0\xff", "\x01\x01\xc0\x7f",
    "\xff\xff\xff\x7f", "\x80", "\xf8\x7f", "\xff\xff\xff\xff\xff\xff\xef\x7f", "abcdefgh", "\xf0", "\xf1", "\xe0", "\xe1"};
/* clang-format on */
const size_t fuzz_piece_count = sizeof fuzz_pieces / sizeof *fuzz_pieces;
