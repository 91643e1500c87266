/* Texts that lie anywhere in memory: fetched while others are copied. */
#ifndef SPARKHAVEN_SPANS_H
#define SPARKHAVEN_SPANS_H

#include "bytes/bytes.h"

/* Where a text lies, and how many bytes can be read from there on. */
struct span {
    const uint8_t *text;
    int64_t length, left;
};

/* Fetches the first two lines. */
static inline void fetch(const struct span *found) {
    enum { LINE = 64 };
    const int64_t before = (int64_t)((uintptr_t)found->text % LINE);
    __builtin_prefetch(found->text);
    if (before + found->length > LINE) {
        __builtin_prefetch(found->text + (LINE - before));
    }
}

/* Copies in steps of a known length, if both sides have room for them: what is too much is written over later. */
static inline void copy(uint8_t *to, const struct span *from, int64_t room) {
    enum { SHORT = 64 };
    int64_t left = from->left < room ? from->left : room;
    if (from->length > SHORT || left < (from->length + 15) / 16 * 16) {
        if (from->length > 0) {
            memcpy(to, from->text, (size_t)from->length);
        }
        return;
    }
    for (int64_t at = 0; at < from->length; at += 16) {
        memcpy(to + at, from->text + at, 16);
    }
}

#endif
