/* Texts with any ends, in order or not, within the data or not: distinct ones and ranks, picking and digests. What comes out is
 * compared with what one text after the other gives. */
#include <stdbool.h>

#include "bytes/bytes.h"
#include "bytes/hash.h"
#include "bytes/processor.h"
#include "fuzz/fuzz.h"
#include "merge/merge.h"
#include "verify/verify.h"

enum { SETTINGS = 6 };

/* An array of texts as Arrow has it. `sound`: all of `count` texts from `first` on lie in the data. */
struct array {
    void *ends;
    int64_t wide, first, count, size;
    uint8_t *data;
    bool sound;
};

static int64_t low_of(const struct array *a, int64_t i) { return sh_end(a->ends, a->wide, a->first + i); }
static int64_t length_of(const struct array *a, int64_t i) { return low_of(a, i + 1) - low_of(a, i); }

/* Where a character stands in UTF-16, by the first byte that differs in UTF-8. */
static int rank_of(uint8_t byte) {
    bool pair = byte >= 0xF0 && byte < 0xF5, behind = byte == 0xEE || byte == 0xEF;
    return pair ? byte - 2 : behind ? byte + 5 : byte;
}

static int compared(const struct array *a, int64_t one, int64_t other) {
    int64_t shorter = length_of(a, one) < length_of(a, other) ? length_of(a, one) : length_of(a, other);
    for (int64_t i = 0; i < shorter; i++) {
        uint8_t p = a->data[low_of(a, one) + i], q = a->data[low_of(a, other) + i];
        if (p != q) {
            return rank_of(p) < rank_of(q) ? -1 : 1;
        }
    }
    return length_of(a, one) < length_of(a, other) ? -1 : length_of(a, one) > length_of(a, other);
}

/* As two tables, either of which may be empty; there is not always room for all. */
static void check_union(const struct array *a, const uint8_t *chosen) {
    const int64_t cut = chosen[2] % (a->count + 1);
    struct sh_keyed *items = made(sizeof *items * (size_t)a->count), *spare = made(sizeof *spare * (size_t)a->count);
    int32_t *ranks = made(sizeof *ranks * (size_t)(a->count + 2)), *ends = made(sizeof *ends * (size_t)(a->count + 1));
    int64_t *sorted = made(sizeof *sorted * (size_t)a->count);
    uint8_t *valid = chosen[0] % 16 < 4 ? made((size_t)((a->first + a->count + 7) / 8)) : NULL;
    int64_t there = 0, kinds = 0, bytes = 0;
    const struct sh_texts tables[] = {{a->ends, a->wide, valid, a->first, cut, a->data, a->size},
                                      {a->ends, a->wide, valid, a->first + cut, a->count - cut, a->data, a->size}};
    for (int64_t i = 0; i < a->count; i++) {
        if (valid != NULL && (i + chosen[1]) % 3 == 0) {
            continue;
        }
        if (valid != NULL) {
            valid[(a->first + i) / 8] |= (uint8_t)(1 << (a->first + i) % 8);
        }
        int64_t at = there++;
        for (; a->sound && at > 0 && compared(a, sorted[at - 1], i) > 0; at--) {
            sorted[at] = sorted[at - 1];
        }
        sorted[at] = i;
    }
    for (int64_t i = 0; a->sound && i < there; i++) {
        bytes += i == 0 || compared(a, sorted[i - 1], sorted[i]) != 0 ? length_of(a, sorted[i]) : 0;
    }
    const int64_t room = chosen[4] % 8 == 0 ? chosen[5] : bytes;
    const int64_t most = a->size + 8 * a->count + 16 * (SH_PARTS + 1);
    uint8_t *scratch = made((size_t)most), *out = made((size_t)room);
    const int64_t found = sh_union_texts(tables, 2, items, spare, scratch, most, ranks, ends, out, room);
    for (int64_t i = 0, used = 0; a->sound && bytes <= room && i < there; i++) {
        const int64_t text = sorted[i];
        if (i == 0 || compared(a, sorted[i - 1], text) != 0) {
            HOLDS(memcmp(out + used, a->data + low_of(a, text), (size_t)length_of(a, text)) == 0);
            used += length_of(a, text);
            HOLDS(ends[++kinds] == used);
        }
        HOLDS(ranks[text + (text >= cut)] == kinds - 1);
    }
    HOLDS(found == (!a->sound ? -1 : bytes > room ? -2 : kinds));
    void *const all[] = {valid, items, spare, ranks, ends, sorted, scratch, out};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        free(all[i]);
    }
}

