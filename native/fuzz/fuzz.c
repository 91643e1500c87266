/* Feeds a part of the core with mutated input; json_target.c and the others say which, and what it is made of.
 *
 * With clang, libFuzzer calls LLVMFuzzerTestOneInput: -fsanitize=fuzzer -DSH_LIBFUZZER. Without it main has a loop of
 * its own: gcc's -fsanitize-coverage=trace-pc calls __sanitizer_cov_trace_pc at each branch, and an input that passes a
 * pair of branches for the first time is kept and mutated further. What ends the process shows its input. */
#include <sanitizer/common_interface_defs.h>
#include <stdio.h>
#include <stdlib.h>

#include "fuzz/fuzz.h"

enum { KEPT = 4096, LARGEST = 2048, REPORT = 1000000 };

#ifndef SH_LIBFUZZER
static uint8_t seen[1 << 16], fresh;
static uint64_t before, state = 88172645463325252u;

__attribute__((no_sanitize_address, no_sanitize_undefined)) NOT_WATCHED void __sanitizer_cov_trace_pc(void) {
    uint64_t here = (uint64_t)__builtin_return_address(0);
    uint64_t pair = (here ^ before * 3) * UINT64_C(0x9E3779B97F4A7C15) >> 48;
    before = here;
    if (!seen[pair]) {
        seen[pair] = fresh = 1;
    }
}

NOT_WATCHED static uint64_t chance(uint64_t below) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state % below;
}

/* The input that is tried, for what is written when it ends the process. */
static _Alignas(8) uint8_t work[2 * LARGEST];
static size_t size;
static long round;

NOT_WATCHED static void show_input(void) {
    fprintf(stderr, "input %ld, %zu bytes: ", round + 1, size);
    for (size_t i = 0; i < size; i++) {
        fprintf(stderr, "%02x", work[i]);
    }
    fputc('\n', stderr);
}

NOT_WATCHED const char *__asan_default_options(void) { return "handle_abort=1"; } /* abort() shows the stack too */

NOT_WATCHED int main(int count, char **words) {
    static uint8_t *corpus[KEPT];
    static size_t sizes[KEPT];
    __sanitizer_set_death_callback(show_input);
    long rounds = count > 1 ? atol(words[1]) : 100000;
    state ^= count > 2 ? (uint64_t)atol(words[2]) * 2654435761u : 0;
    size_t kept = 0;
    for (round = 0; round < rounds; round++) {
        size = 0;
        if (kept > 0 && chance(20)) {
            size_t from = chance(kept);
            size = sizes[from];
            memcpy(work, corpus[from], size);
        }
        for (uint64_t change = 1 + chance(chance(16) ? 4 : 64); change > 0; change--) {
            const char *piece = fuzz_pieces[chance(fuzz_piece_count)];
            size_t length = strlen(piece), at = chance(size + 1);
            uint64_t kind = chance(4);
            if (kind == 0 && size > 0) {
                work[chance(size)] = (uint8_t)chance(256);
            } else if (kind == 1 && size > 0) {
                size_t gone = chance(size - at + 1);
                memmove(work + at, work + at + gone, size - at - gone);
                size -= gone;
            } else if (size + length <= LARGEST) {
                memmove(work + at + length, work + at, size - at);
                memcpy(work + at, piece, length);
                size += length;
            }
        }
        fresh = 0;
        ASAN_POISON_MEMORY_REGION(work + size, sizeof work - size); /* what a target reads behind its input is seen */
        LLVMFuzzerTestOneInput(work, size);
        ASAN_UNPOISON_MEMORY_REGION(work, sizeof work);
        if (fresh && kept < KEPT) {
            corpus[kept] = malloc(size ? size : 1);
            memcpy(corpus[kept], work, size);
            sizes[kept++] = size;
        }
        if ((round + 1) % REPORT == 0) {
            fprintf(stderr, "%ld of %ld inputs\n", round + 1, rounds);
        }
    }
    printf("%ld inputs, %zu of them reached something new\n", rounds, kept);
    return 0;
}
#endif
