/* What the functions that look at the files of a column share: made for two kinds of machine, and asking ahead. */
#ifndef SPARKHAVEN_CHECKED_H
#define SPARKHAVEN_CHECKED_H

#include "parts.h"

enum {
    STEP = 1 << 9,  /* bytes that are looked at between two requests */
    AHEAD = 1 << 13 /* how far these are in front */
};

#define INLINE static inline __attribute__((always_inline))

/* A function, made twice: for every machine, and for those that compare 32 bytes at once. */
#ifdef __x86_64__
extern int sh_has_avx2; /* checked.c */

#define EITHER(name, made, parameters, arguments)                                                                      \
    __attribute__((target("avx2"))) static int64_t name##_avx2 parameters { return made arguments; }                   \
    int64_t name parameters { return sh_has_avx2 ? name##_avx2 arguments : made arguments; }
#else
#define EITHER(name, made, parameters, arguments)                                                                      \
    int64_t name parameters { return made arguments; }
#endif

/* Asks for bytes that are looked at soon; where there are none, nothing happens. The processor by itself does not ask
 * beyond the page that it is at. */
INLINE void ahead(const uint8_t *p, int64_t size) {
    for (int64_t i = 0; i < size; i += 64) {
        __builtin_prefetch((const void *)((uintptr_t)p + AHEAD + (uintptr_t)i), 0, 2);
    }
}

#endif
