/* What the loop of fuzz.c and its targets ask of each other. */
#ifndef SPARKHAVEN_FUZZ_H
#define SPARKHAVEN_FUZZ_H

#include <sanitizer/asan_interface.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

extern uint64_t fuzz_powers[]; /* powers.c, which run.py writes */
extern const char *const fuzz_pieces[];
extern const size_t fuzz_piece_count;

/* Branches of such a function guide nothing. */
#if defined(__clang__)
#define NOT_WATCHED __attribute__((no_sanitize("coverage")))
#else
#define NOT_WATCHED __attribute__((no_sanitize_coverage))
#endif

/* Ends the process, and says which line expected what. */
#define HOLDS(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, #condition);                             \
            abort();                                                                                                   \
        }                                                                                                              \
    } while (0)

/* Memory of exactly this size, so that the address sanitizer sees each byte too many; also where it is none. */
static inline void *made(size_t size) {
    void *found = calloc(size ? size : 1, 1);
    HOLDS(found != NULL);
    if (size == 0) {
        ASAN_POISON_MEMORY_REGION(found, 1);
    }
    return found;
}

/* CRC-32 bit by bit. */
NOT_WATCHED static inline uint32_t slow_crc(const void *data, int64_t size, uint32_t crc) {
    crc = ~crc;
    for (const uint8_t *p = data, *end = p + size; p < end; p++) {
        crc ^= *p;
        for (int bit = 0; bit < 8; bit++) {
            crc = crc >> 1 ^ ((crc & 1) != 0 ? UINT32_C(0xEDB88320) : 0);
        }
    }
    return ~crc;
}

#endif