static void check_ordered(const struct array *a) {
    int64_t first = a->count;
    for (int64_t i = 1; a->sound && i < a->count && first == a->count; i++) {
        first = compared(a, i - 1, i) < 0 ? first : i;
    }
    HOLDS(sh_texts_ordered(a->ends, a->wide, a->first, a->count, a->data, a->size) == (a->sound ? first : -1));
}

static bool in_data(const struct array *a, int64_t i) {
    return low_of(a, i) >= 0 && low_of(a, i + 1) >= low_of(a, i) && low_of(a, i + 1) <= a->size;
}

static void check_take(const struct array *a, const uint8_t *data, const uint8_t *chosen) {
    int64_t count = a->count, need = 0;
    uint32_t *picks = made(sizeof *picks * (size_t)count);
    bool good = true;
    for (int64_t i = 0; i < count; i++) {
        picks[i] = data[i] == 0xFE   ? UINT32_MAX
                   : data[i] == 0xFD ? (uint32_t)count
                                     : (data[i] + (uint32_t)i) % (uint32_t)count;
        good = good && picks[i] < count && in_data(a, picks[i]);
        need += good ? length_of(a, picks[i]) : 0;
    }
    int64_t room = chosen[2] % 8 == 0 ? chosen[3] : good ? need : 0;
    uint8_t *out = made((size_t)room), *ends = made((size_t)((a->wide ? 8 : 4) * (count + 1)));
    int64_t found = sh_take_texts(a->ends, a->wide, a->first, count, a->data, a->size, picks, count, ends, out, room);
    HOLDS(found == (good ? need : -1));
    for (int64_t i = 0, at = 0; good && need <= room && i < count; i++) {
        for (int64_t k = 0; k < length_of(a, picks[i]); k++) {
            HOLDS(out[at++] == a->data[low_of(a, picks[i]) + k]);
        }
        HOLDS(sh_end(ends, a->wide, i + 1) == at);
    }
    free(picks);
    free(out);
    free(ends);
}

/* The same texts as rows of three parts, any of which may be empty; there is seldom room for all. */
static void check_parts(const struct array *a, const uint8_t *data, const uint8_t *chosen) {
    const int64_t cuts[] = {0, chosen[2] % (a->count + 1), chosen[3] % (a->count + 1), a->count}, from = chosen[4];
    uint32_t *picks = made(sizeof *picks * (size_t)a->count);
    struct sh_part *parts = made(sizeof *parts * 4);
    bool good = true;
    int64_t fitting = 0, room = (int64_t)chosen[5] * (chosen[1] & 8 ? 64 : 1), used = 0;
    for (int i = 0; i < 4; i++) {
        parts[i].row = i == 2 && cuts[2] < cuts[1] ? cuts[1] : cuts[i];
        parts[i].ends = (const int64_t *)a->ends + a->first + parts[i].row;
        parts[i].data = a->data;
        parts[i].size = a->size;
    }
    for (int64_t i = 0; i < a->count; i++) {
        picks[i] = data[i] == 0xFE   ? UINT32_MAX
                   : data[i] == 0xFD ? (uint32_t)a->count
                                     : (data[i] + (uint32_t)i) % (uint32_t)a->count;
        good = good && picks[i] < a->count && in_data(a, picks[i]);
        if (good && fitting == i && used + length_of(a, picks[i]) <= room) {
            used += length_of(a, picks[i]);
            fitting++;
        }
    }
    const int64_t shift = chosen[0] >> 5;
    uint32_t *starts = made(sizeof *starts * (size_t)((a->count + (1 << shift) - 1) >> shift));
    for (int64_t i = 0; i << shift < a->count; i++) {
        while (parts[starts[i] + 1].row <= i << shift) {
            starts[i]++;
        }
    }
    uint8_t *out = made((size_t)room);
    int64_t *ends = made(sizeof *ends * (size_t)fitting);
    if (good) {
        HOLDS(sh_take_parts(parts, 3, starts, shift, picks, a->count, from, ends, out, room) == fitting);
        for (int64_t i = 0, at = 0; i < fitting; i++) {
            for (int64_t k = 0; k < length_of(a, picks[i]); k++) {
                HOLDS(out[at++] == a->data[low_of(a, picks[i]) + k]);
            }
            HOLDS(ends[i] == from + at);
        }
    } else {
        int64_t *more = made(sizeof *more * (size_t)a->count);
        HOLDS(sh_take_parts(parts, 3, starts, shift, picks, a->count, from, more, out, room) < a->count);
        free(more);
    }
    free(picks);
    free(parts);
    free(starts);
    free(out);
    free(ends);
}

