/* Bytes of codecs whose values have any length: texts, maps, numbers without bounds, row sets. What is taken is coded
 * again to bytes that are read as the same. */
#include "codings/codings.h"
#include "fuzz/fuzz.h"

enum { SETTINGS = 4, GROWTH = 6, DIGITS = 10000 };

#define HEAD "this is the head of a stream of 40 bytes"

/* Values that the input is cut into: their ends, one more than values, and bytes of exactly that size. */
struct blobs {
    int64_t count, size, *ends;
    uint8_t *data;
};

/* `front` bytes of `head` stand before each. */
static struct blobs cut(const uint8_t *data, size_t size, int64_t cuts, const char *head, int64_t front) {
    int64_t end = 0;
    struct blobs blobs = {cuts < (int64_t)size ? cuts : (int64_t)size, 0, NULL, NULL};
    int64_t left = (int64_t)size - blobs.count;
    const uint8_t *rest = data + blobs.count;
    blobs.ends = made(sizeof *blobs.ends * (size_t)(blobs.count + 1));
    uint8_t *room_for_all = made((size_t)(left + blobs.count * front));
    for (int64_t i = 0; i < blobs.count; i++) {
        int64_t length = data[i] % 64 < left ? data[i] % 64 : left;
        if (length > 0) {
            memcpy(room_for_all + end, head, (size_t)front);
            memcpy(room_for_all + end + front, rest, (size_t)length);
            end += front + length;
        }
        rest += length;
        left -= length;
        blobs.ends[i + 1] = end;
    }
    blobs.size = end;
    blobs.data = made((size_t)end);
    memcpy(blobs.data, room_for_all, (size_t)end);
    free(room_for_all);
    return blobs;
}

static void release(struct blobs *blobs) {
    free(blobs->ends);
    free(blobs->data);
}

static size_t bits(int64_t count) { return (size_t)((count + 7) / 8); }

/* Texts as they lie in memory of exactly their size. */
struct texts {
    int64_t used;
    int32_t *ends;
    uint8_t *out, *valid;
};

static struct texts decoded_texts(const struct blobs *blobs, const int32_t *starts, int64_t total) {
    int64_t nulls = 0;
    struct texts texts = {0, made(sizeof *starts * (size_t)(total + 1)), made(0), made(bits(total))};
    int32_t *known = made(sizeof *known * (size_t)total);
    for (int64_t room = 0;; room = texts.used) { /* first without any room, which says how much it takes */
        free(texts.out);
        texts.out = made((size_t)room);
        texts.used = sh_decode_texts(blobs->ends, starts, blobs->count, blobs->data, known, texts.ends, texts.valid,
                                     texts.out, room, &nulls);
        if (texts.used <= room) {
            break;
        }
    }
    HOLDS(nulls >= 0 && nulls <= total);
    free(known);
    return texts;
}

static void free_texts(struct texts *texts) {
    free(texts->ends);
    free(texts->out);
    free(texts->valid);
}

static void check_texts(const uint8_t *data, size_t size, int64_t cuts) {
    struct blobs blobs = cut(data, size, cuts, HEAD "\0\0\0", 43); /* and most of the number of texts */
    int32_t *starts = made(sizeof *starts * (size_t)(blobs.count + 1));
    uint8_t *valid = made(bits(blobs.count));
    int64_t total = sh_text_lengths(blobs.ends, blobs.count, blobs.data, blobs.size, HEAD, starts, valid);
    if (total >= 0) {
        struct texts texts = decoded_texts(&blobs, starts, total);
        if (texts.used >= 0) {
            int64_t room = blobs.count * 44 + total * 9 + texts.used * 2, *ends = made(8 * (size_t)(blobs.count + 1));
            struct blobs again = {blobs.count, 0, ends, made((size_t)room)};
            again.size = sh_encode_texts(starts, valid, 0, blobs.count, texts.ends, texts.valid, 0, total, texts.out,
                                         texts.used, HEAD, again.ends + 1, again.data, room);
            HOLDS(again.size >= 0);
            struct texts more = decoded_texts(&again, starts, total);
            HOLDS(more.used == texts.used && memcmp(more.out, texts.out, (size_t)more.used) == 0);
            HOLDS(memcmp(more.ends, texts.ends, sizeof *more.ends * (size_t)(total + 1)) == 0);
            free_texts(&more);
            if (total > 0) { /* ends that are out of place are seen, and too little room is */
                texts.ends[total / 2] = (int32_t)((uint32_t)data[0] << 24 | 1);
            }
            sh_encode_texts(starts, valid, 0, blobs.count, texts.ends, texts.valid, 0, total, texts.out, texts.used,
                            HEAD, again.ends + 1, again.data, room);
            release(&again);
        }
        free_texts(&texts);
    }
    free(starts);
    free(valid);
    release(&blobs);
}

