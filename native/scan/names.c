/* Names of fields to numbers: a hash table with a seed, a limit of probes and a fixed size. */
#include "scan/names.h"
#include "bytes/bytes.h"

enum { MOST_PROBES = 64 };

/* A multiplication of 64 bits to 128, both halves folded: every bit of the input reaches every bit of the result. */
static inline uint64_t folded(uint64_t a, uint64_t b) {
    unsigned __int128 product = (unsigned __int128)a * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static uint64_t hash_of(const uint8_t *p, int64_t length, const uint8_t *end, int64_t object, uint64_t seed) {
    uint64_t hash = folded(seed ^ (uint64_t)length, UINT64_C(0x9E3779B97F4A7C15) ^ (uint64_t)object);
    for (int64_t i = 0; i < length; i += 8) {
        uint64_t word = first_bytes(word_at(p + i, end), length - i);
        hash = folded(hash ^ word ^ seed, hash + UINT64_C(0xD1B54A32D192ED03));
    }
    return hash;
}

/* The slot of a name, or the empty one that it belongs to; -1 after too many probes. */
static int64_t slot_of(const struct sh_names *names, const uint8_t *p, int64_t length, const uint8_t *end,
                       int64_t object) {
    uint64_t slot = hash_of(p, length, end, object, names->seed);
    for (int probe = 0; probe < MOST_PROBES; probe++, slot++) {
        int64_t at = (int64_t)(slot & (uint64_t)names->slot_mask);
        int32_t number = names->slots[at];
        if (number < 0) {
            return at;
        }
        const struct sh_name *name = names->list + number;
        const uint8_t *text = names->text + name->start;
        if (name->length == length && name->object == object && same_bytes(text, text + length, p, end, length)) {
            return at;
        }
    }
    return -1;
}

static int64_t taken_up(struct sh_names *names, int64_t slot, const uint8_t *p, int64_t length, int64_t object,
                        int64_t column, int64_t inner) {
    if (names->count >= names->room || length > names->text_room - names->used) {
        return -1;
    }
    memcpy(names->text + names->used, p, (size_t)length);
    names->list[names->count] = (struct sh_name){names->used, length, object, column, inner, 0, -1, -1};
    names->used += length;
    names->slots[slot] = (int32_t)names->count;
    return names->count++;
}

int64_t sh_name(struct sh_names *names, const uint8_t *p, int64_t length, const uint8_t *end, int64_t object) {
    int64_t slot = slot_of(names, p, length, end, object);
    if (slot < 0) {
        return -1;
    }
    return names->slots[slot] >= 0 ? names->slots[slot] : taken_up(names, slot, p, length, object, -1, -1);
}

/* Takes up a name whose field is wanted. Returns its number; -1 if there is no room, or the name is there. */
int64_t sh_declare(struct sh_names *names, const uint8_t *name, int64_t length, int64_t object, int64_t column,
                   int64_t inner) {
    int64_t slot = slot_of(names, name, length, name + length, object);
    if (slot < 0 || names->slots[slot] >= 0) {
        return -1;
    }
    return taken_up(names, slot, name, length, object, column, inner);
}