static void check_digest(const struct array *a, const uint8_t *data, const uint8_t *chosen) {
    const uint64_t prefix = UINT64_C(0x0A12345678);
    uint8_t *valid = chosen[4] & 1 ? made((size_t)((a->first + a->count + 7) / 8)) : NULL;
    int64_t *counts = chosen[4] & 2 ? made(sizeof *counts * (size_t)a->count) : NULL, nulls = 0;
    uint64_t total[2] = {chosen[5], UINT64_MAX};
    sh_u128 sum = (sh_u128)total[1] << 64 | total[0];
    bool good = true;
    for (int64_t i = 0; i < a->count; i++) {
        bool there = valid == NULL || data[i] % 8 != 3;
        if (valid != NULL && there) {
            valid[(a->first + i) / 8] |= (uint8_t)(1 << (a->first + i) % 8);
        }
        if (counts != NULL) {
            counts[i] = data[i] % 5;
        }
        int64_t times = counts == NULL ? 1 : counts[i];
        if (there && times > 0) {
            good = good && in_data(a, i);
            for (; good && times > 0; times--) {
                uint8_t *text = made((size_t)length_of(a, i)); /* of its own: what is read behind it is seen */
                memcpy(text, a->data + low_of(a, i), (size_t)length_of(a, i));
                sum += sh_hash_text(prefix, text, length_of(a, i));
                free(text);
            }
        } else {
            nulls += times;
        }
    }
    uint64_t *hashes = made(sizeof *hashes * (size_t)a->count);
    int64_t found =
        sh_digest_texts(prefix, a->ends, a->wide, valid, a->first, a->count, a->data, a->size, counts, hashes, total);
    HOLDS(found == (good ? nulls : -1));
    for (int64_t i = 0; good && i < a->count; i++) {
        bool there = valid == NULL || (valid[(a->first + i) >> 3] >> ((a->first + i) & 7) & 1);
        bool counted = there && (counts == NULL || counts[i] > 0);
        HOLDS(hashes[i] == (counted ? (uint64_t)sh_hash_text(prefix, a->data + low_of(a, i), length_of(a, i)) : 0));
    }
    free(hashes);
    HOLDS(!good || (total[0] == (uint64_t)sum && total[1] == (uint64_t)(sum >> 64)));
    free(valid);
    free(counts);
}

/* Whether a text is UTF-8, one byte after the other. */
static bool is_utf8(const uint8_t *text, int64_t length) {
    for (int64_t i = 0; i < length;) {
        uint8_t lead = text[i];
        int64_t more = lead < 0x80                   ? 0
                       : lead >= 0xC2 && lead < 0xE0 ? 1
                       : (lead & 0xF0) == 0xE0       ? 2
                       : lead >= 0xF0 && lead < 0xF5 ? 3
                                                     : -1;
        if (more < 0 || i + more >= length) {
            return false;
        }
        uint32_t point = lead & (more == 0 ? 0x7Fu : 0x3Fu >> more);
        for (int64_t k = 1; k <= more; k++) {
            if (text[i + k] >> 6 != 2) {
                return false;
            }
            point = point << 6 | (text[i + k] & 0x3F);
        }
        if ((more == 2 && (point < 0x800 || point >> 11 == 0x1B)) ||
            (more == 3 && (point < 0x10000 || point > 0x10FFFF))) {
            return false;
        }
        i += more + 1;
    }
    return true;
}