static void check_maps(const uint8_t *data, size_t size, int64_t cuts, int64_t width) {
    static const uint64_t NULLS[] = {0, 0, 0, 0, UINT64_C(0xFF7FFFFF), 0, 0, 0, UINT64_C(1) << 63};
    struct blobs blobs = cut(data, size, cuts, "\0\0\0", 3);
    uint64_t null = width < 0 ? 0 : NULLS[width];
    int32_t *starts = made(sizeof *starts * (size_t)(blobs.count + 1));
    uint8_t *valid = made(bits(blobs.count));
    int64_t total = sh_string_map_lengths(blobs.ends, blobs.count, blobs.data, blobs.size, width, starts, valid);
    if (total >= 0) {
        size_t wide = width < 0 ? sizeof(int32_t) * (size_t)(total + 1) : width ? (size_t)(total * width) : bits(total);
        struct sh_map_room room = {made(sizeof *room.keys * (size_t)(total + 1)), made((size_t)blobs.size), made(wide),
                                   made(bits(total)), made((size_t)blobs.size)};
        int64_t nulls = sh_decode_string_maps(blobs.ends, starts, blobs.count, blobs.data, width, null, &room);
        if (nulls >= 0) {
            const int32_t *ends = room.values;
            int64_t longest = 0;
            for (int64_t i = 0; i < blobs.count; i++) {
                longest = starts[i + 1] - starts[i] > longest ? starts[i + 1] - starts[i] : longest;
            }
            int32_t *numbers = made(sizeof *numbers * (size_t)(2 * longest));
            int64_t *stops = made(sizeof *stops * (size_t)blobs.count);
            uint8_t *again = made((size_t)blobs.size);
            struct sh_map_entries entries = {room.keys,
                                             room.key_data,
                                             room.keys[total],
                                             room.values,
                                             room.valid_values,
                                             0,
                                             room.value_data,
                                             width < 0 ? ends[total] : 0,
                                             total,
                                             width,
                                             null};
            int64_t used = sh_encode_string_maps(starts, valid, 0, blobs.count, &entries, numbers, longest, stops,
                                                 again, blobs.size);
            HOLDS(nulls <= total && (used < 0 || used == blobs.size)); /* a key may come twice */
            HOLDS(used < 0 || width == 0 || memcmp(again, blobs.data, (size_t)used) == 0);
            if (total > 0) {
                room.keys[total / 2] = (int32_t)((uint32_t)data[0] << 24 | 1);
                sh_encode_string_maps(starts, valid, 0, blobs.count, &entries, numbers, longest, stops, again,
                                      blobs.size);
            }
            free(numbers);
            free(stops);
            free(again);
        }
        free(room.keys);
        free(room.key_data);
        free(room.values);
        free(room.valid_values);
        free(room.value_data);
    }
    free(starts);
    free(valid);
    release(&blobs);
}

