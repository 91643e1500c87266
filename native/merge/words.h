/* Words of keys by row. */
#ifndef SPARKHAVEN_WORDS_H
#define SPARKHAVEN_WORDS_H

#include <string.h>

#include "merge/merge.h"

static inline int is_word(const struct sh_words *key) {
    return key->width == 1 || key->width == 2 || key->width == 4 || key->width == 8;
}

static inline uint64_t word_of(const struct sh_words *key, int64_t row) {
    const uint8_t *at = (const uint8_t *)key->words + row * key->width;
    uint16_t half;
    uint32_t single;
    uint64_t word;
    switch (key->width) {
    case 1:
        return *at;
    case 2:
        memcpy(&half, at, sizeof half);
        return half;
    case 4:
        memcpy(&single, at, sizeof single);
        return single;
    default:
        memcpy(&word, at, sizeof word);
        return word;
    }
}

#endif
