/* Rows parted by bounds: which piece each belongs to, and their entries, those of a piece behind each other. */
#include "bytes/bytes.h"
#include "merge/merge.h"
#include "merge/words.h"

/* Whether the words of a row from key `number` on are not less than those of a bound. */
static int is_at_or_after(const struct sh_bounds *bounds, int64_t bound, int64_t number, int64_t row) {
    const uint64_t *words = bounds->words + bound * bounds->key_count;
    for (; number < bounds->lengths[bound]; number++) {
        uint64_t word = word_of(bounds->keys + number, row);
        if (word != words[number]) {
            return word > words[number];
        }
    }
    return 1;
}

/* How many bounds have a first word that is less. */
static int64_t less_than(const struct sh_bounds *bounds, uint64_t word) {
    int64_t low = 0;
    for (int64_t left = bounds->count; left > 1; left -= left / 2) {
        low += bounds->words[(low + left / 2 - 1) * bounds->key_count] < word ? left / 2 : 0;
    }
    return low + (low < bounds->count && bounds->words[low * bounds->key_count] < word);
}

/* Of each row how many bounds, which ascend, it is at or after: the number of its piece. Returns the rows; -1 where a
 * bound has no word or more than there are keys, or a key has words of another width than 1, 2, 4 or 8 bytes. */
int64_t sh_number_pieces(const struct sh_bounds *bounds, int64_t rows, uint32_t *pieces) {
    for (int64_t i = 0; i < bounds->count; i++) {
        if (bounds->lengths[i] < 1 || bounds->lengths[i] > bounds->key_count) {
            return -1;
        }
    }
    for (int64_t i = 0; i < bounds->key_count; i++) {
        if (!is_word(bounds->keys + i)) {
            return -1;
        }
    }
    for (int64_t row = 0; row < rows; row++) {
        uint64_t word = bounds->count > 0 ? word_of(bounds->keys, row) : 0;
        int64_t piece = less_than(bounds, word);
        while (piece < bounds->count && bounds->words[piece * bounds->key_count] == word &&
               is_at_or_after(bounds, piece, 1, row)) {
            piece++;
        }
        pieces[row] = (uint32_t)piece;
    }
    return rows;
}

#define TO_PIECES(bytes)                                                                                               \
    for (int64_t i = 0; i < count; i++) {                                                                              \
        if (UNLIKELY(pieces[i] >= (uint64_t)piece_count || (uint64_t)places[pieces[i]] >= (uint64_t)count)) {          \
            return i;                                                                                                  \
        }                                                                                                              \
        memcpy((uint8_t *)out + places[pieces[i]]++ * (bytes), (const uint8_t *)entries + i * (bytes), bytes);         \
    }                                                                                                                  \
    return count

/* Writes each entry, of any width, to the place of its piece, which is the next one from then on. Returns count; less
 * where a piece is not below `piece_count`, or its place not below count. */
int64_t sh_part(const void *entries, int64_t width, const uint32_t *pieces, int64_t count, int64_t *places,
                int64_t piece_count, void *out) {
    switch (width) { /* the compiler knows these */
    case 1:
        TO_PIECES(1);
    case 2:
        TO_PIECES(2);
    case 4:
        TO_PIECES(4);
    case 8:
        TO_PIECES(8);
    default:
        TO_PIECES((size_t)width);
    }
}