/* Any bytes as numbers, and any text: what is taken is read again as the same number. */
static void check_numbers(const uint8_t *data, size_t size, int64_t cuts, int64_t whole) {
    struct blobs blobs = cut(data, size, cuts, "\0\0\0\0", whole ? 4 : 3);
    int32_t *starts = made(sizeof *starts * (size_t)(blobs.count + 1));
    uint8_t *valid = made(bits(blobs.count)), *out = made(0);
    int64_t used = 0, room = 0;
    for (;; room = used) {
        free(out);
        out = made((size_t)room);
        used =
            sh_decode_free_decimals(blobs.ends, blobs.count, blobs.data, blobs.size, whole, starts, valid, out, room);
        if (used <= room) {
            break;
        }
    }
    HOLDS(used <= blobs.count * DIGITS);
    if (used >= 0) {
        int64_t *ends = made(sizeof *ends * (size_t)(blobs.count + 1)), most = used + blobs.count * 5;
        uint8_t *again = made((size_t)most), *texts = made((size_t)used);
        int64_t taken = sh_encode_free_decimals(starts, valid, 0, blobs.count, out, used, whole, ends + 1, again, most);
        if (taken >= 0) { /* a number may have a digit more than is taken */
            HOLDS(sh_decode_free_decimals(ends, blobs.count, again, taken, whole, starts, valid, texts, used) == used);
            HOLDS(memcmp(texts, out, (size_t)used) == 0);
        }
        free(ends);
        free(again);
        free(texts);
    }
    free(starts);
    free(valid);
    free(out);
    release(&blobs);
}

static void check_row_sets(const uint8_t *data, size_t size, int64_t cuts) {
    struct blobs blobs = cut(data, size, cuts, "", 0);
    int32_t *starts = made(sizeof *starts * (size_t)(blobs.count + 1));
    uint8_t *doubt = made((size_t)blobs.count);
    for (int64_t i = 0; i <= blobs.count; i++) {
        starts[i] = (int32_t)blobs.ends[i];
    }
    int64_t doubts = sh_row_sets(starts, NULL, 0, blobs.count, blobs.data, blobs.size, doubt);
    for (int64_t i = 0; i < blobs.count; i++) {
        HOLDS(doubt[i] <= 1 && (doubt[i] || starts[i + 1] > starts[i]));
        doubts -= doubt[i];
    }
    HOLDS(doubts == 0);
    if (blobs.count > 0) {
        starts[blobs.count / 2] = (int32_t)((uint32_t)data[0] << 24 | 1);
        sh_row_sets(starts, NULL, 0, blobs.count, blobs.data, blobs.size, doubt);
    }
    free(starts);
    free(doubt);
    release(&blobs);
}

/* A text as one number. */
static void check_digits(const uint8_t *data, size_t size, int64_t whole) {
    int32_t starts[] = {0, (int32_t)size};
    int64_t ends[] = {0, 0};
    uint8_t *text = made(size), *out = made(size + 5);
    memcpy(text, data, size);
    sh_encode_free_decimals(starts, NULL, 0, 1, text, (int64_t)size, whole, ends + 1, out, (int64_t)size + 5);
    free(text);
    free(out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const int64_t WIDTHS[] = {-1, 0, 4, 8};
    if (size < SETTINGS) {
        return 0;
    }
    const uint8_t *rest = data + SETTINGS;
    size -= SETTINGS;
    check_texts(rest, size, data[0] % 8);
    check_maps(rest, size, data[1] % 8, WIDTHS[data[2] % 4]);
    check_numbers(rest, size, data[1] % 8, data[3] & 1);
    check_row_sets(rest, size, data[0] % 8);
    check_digits(rest, size, data[3] & 1);
    return 0;
}

/* Settings, fronts of texts and of numbers, and commands of row sets. They have no NUL: it ends a piece. */
const char *const fuzz_pieces[] = {"\x03\x03\x02\x01",
                                   "\x07\x02\x01\x01",
                                   "\x74",
                                   "\x71",
                                   "\x7e",
                                   "\x7c",
                                   "\x70",
                                   "\xc0\x80",
                                   "\xed\xa0\x81\xed\xb8\x80",
                                   "\xc3\xa9",
                                   "\x01k",
                                   "\xff\xff\xff\xff",
                                   "\x09\x01\x05\x20",
                                   "\x11\x01\x0a\x7f\xfe\x20",
                                   "\x1c\x02\x05\xfe\x20",
                                   "-0.123456789012345678901234567890",
                                   "98765432109876543210"};
const size_t fuzz_piece_count = sizeof fuzz_pieces / sizeof *fuzz_pieces;
