/* What the loop of fuzz.c and its targets ask of each other. */
#ifndef SPARKHAVEN_FUZZ_H
#define SPARKHAVEN_FUZZ_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

extern uint64_t fuzz_powers[]; /* powers.c, which run.py writes */
extern const char *const fuzz_pieces[];
extern const size_t fuzz_piece_count;

/* Memory of exactly this size, so that the address sanitizer sees each byte too many. */
static inline void *made(size_t size) {
    void *found = calloc(size ? size : 1, 1);
    if (found == NULL) {
        abort();
    }
    return found;
}

#endif
