/* Texts that were copied to one place, each behind its number and its length, and their order by UTF-16 code unit. */
#ifndef SPARKHAVEN_NUMBERED_H
#define SPARKHAVEN_NUMBERED_H

#include "bytes/bytes.h"
#include "merge/merge.h"

struct sh_number {
    uint32_t number, length;
};

/* Where they are; `end` is how far may be read. */
struct sh_numbered {
    const uint8_t *texts, *end;
};

static inline struct sh_number number_of(const struct sh_numbered *of, int64_t offset) {
    struct sh_number found;
    memcpy(&found, of->texts + offset, sizeof found);
    return found;
}

/* UTF-8 orders by code point. UTF-16 has U+10000 and above (first byte F0 to F4) before U+E000 to U+FFFF (EE and EF);
 * these bytes are first bytes of a character only. */
static inline uint8_t raised(uint8_t byte) {
    return byte < 0xEE ? byte : byte < 0xF0 ? byte + 5 : byte < 0xF5 ? byte - 2 : byte;
}

/* The same of each byte of a word. */
uint64_t sh_raised_word(uint64_t word);

/* The first eight of `left` bytes at p, zeros behind them, so that texts compare as numbers; `end` as above. */
static inline uint64_t key_at(const uint8_t *p, int64_t left, const uint8_t *end) {
    if (UNLIKELY(left <= 0)) {
        return 0;
    }
    const uint64_t word = first_bytes(word_at(p, end), left);
    return __builtin_bswap64(UNLIKELY(word & UINT64_C(0x8080808080808080)) ? sh_raised_word(word) : word);
}

static inline uint64_t key_of(const struct sh_numbered *of, int64_t offset, int64_t depth) {
    const uint8_t *text = of->texts + offset + sizeof(struct sh_number);
    return key_at(text + depth, (int64_t)number_of(of, offset).length - depth, of->end);
}

/* Orders texts whose first `depth` bytes are equal. An index of `items` is the offset of a text, its key that of the
 * bytes from `depth` on; then it is 1 where the text is that before it, else 0. `spare` has room for as many. */
void sh_sort_numbered(const struct sh_numbered *of, struct sh_keyed *items, struct sh_keyed *spare, int64_t count,
                      int64_t depth);

#endif
