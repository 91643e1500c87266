/* Whether texts differ: few by comparing all pairs, more in their order. A hash table would be quicker, but whoever
 * chooses the texts could make all of them meet in one place. */
#include "bytes/distinct.h"
#include "bytes/bytes.h"

enum { FEW = 16 };

/* Below, equal to or above 0: by length, then by bytes. */
static inline int compared(const int32_t *ends, const uint8_t *data, int64_t one, int64_t other) {
    int32_t length = ends[one + 1] - ends[one], its = ends[other + 1] - ends[other];
    return length != its ? (length < its ? -1 : 1) : memcmp(data + ends[one], data + ends[other], (size_t)length);
}

/* Puts two runs of texts in order together; 0 if a text of the one is in the other too. */
static int merged(const int32_t *ends, const uint8_t *data, const int32_t *low, const int32_t *middle,
                  const int32_t *high, int32_t *out) {
    const int32_t *one = low, *other = middle;
    while (one < middle && other < high) {
        int order = compared(ends, data, *one, *other);
        if (order == 0) {
            return 0;
        }
        *out++ = order < 0 ? *one++ : *other++;
    }
    memcpy(out, one, (size_t)(middle - one) * sizeof *out);
    memcpy(out + (middle - one), other, (size_t)(high - other) * sizeof *out);
    return 1;
}

int sh_are_different(const int32_t *ends, const uint8_t *data, int64_t low, int64_t high, int32_t *numbers) {
    int64_t count = high - low;
    if (count <= FEW) {
        for (int64_t i = low + 1; i < high; i++) {
            for (int64_t k = low; k < i; k++) {
                if (compared(ends, data, i, k) == 0) {
                    return 0;
                }
            }
        }
        return 1;
    }
    int32_t *from = numbers, *to = numbers + count;
    for (int64_t i = 0; i < count; i++) {
        from[i] = (int32_t)(low + i);
    }
    for (int64_t run = 1; run < count; run *= 2) {
        for (int64_t begin = 0; begin < count; begin += 2 * run) {
            int64_t middle = begin + run < count ? begin + run : count;
            int64_t stop = middle + run < count ? middle + run : count;
            if (!merged(ends, data, from + begin, from + middle, from + stop, to + begin)) {
                return 0;
            }
        }
        int32_t *sorted = to;
        to = from;
        from = sorted;
    }
    return 1;
}
