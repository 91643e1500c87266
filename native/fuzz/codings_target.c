/* Entries and streams of codings: any bytes, and what was made of values. What is taken is coded again to the same
 * bytes, and what is written stays inside of its room. */
#include "bytes/hash.h"
#include "codings/codings.h"
#include "fuzz/fuzz.h"
#include "merge/merge.h"

enum { SETTINGS = 4, FORMS = 11 };

#define HEAD "a head of 23 bytes here"
#define LONG_HEAD "the head of a stream has all of 41 bytes."
#define FIRST_FRONT "the front of the first element"
#define INSTANT "\x77\x0d\x02\xff\xff\xff\xff\x01\x02\x03\x04\x05\x06\x07\x08x"
#define FRONTS LONG_HEAD FIRST_FRONT "later:"

typedef int64_t encode_values(const void *, const uint8_t *, int64_t, int64_t, int64_t, int64_t, uint8_t *);
typedef int64_t decode_entries(const uint8_t *, int64_t, int64_t, int64_t, void *, uint8_t *);

/* Codings of one width, with the bytes of an entry, the parameter, and the bytes of a value. */
static const struct {
    encode_values *encode;
    decode_entries *decode;
    int64_t width, parameter, size;
} CODINGS[FORMS] = {
    {sh_encode_dates, sh_decode_dates, 3, 0, 4},          {sh_encode_dates, sh_decode_dates, 5, 0, 4},
    {sh_encode_times, sh_decode_times, 3, 0, 8},          {sh_encode_times, sh_decode_times, 4, 3, 8},
    {sh_encode_times, sh_decode_times, 5, 6, 8},          {sh_encode_times, sh_decode_times, 6, 9, 8},
    {sh_encode_decimals, sh_decode_decimals, 4, 6, 16},   {sh_encode_decimals, sh_decode_decimals, 9, 18, 16},
    {sh_encode_decimals, sh_decode_decimals, 17, 38, 16}, {sh_encode_decimals, sh_decode_decimals, 18, 39, 32},
    {sh_encode_decimals, sh_decode_decimals, 33, 76, 32},
};

static void check_entries(int form, const uint8_t *data, size_t size, int64_t first) {
    int64_t width = CODINGS[form].width, count = (int64_t)size / width, bits = (count + 7) / 8;
    uint8_t *entries = made((size_t)(count * width)), *again = made((size_t)(count * width));
    void *values = made((size_t)(count * CODINGS[form].size));
    uint8_t *valid = made((size_t)bits), *moved = made((size_t)((first + count + 7) / 8));
    memcpy(entries, data, (size_t)(count * width));
    int64_t nulls = CODINGS[form].decode(entries, count, width, CODINGS[form].parameter, values, valid);
    if (nulls >= 0) {
        for (int64_t i = 0; i < count; i++) {
            int there = valid[i / 8] >> i % 8 & 1;
            nulls -= !there;
            moved[(first + i) / 8] |= (uint8_t)(there << (first + i) % 8);
        }
        HOLDS(nulls == 0);
        HOLDS(CODINGS[form].encode(values, moved, first, count, width, CODINGS[form].parameter, again) == 1);
        HOLDS(memcmp(entries, again, (size_t)(count * width)) == 0);
    }
    free(again);
    free(moved);
    free(entries);
    free(values);
    free(valid);
}

/* Any bytes as values: what is taken is read back, but where null is. */
static void check_values(int form, const uint8_t *data, size_t size) {
    int64_t width = CODINGS[form].width, bytes = CODINGS[form].size, count = (int64_t)size / bytes;
    uint8_t *values = made((size_t)(count * bytes)), *again = made((size_t)(count * bytes));
    uint8_t *entries = made((size_t)(count * width)), *valid = made((size_t)((count + 7) / 8));
    memcpy(values, data, (size_t)(count * bytes));
    if (CODINGS[form].encode(values, NULL, 0, count, width, CODINGS[form].parameter, entries) == 1) {
        HOLDS(CODINGS[form].decode(entries, count, width, CODINGS[form].parameter, again, valid) == 0);
        HOLDS(memcmp(values, again, (size_t)(count * bytes)) == 0);
    }
    free(values);
    free(again);
    free(entries);
    free(valid);
}

