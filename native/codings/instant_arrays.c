/* Arrays of instants as Java streams: a head, the number of elements in four bytes, and the elements. An element is 70
 * for null, or a front and 16 bytes: 77 0D 02, seconds since 1970 in eight bytes, nanoseconds in four, 78. The front of
 * the first in a stream has the description of its class, later ones refer to it. */
#include "codings/codings.h"
#include "codings/entries.h"
#include "codings/lists.h"

enum { HEAD = 41, COUNT = 4, FIRST = 30, LATER = 6, START = 3, SECONDS = 8, BELOW = 4, VALUE = 16 };
enum { FRONT = HEAD + COUNT, NONE = 0x70, STOP = 0x78 };

static const int64_t SECOND = 1000000000;
static const uint8_t VALUE_START[START] = {0x77, 0x0D, 0x02};

static inline uint8_t *put_element(uint8_t *p, const char *front, int64_t length, int64_t instant) {
    int64_t second = instant / SECOND, below = instant % SECOND;
    second -= below < 0;
    below += below < 0 ? SECOND : 0;
    uint64_t seconds = __builtin_bswap64((uint64_t)second);
    uint32_t nanoseconds = __builtin_bswap32((uint32_t)below);
    memcpy(p, front, (size_t)length);
    p += length;
    memcpy(p, VALUE_START, START);
    memcpy(p + START, &seconds, SECONDS);
    memcpy(p + START + SECONDS, &nanoseconds, BELOW);
    p[VALUE - 1] = STOP;
    return p + VALUE;
}

int64_t sh_encode_instants(const int32_t *starts, const uint8_t *valid, int64_t first, int64_t count,
                           const int64_t *elements, const uint8_t *valid_elements, int64_t first_element, int64_t total,
                           const char *fronts, int64_t *ends, uint8_t *out, int64_t room) {
    uint8_t *p = out;
    for (int64_t i = 0; i < count; i++) {
        if (is_valid(valid, first + i)) {
            int64_t low = starts[i], high = starts[i + 1], length = high - low, known = 0;
            if (!is_range(low, high, total) || FRONT + length * (LATER + VALUE) + FIRST - LATER > room - (p - out)) {
                return -1;
            }
            uint32_t stored = __builtin_bswap32((uint32_t)length);
            memcpy(p, fronts, HEAD);
            memcpy(p + HEAD, &stored, COUNT);
            p += FRONT;
            for (int64_t k = low; k < high; k++) {
                if (!is_valid(valid_elements, first_element + k)) {
                    *p++ = NONE;
                } else if (elements[k] == INT64_MIN) {
                    return -1;
                } else if (known++ == 0) {
                    p = put_element(p, fronts + HEAD, FIRST, elements[k]);
                } else {
                    p = put_element(p, fronts + HEAD + FIRST, LATER, elements[k]);
                }
            }
        }
        ends[i] = p - out;
    }
    return p - out;
}

int64_t sh_instant_lengths(const int64_t *ends, int64_t count, const uint8_t *data, int64_t bytes, const char *fronts,
                           int32_t *starts, uint8_t *valid) {
    struct list_form form = {fronts, HEAD, 1, 0};
    return list_starts(ends, count, data, bytes, form, starts, valid);
}

/* The instant at p, behind a front of so many bytes; INT64_MIN in doubt. The last second of the range is. */
static inline int64_t instant_at(const uint8_t *p, const uint8_t *stop, const char *front, int64_t length) {
    static const int64_t MOST = INT64_MAX / 1000000000 - 1;
    uint64_t seconds;
    uint32_t nanoseconds;
    if (stop - p < length + VALUE || memcmp(p, front, (size_t)length) != 0) {
        return INT64_MIN;
    }
    p += length;
    memcpy(&seconds, p + START, SECONDS);
    memcpy(&nanoseconds, p + START + SECONDS, BELOW);
    int64_t second = (int64_t)__builtin_bswap64(seconds), below = __builtin_bswap32(nanoseconds);
    int plain = memcmp(p, VALUE_START, START) == 0 && p[VALUE - 1] == STOP;
    return plain && second > -MOST && second < MOST && below < SECOND ? second * SECOND + below : INT64_MIN;
}

int64_t sh_decode_instants(const int64_t *ends, const int32_t *starts, int64_t count, const uint8_t *data,
                           const char *fronts, int64_t *elements, uint8_t *valid) {
    int64_t k = 0, nulls = 0;
    memset(valid, 0, (size_t)((starts[count] + 7) / 8));
    for (int64_t i = 0; i < count; i++) {
        const uint8_t *p = data + ends[i], *stop = data + ends[i + 1];
        p += stop > p ? FRONT : 0;
        for (int known = 0; k < starts[i + 1]; k++) {
            if (p < stop && *p == NONE) {
                elements[k] = 0;
                nulls++;
                p++;
                continue;
            }
            elements[k] =
                known ? instant_at(p, stop, fronts + HEAD + FIRST, LATER) : instant_at(p, stop, fronts + HEAD, FIRST);
            if (elements[k] == INT64_MIN) {
                return -1;
            }
            set_valid(valid, k);
            p += (known ? LATER : FIRST) + VALUE;
            known = 1;
        }
        if (p != stop) {
            return -1;
        }
    }
    return nulls;
}