static void check_values(const struct array *a, const uint8_t *chosen) {
    const uint64_t prefix = UINT64_C(0x0A12345678);
    uint64_t total[2] = {chosen[5], UINT64_MAX};
    sh_u128 sum = (sh_u128)total[1] << 64 | total[0];
    int64_t nulls = 0;
    bool good = true;
    for (int64_t i = 0; good && i < a->count; i++) {
        good = in_data(a, i) && is_utf8(a->data + low_of(a, i), length_of(a, i));
        if (good && length_of(a, i) > 0) {
            bool empty = length_of(a, i) == 1 && a->data[low_of(a, i)] == 0;
            sum += sh_hash_text(prefix, a->data + low_of(a, i), empty ? 0 : length_of(a, i));
        } else {
            nulls++;
        }
    }
    const uint8_t *ends = (const uint8_t *)a->ends + 8 * a->first;
    uint64_t *hashes = made(sizeof *hashes * (size_t)a->count);
    HOLDS(sh_digest_values(prefix, ends, a->count, a->data, a->size, hashes, total) == (good ? nulls : -1));
    for (int64_t i = 0; good && i < a->count; i++) {
        bool empty = length_of(a, i) == 1 && a->data[low_of(a, i)] == 0;
        uint64_t added = length_of(a, i) == 0
                             ? 0
                             : (uint64_t)sh_hash_text(prefix, a->data + low_of(a, i), empty ? 0 : length_of(a, i));
        HOLDS(hashes[i] == added);
    }
    free(hashes);
    HOLDS(!good || (total[0] == (uint64_t)sum && total[1] == (uint64_t)(sum >> 64)));
}

static bool is_ascii(const uint8_t *text, int64_t length) {
    for (int64_t i = 0; i < length; i++) {
        if (text[i] >= 0x80) {
            return false;
        }
    }
    return true;
}

static int order_of(const uint8_t *one, int64_t one_length, const uint8_t *other, int64_t other_length) {
    for (int64_t i = 0; i < one_length && i < other_length; i++) {
        if (one[i] != other[i]) {
            return one[i] < other[i] ? -1 : 1;
        }
    }
    return (one_length > other_length) - (one_length < other_length);
}

/* The same as they lie in files: ends of 8 bytes behind the begin of the first text. */
static void check_checked(const struct array *a, const uint8_t *chosen) {
    const int64_t begin = low_of(a, 0), low_length = chosen[2] % 12, high_length = chosen[3] % 12 - 1;
    if (begin < 0 || begin > a->size) {
        return;
    }
    const uint8_t *ends = (const uint8_t *)a->ends + 8 * (a->first + 1), *from = a->data + begin;
    uint8_t *low = made((size_t)low_length), *high = made((size_t)(high_length < 0 ? 0 : high_length));
    for (int64_t i = 0; i < low_length || i < high_length; i++) {
        uint8_t byte = i < a->size ? a->data[i] : 0;
        if (i < low_length) {
            low[i] = byte;
        }
        if (i < high_length) {
            high[i] = (uint8_t)(byte + (chosen[1] & 1));
        }
    }
    bool sound = true, text[2] = {true, true}, within = true;
    int64_t empty = 0, alone = 0;
    for (int64_t i = 0; sound && i < a->count; i++) {
        sound = in_data(a, i);
        const int64_t length = sound ? length_of(a, i) : 0;
        const uint8_t *p = a->data + (sound ? low_of(a, i) : 0);
        text[0] = text[0] && is_utf8(p, length);
        text[1] = text[1] && is_ascii(p, length);
        empty += length == 0;
        alone += length == 1 && *p == 0;
        const int64_t shown = length == 1 && *p == 0 ? 0 : length;
        within = within && (length == 0 || (order_of(p, shown, low, low_length) >= 0 &&
                                            (high_length < 0 || order_of(p, shown, high, high_length) <= 0)));
    }
    int32_t *out = made(sizeof *out * (size_t)(a->count + 1));
    for (int ascii = 0; ascii < 2; ascii++) {
        int64_t found[2], wanted = sound && text[ascii] ? empty : -1;
        int32_t *into = chosen[4] & 8 ? out : NULL;
        HOLDS(sh_check_texts(ends, a->count, begin, from, a->size - begin, ascii, into, found) == wanted);
        HOLDS(wanted < 0 || (found[0] == alone && found[1] == (a->count ? low_of(a, a->count) - begin : 0)));
        for (int64_t i = 0; wanted >= 0 && into != NULL && i <= a->count; i++) {
            HOLDS(out[i] == low_of(a, i) - begin);
        }
    }
    if (sound && text[0]) {
        const int64_t stop = low_of(a, a->count) - begin;
        uint32_t sums[2] = {1, 2};
        within = within || (chosen[4] & 4) != 0;
        const int64_t bounded = chosen[4] & 4 ? -1 : low_length;
        HOLDS(sh_verify_texts(ends, a->count, begin, from, stop, 0, low, bounded, high, high_length, sums) ==
              (within ? empty : -1));
        HOLDS(!within || (sums[0] == slow_crc(ends, 8 * a->count, 1) && sums[1] == slow_crc(from, stop, 2)));
        if (begin + stop < a->size) { /* one byte too many */
            HOLDS(sh_verify_texts(ends, a->count, begin, from, stop + 1, 0, low, -1, high, 0, sums) == -1);
        }
    } else {
        uint32_t sums[2] = {1, 2};
        HOLDS(sh_verify_texts(ends, a->count, begin, from, a->size - begin, 0, low, -1, high, 0, sums) == -1);
    }
    free(out);
    free(low);
    free(high);
}

