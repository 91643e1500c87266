/* Where lines end. */
#include "scan/scan.h"

#ifdef __SSE2__
#include <emmintrin.h>
#endif

/* Writes where each line begins that a line feed precedes, at most `room` of them; returns how many there are.
 * size is below 2^31. */
int64_t sh_line_ends(const uint8_t *data, int64_t size, int32_t *ends, int64_t room) {
    int64_t found = 0, i = 0;
#ifdef __SSE2__
    const __m128i feed = _mm_set1_epi8('\n');
    for (; i + 64 <= size; i += 64) {
        const __m128i *at = (const __m128i *)(const void *)(data + i);
        uint64_t mask = 0;
        for (int k = 0; k < 4; k++) {
            uint64_t part = (uint32_t)_mm_movemask_epi8(_mm_cmpeq_epi8(_mm_loadu_si128(at + k), feed));
            mask |= part << (16 * k);
        }
        while (mask) {
            if (found < room) {
                ends[found] = (int32_t)(i + __builtin_ctzll(mask) + 1);
            }
            found++;
            mask &= mask - 1;
        }
    }
#endif
    for (; i < size; i++) {
        if (data[i] == '\n') {
            if (found < room) {
                ends[found] = (int32_t)(i + 1);
            }
            found++;
        }
    }
    return found;
}
