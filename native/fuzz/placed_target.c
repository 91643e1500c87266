/* Entries from a file to their places, window by window, of any sizes, orders and ids; and surveys of entries. What
 * comes out is compared with loops that look at one entry after the other. */
#define _GNU_SOURCE /* memfd_create */
#include <stdbool.h>
#include <sys/mman.h>
#include <unistd.h>

#include "bytes/entries.h"
#include "bytes/processor.h"
#include "fuzz/fuzz.h"
#include "merge/merge.h"

enum { SETTINGS = 6, KINDS = 8, WINDOWS = 3, LEAD = 5, TABLE = 20 };

static const int64_t WIDTHS[KINDS] = {1, 2, 4, 8, 2, 4, 8, 1}; /* by sh_entry */

/* A file with LEAD bytes and then these. */
static int file_of(const void *data, int64_t size) {
    static int file = -1;
    if (file < 0) {
        file = memfd_create("placed", 0);
        HOLDS(file >= 0);
    }
    HOLDS(ftruncate(file, LEAD + size) == 0 && pwrite(file, data, (size_t)size, LEAD) == size);
    return file;
}

/* Blocks of rows with their windows, and a stretch for each, window by window. */
struct plan {
    uint16_t *windows;
    uint32_t *shifts;
    struct sh_stretch *stretches;
    int64_t blocks, shift, most;
};

static struct plan plan_of(const uint8_t *chosen, int64_t rows, int64_t width, int file) {
    struct plan p = {.shift = chosen[0] % 4};
    p.blocks = ((rows + (1 << p.shift) - 1) >> p.shift) + 1;
    p.windows = made(sizeof *p.windows * (size_t)p.blocks);
    p.shifts = made(sizeof *p.shifts * (size_t)p.blocks);
    p.stretches = made(sizeof *p.stretches * (size_t)p.blocks);
    for (int64_t block = 0; block < p.blocks; block++) {
        p.windows[block] = (uint16_t)((chosen[1] + block * chosen[2]) % WINDOWS);
    }
    int64_t count = 0;
    for (int64_t window = 0; window < WINDOWS; window++) {
        int64_t held = 0;
        for (int64_t block = 0; block < p.blocks; block++) {
            int64_t first = block << p.shift, left = rows - first, here = left < 1 << p.shift ? left : 1 << p.shift;
            if (p.windows[block] != window) {
                continue;
            }
            p.shifts[block] = (uint32_t)(held - first);
            here = here < 0 ? 0 : here;
            p.stretches[count++] = (struct sh_stretch){file, LEAD + first * width, here, window, block % 2, block % 2};
            held += here;
        }
        p.most = held > p.most ? held : p.most;
    }
    return p;
}

static void free_plan(struct plan p) {
    free(p.windows);
    free(p.shifts);
    free(p.stretches);
}

/* Places entries, which lie in the file, in an order; checks what is moved, and the checksums. `wanted` are they after
 * ids became ranks. */
