/* Functions made for several widths of registers: the processor that the library runs on chooses. */
#ifndef SPARKHAVEN_DISPATCH_H
#define SPARKHAVEN_DISPATCH_H

#include "bytes/processor.h"

#define INLINE static inline __attribute__((always_inline))

/* The function `name`, made from the INLINE one `made`: for every machine, and for those that compare 32 or 64 bytes at
 * once. DISPATCHED(sh_size, size, (const uint8_t *p, int64_t n), (p, n)) is, on x86_64:
 *
 *     __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl")))
 *     static int64_t sh_size_64(const uint8_t *p, int64_t n) { return size(p, n); }
 *     __attribute__((target("avx2")))
 *     static int64_t sh_size_32(const uint8_t *p, int64_t n) { return size(p, n); }
 *     int64_t sh_size(const uint8_t *p, int64_t n) {
 *         return sh_compared == 64 ? sh_size_64(p, n) : sh_compared == 32 ? sh_size_32(p, n) : size(p, n);
 *     }
 */
#ifdef __x86_64__
#define DISPATCHED(name, made, parameters, arguments)                                                                  \
    __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl"))) static int64_t name##_64 parameters {                \
        return made arguments;                                                                                         \
    }                                                                                                                  \
    __attribute__((target("avx2"))) static int64_t name##_32 parameters { return made arguments; }                     \
    int64_t name parameters {                                                                                          \
        return sh_compared == 64 ? name##_64 arguments : sh_compared == 32 ? name##_32 arguments : made arguments;     \
    }
#else
#define DISPATCHED(name, made, parameters, arguments)                                                                  \
    int64_t name parameters { return made arguments; }
#endif

#endif
