/* Times of the day: hour, minute in 6 bits, second in 6, and a fraction of so many digits. Null is 80, then zeros. */
#include "bytes/dispatch.h"
#include "codings/codings.h"
#include "codings/entries.h"

static const uint64_t SECOND = 1000000000, DAY = UINT64_C(86400) * 1000000000;

INLINE int64_t encode(const uint64_t *times, const uint8_t *valid, int64_t first, int64_t count, int width, int bits,
                      uint64_t unit, uint8_t *out) {
    const uint8_t *end = out + count * width;
    const uint64_t null = UINT64_C(0x80) << (BITS * (width - 1));
    int bad = 0;
    for (int64_t i = 0; i < count; i++, out += width) {
        int there = is_valid(valid, first + i);
        uint64_t time = there ? times[i] : 0;
        uint64_t second = time / SECOND, below = time - second * SECOND, fraction = below / unit;
        bad |= time >= DAY || fraction * unit != below;
        uint32_t seconds = (uint32_t)second, minutes = seconds / 60, hour = minutes / 60;
        uint64_t clock = hour << 12 | (minutes - hour * 60) << 6 | (seconds - minutes * 60);
        put_big(out, end, there ? clock << bits | fraction : null, width);
    }
    return bad ? -1 : 1;
}

int64_t sh_encode_times(const void *times, const uint8_t *valid, int64_t first, int64_t count, int64_t width,
                        int64_t digits, uint8_t *out) {
    (void)width;
    switch (digits) {
    case 0:
        return encode(times, valid, first, count, 3, 0, 1000000000, out);
    case 3:
        return encode(times, valid, first, count, 4, 10, 1000000, out);
    case 6:
        return encode(times, valid, first, count, 5, 20, 1000, out);
    default:
        return encode(times, valid, first, count, 6, 30, 1, out);
    }
}

/* The product of numbers that both fit in 32 bits. */
INLINE uint64_t product(uint64_t a, uint64_t b) { return (uint64_t)(uint32_t)a * (uint32_t)b; }

INLINE int64_t decode(const uint8_t *entries, int64_t count, int width, int bits, uint32_t unit, uint64_t *times,
                      uint8_t *valid) {
    const uint8_t *end = entries + count * width;
    const uint64_t null = UINT64_C(0x80) << (BITS * (width - 1));
    int64_t nulls = 0;
    uint64_t bad = 0;
    for (int64_t row = 0; row < count; row += BLOCK) {
        uint64_t time[BLOCK] = {0};
        int64_t rows = count - row < BLOCK ? count - row : BLOCK;
        uint64_t there = 0;
        for (int64_t i = 0; i < rows; i++, entries += width) {
            uint64_t entry = big_at(entries, end, width), none = entry == null;
            time[i] = none ? 0 : entry;
            there |= (uint64_t)!none << i;
        }
        for (int i = 0; i < BLOCK; i++) {
            uint64_t fraction = product(time[i] & ((UINT64_C(1) << bits) - 1), unit), clock = time[i] >> bits;
            uint64_t second = clock & 63, minute = clock >> 6 & 63, hour = clock >> 12;
            bad |= (hour > 23) | (minute > 59) | (second > 59) | (fraction >= SECOND);
            time[i] = product(product(hour, 3600) + product(minute, 60) + second, SECOND) + fraction;
        }
        memcpy(times + row, time, sizeof *time * (size_t)rows);
        nulls += put_valid(valid, row, rows, there);
    }
    return bad ? -1 : nulls;
}

INLINE int64_t decode_times(const uint8_t *entries, int64_t count, int64_t width, int64_t digits, void *times,
                            uint8_t *valid) {
    (void)width;
    switch (digits) {
    case 0:
        return decode(entries, count, 3, 0, 1000000000, times, valid);
    case 3:
        return decode(entries, count, 4, 10, 1000000, times, valid);
    case 6:
        return decode(entries, count, 5, 20, 1000, times, valid);
    default:
        return decode(entries, count, 6, 30, 1, times, valid);
    }
}

DISPATCHED(sh_decode_times, decode_times,
           (const uint8_t *entries, int64_t count, int64_t width, int64_t digits, void *times, uint8_t *valid),
           (entries, count, width, digits, times, valid))