static void check_places(const uint8_t *chosen, const uint8_t *entries, const uint8_t *wanted, int64_t rows,
                         int64_t width, const struct sh_fixed *fixed, const struct sh_ranked *ranked, int64_t nulls,
                         uint64_t *total) {
    int file = file_of(entries, rows * width);
    struct plan p = plan_of(chosen, rows, width, file);
    int64_t starts[WINDOWS], half = rows / 2;
    uint32_t *order = made(sizeof *order * (size_t)rows), *origins = made(sizeof *origins * (size_t)rows),
             *places = made(sizeof *places * (size_t)rows);
    for (int64_t i = 0; i < rows; i++) {
        order[i] = (uint32_t)((i * 7 + chosen[3]) % rows);
    }
    uint8_t *out = made((size_t)(rows * width)), *scratch = made((size_t)(p.most * width));
    struct sh_moves moves[] = {{origins, places, out, half, half, 0},
                               {origins + half, places + half, out + half * width, rows - half, rows - half, 0}};
    for (int64_t i = 0; i < 2; i++) {
        HOLDS(sh_plan_moves(order + i * half, moves[i].count, p.windows, p.blocks, p.shift, starts, WINDOWS,
                            origins + i * half, places + i * half) == moves[i].count);
    }
    struct sh_windows windows = {p.windows, p.shifts, p.blocks, p.shift};
    uint32_t sums[2] = {0, 0}, expected[2] = {0, 0};
    HOLDS(sh_place_files(p.stretches, p.blocks, moves, 2, &windows, fixed, ranked, width, scratch, p.most, sums,
                         total) == nulls);
    for (int64_t i = 0; i < rows && nulls >= 0; i++) {
        HOLDS(memcmp(out + i * width, wanted + (int64_t)order[i] * width, (size_t)width) == 0);
    }
    for (int64_t i = 0; i < p.blocks && nulls >= 0; i++) {
        const struct sh_stretch *one = p.stretches + i;
        expected[one->sum] = slow_crc(entries + one->offset - LEAD, one->rows * width, expected[one->sum]);
    }
    HOLDS(nulls < 0 || memcmp(sums, expected, sizeof sums) == 0);
    uint64_t other[2] = {0, 0};
    for (int64_t wrong = 0; wrong < 4 && rows > 0 && nulls >= 0; wrong++) { /* room, moves and files too small */
        moves[0].done = moves[1].done = 0;
        moves[1].room = rows - half - (wrong == 1);
        windows.blocks = wrong == 2 ? order[rows - 1] >> p.shift : p.blocks;
        HOLDS(wrong != 3 || ftruncate(file, LEAD + rows * width - 1) == 0);
        HOLDS(sh_place_files(p.stretches, p.blocks, moves, 2, &windows, fixed, ranked, width, scratch,
                             p.most - (wrong == 0), sums, other) < 0);
    }
    free(order);
    free(origins);
    free(places);
    free(out);
    free(scratch);
    free_plan(p);
}

static void check_ids(const uint8_t *chosen, const uint8_t *data, int64_t rows) {
    uint32_t *ids = made(sizeof *ids * (size_t)rows);
    int32_t *wanted = made(sizeof *wanted * (size_t)rows), ranks[2][TABLE];
    int64_t counts[TABLE] = {0}, expected[TABLE] = {0};
    for (int32_t i = 0; i < TABLE; i++) {
        ranks[0][i] = i < TABLE - 1 ? TABLE - 2 - i : INT32_MIN;
        ranks[1][i] = i < TABLE - 1 ? i : INT32_MIN;
    }
    bool good = true;
    for (int64_t i = 0; i < rows; i++) {
        ids[i] = data[i] % 32u == 31 ? UINT32_C(1) << 31 : data[i] % 32u == 30 ? TABLE - 1u : data[i] % (TABLE - 1u);
        good &= ids[i] != TABLE - 1u;
        uint32_t id = ids[i] < TABLE ? ids[i] : TABLE - 1;
        wanted[i] = ranks[(i >> chosen[0] % 4) % 2][id];
        expected[wanted[i] < 0 ? TABLE - 1 : wanted[i]]++;
    }
    struct sh_table tables[] = {{ranks[0], TABLE}, {ranks[1], TABLE}};
    struct sh_ranked ranked = {tables, counts, TABLE};
    check_places(chosen, (const uint8_t *)ids, (const uint8_t *)wanted, rows, sizeof *ids, NULL, &ranked, good ? 0 : -1,
                 NULL);
    HOLDS(!good || rows > 0 || memcmp(counts, expected, sizeof counts) == 0);
    free(ids);
    free(wanted);
}

/* The entry as a number, in the order of entries; `none` says that it is NaN. */
static int64_t number_of(int64_t kind, const uint8_t *entry, bool *none) {
    uint64_t bits = 0;
    memcpy(&bits, entry, (size_t)WIDTHS[kind]);
    double wide = 0;
    float narrow = 0;
    *none = false;
    switch (kind) {
    case SH_ENTRY_SHORT:
        return (int16_t)bits;
    case SH_ENTRY_INT:
        return (int32_t)bits;
    case SH_ENTRY_LONG:
    case SH_ENTRY_CHAR:
        return (int64_t)bits;
    case SH_ENTRY_FLOAT:
        memcpy(&narrow, entry, sizeof narrow);
        *none = narrow != narrow;
        return (int32_t)bits < 0 ? (int32_t)bits ^ INT32_MAX : (int32_t)bits;
    case SH_ENTRY_DOUBLE:
        memcpy(&wide, entry, sizeof wide);
        *none = wide != wide;
        return (int64_t)bits < 0 ? (int64_t)bits ^ INT64_MAX : (int64_t)bits;
    default:
        return (int8_t)bits;
    }
}