static void check_octets(const uint8_t *data, size_t size, int64_t length, int64_t before) {
    int64_t width = length + before, count = (int64_t)size / width;
    uint8_t *entries = made((size_t)(count * width)), *again = made((size_t)(count * width));
    uint8_t *out = made((size_t)(count * length)), *valid = made((size_t)((count + 7) / 8));
    int32_t *starts = made(sizeof *starts * (size_t)(count + 1));
    memcpy(entries, data, (size_t)(count * width));
    int64_t nulls = sh_decode_octets(entries, count, width, length, starts, out, valid);
    if (nulls >= 0) {
        HOLDS(starts[count] == (count - nulls) * length);
        HOLDS(sh_encode_octets(starts, valid, 0, count, out, starts[count], width, length, again) == 1);
        HOLDS(memcmp(entries, again, (size_t)(count * width)) == 0);
        if (count > 0) { /* ends that are out of place are seen */
            starts[count / 2] = (int32_t)((uint32_t)data[0] << 24 | 1);
            sh_encode_octets(starts, valid, 0, count, out, starts[count], width, length, again);
        }
    }
    free(entries);
    free(again);
    free(out);
    free(valid);
    free(starts);
}

/* Entries of any width, of which those like the first are null or not. */
static void check_digest(const uint8_t *data, size_t size, int64_t width, int null) {
    const uint64_t prefix = UINT64_C(0x0B12345678);
    int64_t count = (int64_t)size / width, nulls = 0;
    uint8_t *entries = made((size_t)(count * width));
    uint64_t total[2] = {~UINT64_C(0), 5};
    sh_u128 wanted = (sh_u128)total[1] << 64 | total[0];
    memcpy(entries, data, (size_t)(count * width));
    for (int64_t i = 0; i < count; i++) {
        int none = null && memcmp(entries + i * width, entries, (size_t)width) == 0;
        nulls += none;
        wanted += none ? 0 : sh_hash_text(prefix, entries + i * width, width);
    }
    const uint8_t *none = null && count > 0 ? entries : NULL;
    uint64_t *hashes = made(sizeof *hashes * (size_t)count), again[2] = {total[0], total[1]};
    HOLDS(sh_digest_coded(prefix, entries, count, width, none, NULL, total) == nulls);
    HOLDS(total[0] == (uint64_t)wanted && total[1] == (uint64_t)(wanted >> 64));
    HOLDS(sh_digest_coded(prefix, entries, count, width, none, hashes, again) == nulls);
    HOLDS(memcmp(again, total, sizeof total) == 0);
    for (int64_t i = 0; i < count; i++) {
        int is_null = null && memcmp(entries + i * width, entries, (size_t)width) == 0;
        HOLDS(hashes[i] == (is_null ? 0 : (uint64_t)sh_hash_text(prefix, entries + i * width, width)));
    }
    free(hashes);
    free(entries);
}

/* Streams of one head, cut where the input says so; the rest of it is their bytes. */
static void check_arrays(const uint8_t *data, size_t size, int64_t width, int64_t cuts) {
    static const uint64_t NULLS[] = {0, 0x80, 0x8000, 0, 0x80000000, 0, 0, 0, UINT64_C(1) << 63};
    int64_t bytes = width <= 0 ? 1 : width, total = 0;
    uint64_t null = width < 0 ? 0 : NULLS[width];
    cuts = cuts < (int64_t)size ? cuts : (int64_t)size;
    int64_t length = (int64_t)size - cuts, *ends = made(sizeof *ends * (size_t)(cuts + 1));
    for (int64_t i = 0; i < cuts; i++) {
        ends[i + 1] = ends[i] + (data[i] < 250 ? data[i] % 64 : (int64_t)data[i] - 253);
    }
    uint8_t *streams = made((size_t)length), *valid = made((size_t)((cuts + 7) / 8));
    int32_t *starts = made(sizeof *starts * (size_t)(cuts + 1));
    memcpy(streams, data + cuts, (size_t)length);
    total = sh_array_lengths(ends, cuts, streams, length, width, HEAD, starts, valid);
    if (total >= 0) {
        uint8_t *elements = made((size_t)(width == 0 ? (total + 7) / 8 : total * bytes));
        uint8_t *there = made((size_t)((total + 7) / 8)), *again = made((size_t)length);
        int64_t *stops = made(sizeof *stops * (size_t)cuts);
        int64_t nulls = sh_decode_arrays(ends, cuts, streams, width, null, elements, there);
        HOLDS(nulls >= 0 && nulls <= total && starts[cuts] == total);
        int64_t used = sh_encode_arrays(starts, valid, 0, cuts, elements, nulls > 0 ? there : NULL, 0, total, width,
                                        null, HEAD, stops, again, length);
        HOLDS(used == ends[cuts]);
        HOLDS(width == 0 || memcmp(again, streams, (size_t)used) == 0); /* a Boolean may have been written as 2 */
        for (int64_t i = 0; i < cuts; i++) {
            HOLDS(stops[i] == ends[i + 1]);
        }
        if (cuts > 0) { /* so are lists */
            starts[cuts / 2] = data[0] % 2 ? -1 : INT32_MAX - data[0];
            sh_encode_arrays(starts, valid, 0, cuts, elements, nulls > 0 ? there : NULL, 0, total, width, null, HEAD,
                             stops, again, length);
        }
        free(elements);
        free(there);
        free(again);
        free(stops);
    }
    free(ends);
    free(streams);
    free(valid);
    free(starts);
}

