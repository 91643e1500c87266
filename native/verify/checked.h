/* What the functions that look at the files of a column share: made for each kind of machine, and asking ahead. */
#ifndef SPARKHAVEN_CHECKED_H
#define SPARKHAVEN_CHECKED_H

#include "scan/parts.h"
#include "bytes/processor.h"

enum {
    STEP = 1 << 9,  /* bytes that are looked at between two requests */
    AHEAD = 1 << 13 /* how far these are in front */
};

#define INLINE static inline __attribute__((always_inline))

/* A function, made for every machine, and for those that compare 32 or 64 bytes at once. */
#ifdef __x86_64__
#define EITHER(name, made, parameters, arguments)                                                                      \
    __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl"))) static int64_t name##_64 parameters {                \
        return made arguments;                                                                                         \
    }                                                                                                                  \
    __attribute__((target("avx2"))) static int64_t name##_32 parameters { return made arguments; }                     \
    int64_t name parameters {                                                                                          \
        return sh_compared == 64 ? name##_64 arguments : sh_compared == 32 ? name##_32 arguments : made arguments;             \
    }
#else
#define EITHER(name, made, parameters, arguments)                                                                      \
    int64_t name parameters { return made arguments; }
#endif

/* checked.c, text_bounds.c: what is described there. */
int64_t sh_within(int64_t kind, const void *entries, int64_t count, const void *bounds, int64_t *found);
int64_t sh_texts_within(const int32_t *ends, int64_t count, const uint8_t *data, int64_t size, const uint8_t *low,
                        int64_t low_length, const uint8_t *high, int64_t high_length);

/* Asks for bytes that are looked at soon; where there are none, nothing happens. The processor by itself does not ask
 * beyond the page that it is at. */
INLINE void ahead(const uint8_t *p, int64_t size) {
    for (int64_t i = 0; i < size; i += 64) {
        __builtin_prefetch((const void *)((uintptr_t)p + AHEAD + (uintptr_t)i), 0, 2);
    }
}

#endif