static void check_survey(const struct sh_fixed *fixed, const uint8_t *entries, int64_t count) {
    struct sh_survey found = {0, 0, INT64_MAX, INT64_MIN, 9}, wanted = found;
    uint64_t total[2] = {1, 2}, expected[2] = {1, 2};
    int64_t width = WIDTHS[fixed->kind];
    for (int64_t i = 0; i < count; i++) {
        bool none, null = memcmp(entries + i * width, &fixed->null, (size_t)width) == 0;
        int64_t number = number_of(fixed->kind, entries + i * width, &none);
        wanted.nulls += null;
        wanted.nans += none;
        wanted.low = !null && !none && number < wanted.low ? number : wanted.low;
        wanted.high = !null && !none && number > wanted.high ? number : wanted.high;
    }
    wanted.crc = slow_crc(entries, count * width, 9);
    uint64_t *hashes = made(sizeof *hashes * (size_t)count), *again = made(sizeof *again * (size_t)count);
    sh_digest_fixed(fixed->prefix, fixed->kind, entries, count, fixed->null, again, expected);
    HOLDS(sh_survey_fixed(fixed, entries, count, &found, hashes, total) == count);
    HOLDS(memcmp(hashes, again, sizeof *hashes * (size_t)count) == 0);
    free(again);
    free(hashes);
    if (wanted.nulls + wanted.nans == count) { /* then there are no bounds */
        wanted.low = found.low;
        wanted.high = found.high;
    }
    HOLDS(memcmp(&found, &wanted, sizeof found) == 0 && memcmp(total, expected, sizeof total) == 0);
    struct sh_fixed unknown = {0, 0, KINDS};
    HOLDS(sh_survey_fixed(&unknown, NULL, count, &found, NULL, total) == -1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < SETTINGS) {
        return 0;
    }
    sh_limit((int64_t[]){64, 32, 16, 0}[size % 4]);
    const uint8_t *chosen = data;
    data += SETTINGS;
    size -= SETTINGS;
    int64_t kind = chosen[4] % KINDS, width = WIDTHS[kind], rows = (int64_t)size / width;
    uint8_t *entries = made((size_t)(rows * width));
    memcpy(entries, data, (size_t)(rows * width));
    struct sh_fixed fixed = {UINT64_C(0x0512345678), 0, kind};
    memcpy(&fixed.null, rows > 0 && chosen[5] & 1 ? data : chosen, (size_t)(width < SETTINGS ? width : SETTINGS));
    if (kind == SH_ENTRY_FLOAT || kind == SH_ENTRY_DOUBLE) { /* the null is no NaN */
        fixed.null &= UINT64_C(0x3F7FFFFF);
    }
    uint64_t total[2] = {0, 0}, expected[2] = {0, 0};
    int64_t nulls = sh_digest_fixed(fixed.prefix, kind, entries, rows, fixed.null, NULL, expected);
    check_places(chosen, entries, entries, rows, width, &fixed, NULL, nulls, total);
    HOLDS(memcmp(total, expected, sizeof total) == 0);
    check_survey(&fixed, entries, rows);
    check_ids(chosen, data, (int64_t)size);
    free(entries);
    return 0;
}

/* clang-format off */
const char *const fuzz_pieces[] = {
    "\x01\x04\x01\x05\x06\x01", "\x02\x04\x02\x07\x01\xff", "\x05\x04\x03\x21\x06\x02", "\x03\x05\x01\x01\x05\x03",
    "\x03\x04\x02\x03\x03\x04", "\x07\x04\x01\x04\x02\x05", "\x01\x01\x01\x80\x7f", "\x01\x01\xf0\xff", "\x01\x01\xc0\x7f",
    "\xff\xff\xff\x7f", "\x80", "\xf8\x7f", "abcdefghabcdefgh", "\x1f", "\x1e"};
/* clang-format on */
const size_t fuzz_piece_count = sizeof fuzz_pieces / sizeof *fuzz_pieces;