/* Streams of instants: each byte of the input is an element, a byte, or the end of a stream, and changes it a bit.
 * Returns how many there are. */
static int64_t put_streams(const uint8_t *data, size_t size, uint8_t *out, int64_t *ends) {
    static const char *const PARTS[] = {"\x70", "\x70", FIRST_FRONT INSTANT, "later:" INSTANT, "later:" INSTANT};
    int64_t streams = 0, begin = 0, end = 0, count = 0;
    for (size_t i = 0; i < size; i++) {
        int part = data[i] % 8;
        if (end == begin && part < 7) {
            memcpy(out + end, LONG_HEAD "\0\0\0", 45);
            end += 45;
        }
        if (part < 5) {
            size_t length = strlen(PARTS[part]);
            memcpy(out + end, PARTS[part], length);
            out[end + (int64_t)length - 2] ^= data[i]; /* of the nanoseconds, the last */
            end += (int64_t)length;
            count++;
        } else if (part == 5) {
            out[end++] = data[i];
        } else { /* mostly the number that it has */
            if (end > begin) {
                out[begin + 44] = (uint8_t)(count + (data[i] > 250));
            }
            ends[++streams] = end;
            begin = end;
            count = 0;
        }
    }
    return streams;
}

static void check_instants(const uint8_t *data, size_t size) {
    int64_t *ends = made(sizeof *ends * (size + 1));
    uint8_t *room_for_all = made(92 * size + 1);
    int64_t cuts = put_streams(data, size, room_for_all, ends), length = ends[cuts];
    uint8_t *streams = made((size_t)length), *valid = made((size_t)((cuts + 7) / 8));
    int32_t *starts = made(sizeof *starts * (size_t)(cuts + 1));
    memcpy(streams, room_for_all, (size_t)length);
    free(room_for_all);
    int64_t total = sh_instant_lengths(ends, cuts, streams, length, FRONTS, starts, valid);
    if (total >= 0) {
        int64_t *elements = made(sizeof *elements * (size_t)total), *stops = made(sizeof *stops * (size_t)cuts);
        int64_t room = cuts * 69 + total * 22;
        uint8_t *there = made((size_t)((total + 7) / 8)), *again = made((size_t)room);
        int64_t nulls = sh_decode_instants(ends, starts, cuts, streams, FRONTS, elements, there);
        if (nulls >= 0) {
            int64_t used =
                sh_encode_instants(starts, valid, 0, cuts, elements, there, 0, total, FRONTS, stops, again, room);
            HOLDS(nulls <= total && used == ends[cuts] && memcmp(again, streams, (size_t)used) == 0);
            for (int64_t i = 0; i < cuts; i++) {
                HOLDS(stops[i] == ends[i + 1]);
            }
        }
        if (cuts > 0) {
            starts[cuts / 2] = data[0] % 2 ? -1 : INT32_MAX - data[0];
            sh_encode_instants(starts, valid, 0, cuts, elements, NULL, 0, total, FRONTS, stops, again, room);
        }
        free(elements);
        free(stops);
        free(there);
        free(again);
    }
    free(ends);
    free(streams);
    free(valid);
    free(starts);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const int64_t WIDTHS[] = {-1, 0, 1, 2, 4, 8};
    if (size < SETTINGS) {
        return 0;
    }
    const uint8_t *rest = data + SETTINGS;
    size -= SETTINGS;
    int form = data[0] % FORMS;
    check_entries(form, rest, size, data[1] % 9);
    check_values(form, rest, size);
    check_digest(rest, size, 1 + data[1] % 40, data[2] & 1);
    check_octets(rest, size, 1 + data[1] % 17, data[2] & 1);
    check_arrays(rest, size, WIDTHS[data[2] % 6], data[3] % 8);
    check_instants(rest, size);
    return 0;
}

/* Settings, entries of each coding with null among them, and streams. They have no NUL: it ends a piece. */
const char *const fuzz_pieces[] = {"\x01\x01\x01\x01",
                                   "\x06\x02\x01\x01",
                                   "\x07\x03\x05\x02",
                                   "\x0f\xd0\x5d",
                                   "\x01\x01\x01",
                                   "\xff",
                                   "\x80",
                                   "\x01",
                                   "\x01\x02\x03\x04",
                                   "\xff\xff\xff\xff",
                                   HEAD,
                                   "\x02\x03\x0b\x08\x06",
                                   "\x07\x07\x0b\x0f",
                                   "\x01\x05\x06\x07\x08\x09\x0a\x0b\x0c"};
const size_t fuzz_piece_count = sizeof fuzz_pieces / sizeof *fuzz_pieces;