/* Texts of the input, which end at its line feeds; where an end is changed, anything follows. */
static struct array texts_of(const uint8_t *data, size_t size, const uint8_t *chosen) {
    static const int64_t ODD[] = {-1, INT32_MIN, INT32_MAX, 0, 1, INT64_MAX, INT64_MIN, (int64_t)1 << 32};
    int64_t all = 0, at = 0;
    for (size_t i = 0; i < size; i++) {
        all += data[i] == '\n';
    }
    struct array a = {NULL, chosen[0] & 1, 0, 0, (int64_t)size, made(size), true};
    size_t width = a.wide ? 8 : 4;
    a.ends = made(width * (size_t)(all + 1));
    memcpy(a.data, data, size);
    for (size_t i = 0; i < size; i++) {
        if (data[i] == '\n') {
            int64_t end = (int64_t)i;
            memcpy((uint8_t *)a.ends + width * (size_t)++at, &end, width);
        }
    }
    if (chosen[0] & 2 && chosen[1] % 4 == 0) {
        int64_t end = chosen[3] < 128 ? ODD[chosen[3] % 8] : chosen[3];
        memcpy((uint8_t *)a.ends + width * (size_t)(chosen[2] % (all + 1)), &end, width);
    }
    a.first = chosen[0] & 4 ? chosen[1] % (all + 1) : 0;
    a.count = all - a.first;
    for (int64_t i = 0; i < a.count; i++) {
        a.sound = a.sound && in_data(&a, i);
    }
    return a;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < SETTINGS) {
        return 0;
    }
    sh_limit((int64_t[]){64, 32, 16, 0}[size % 4]);
    struct array a = texts_of(data + SETTINGS, size - SETTINGS, data);
    check_union(&a, data);
    check_ordered(&a);
    check_take(&a, data + SETTINGS, data);
    check_digest(&a, data + SETTINGS, data);
    if (a.wide) {
        check_parts(&a, data + SETTINGS, data);
        check_values(&a, data);
        check_checked(&a, data);
    }
    free(a.ends);
    free(a.data);
    return 0;
}

/* clang-format off */
const char *const fuzz_pieces[] = {
    "\x02\x04\x01\x01\x03\x01", "\x03\x04\x02\x02\x01\x02", "\x07\x08\x01\x85\x02\xff", "\x05\x01\x08\x03\x03\x07",
    "a\nb\nc\n", "b\na\nb\n\n", "\n", "\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n", "same beginning of all\n",
    "same beginning of some\n", "same beg\n", "same beginn\xee\x80\x80\n", "same beginn\xf0\x9f\x98\x80\n", "same beginn\xf4\x80\x80\x80\n",
    "same beginn\xef\xbf\xbd\n", "\xc3\xa9\n", "\xef\xbf\xbf\n",
    "a longer text that takes more than one stripe of the hash, which has sixty-four bytes, and then some more of it, so that it is long",
    "\xfe", "\xfd", "aaaaaaaa", "abcdefgh\n"};
/* clang-format on */
const size_t fuzz_piece_count = sizeof fuzz_pieces / sizeof *fuzz_pieces;
