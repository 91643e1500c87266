/* Ids of texts: each text of a column once, in the order in which they are met, found by a hash table. */
#include "scan/text_ids.h"
#include "bytes/bytes.h"

/* Slots that are looked at for one text. Whoever writes a feed chooses its texts, but does not know the seed. */
enum { PROBES = 64, WORD = 8 };

static const uint64_t MIX = UINT64_C(0x9E3779B185EBCA87);

static inline uint64_t folded(uint64_t a, uint64_t b) {
    unsigned __int128 product = (unsigned __int128)a * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static inline uint64_t word(const uint8_t *p) {
    uint64_t found;
    memcpy(&found, p, WORD);
    return found;
}

/* The hash of more than eight bytes: a word after the other, then the last one, which may have some of them again. */
static inline uint64_t hash_of(const uint8_t *p, int64_t length, uint64_t seed) {
    uint64_t hash = seed ^ (uint64_t)length;
    for (int64_t i = 0; i < length - WORD; i += WORD) {
        hash = folded(hash ^ word(p + i), MIX);
    }
    return folded(hash ^ word(p + length - WORD), MIX);
}

/* Whether two texts of more than eight bytes are equal. */
static inline int same_text(const uint8_t *a, const uint8_t *b, int64_t length) {
    for (int64_t i = 0; i < length - WORD; i += WORD) {
        if (word(a + i) != word(b + i)) {
            return 0;
        }
    }
    return word(a + length - WORD) == word(b + length - WORD);
}

/* Gives up ids: the texts of all rows before this one, each at its own place. There is room for them, as
 * without ids. */
static void write_out(struct sh_column *column, int64_t row) {
    int64_t used = 0;
    for (int64_t i = 0; i < row; i++) {
        int64_t start = 0, length = 0;
        if (column->valid[i]) { /* else there need not be a text */
            start = column->text_ends[column->ids[i]];
            length = column->text_ends[column->ids[i] + 1] - start;
        }
        if (length <= 16 && column->room - used >= 16 && column->room - start >= 16) {
            memcpy(column->bytes + used, column->text_bytes + start, 16); /* what is too much is written over later */
        } else {
            memcpy(column->bytes + used, column->text_bytes + start, (size_t)length);
        }
        used += length;
        column->ends[i + 1] = (int32_t)used;
    }
    column->ids = NULL;
}

/* A text that is met for the first time, as the entry behind all others; 0 if there is no room for it. */
static int add(struct sh_column *column, const uint8_t *p, int64_t length) {
    int64_t used = column->text_ends[column->texts];
    if (length > column->room - used || used + length > INT32_MAX) {
        return 0;
    }
    if (p != column->text_bytes + used) {
        memcpy(column->text_bytes + used, p, (size_t)length);
    }
    column->text_ends[++column->texts] = (int32_t)(used + length);
    return 1;
}

int sh_put_id(struct sh_column *column, int64_t row, const uint8_t *p, const uint8_t *stop, const uint8_t *end) {
    int64_t length = stop - p;
    uint64_t key = length <= WORD ? first_bytes(word_at(p, end), length) : hash_of(p, length, column->seed);
    uint64_t at = length <= WORD ? folded(key ^ column->seed ^ (uint64_t)length << 56, MIX) : key;
    for (int64_t probe = 0; probe < PROBES; probe++) {
        struct sh_slot *slot = column->slots + ((at + (uint64_t)probe) & (uint64_t)column->slot_mask);
        if (slot->number == 0) {
            if (column->texts >= column->most) {
                break;
            }
            if (!add(column, p, length)) {
                return 0;
            }
            slot->key = key;
            slot->length = (int32_t)length;
            slot->number = (int32_t)column->texts;
        } else if (slot->key != key || slot->length != length ||
                   (length > WORD && !same_text(p, column->text_bytes + column->text_ends[slot->number - 1], length))) {
            continue;
        }
        column->ids[row] = slot->number - 1;
        return 1;
    }
    write_out(column, row);
    return sh_put_bytes(column, row, p, stop, end);
}

uint8_t *sh_text_place(struct sh_column *column, int64_t row, int64_t length) {
    int64_t used = column->ids != NULL ? column->text_ends[column->texts] : column->ends[row];
    if (length > column->room - used || used + length > INT32_MAX) {
        return NULL;
    }
    return (column->ids != NULL ? column->text_bytes : column->bytes) + used;
}

int sh_text_made(struct sh_column *column, int64_t row, const uint8_t *stop) {
    if (column->ids != NULL) {
        const uint8_t *start = column->text_bytes + column->text_ends[column->texts];
        return sh_put_id(column, row, start, stop, column->text_bytes + column->room);
    }
    column->ends[row + 1] = (int32_t)(stop - column->bytes);
    return 1;
}
