/* Days of the Gregorian calendar of all times: year << 9 | month << 5 | day. Null is FF, then zeros.
 *
 * Years begin in March, so that the day that some of them have more is their last, and 400 years earlier, so that none
 * is negative. */
#include "bytes/dispatch.h"
#include "codings/codings.h"
#include "codings/entries.h"

enum { FIRST_DAY = -719528, LAST_DAY = 2932896, SHIFT = 719468 + 146097, YEARS = 10000, EPOCH = (1970 << 9) + 33 };

static const uint64_t FULL = UINT64_C(999999999) << 9; /* what entries of 5 bytes have more */

INLINE uint32_t packed_of(int32_t day) {
    uint32_t days = (uint32_t)(day + SHIFT);
    uint32_t century = (4 * days + 3) / 146097, of_century = days - century * 146097 / 4;
    uint32_t of_years = (4 * of_century + 3) / 1461, of_year = of_century - of_years * 1461 / 4;
    uint32_t index = (5 * of_year + 2) / 153, day_of_month = of_year - (153 * index + 2) / 5 + 1;
    uint32_t next = index >= 10, month = index + 3 - 12 * next;
    return ((century * 100 + of_years + next - 400) << 9) + (month << 5) + day_of_month;
}

INLINE int64_t encode(const int32_t *days, const uint8_t *valid, int64_t first, int64_t count, int width,
                      uint8_t *out) {
    const uint8_t *end = out + count * width;
    const uint64_t null = UINT64_C(0xFF) << (BITS * (width - 1)), base = width == 3 ? 0 : FULL;
    uint32_t bad = 0;
    for (int64_t row = 0; row < count; row += BLOCK) {
        int32_t day[BLOCK] = {0};
        uint32_t packed[BLOCK];
        int64_t rows = count - row < BLOCK ? count - row : BLOCK;
        memcpy(day, days + row, sizeof *day * (size_t)rows);
        uint64_t there = valid_bits(valid, first + row, rows);
        for (int i = 0; there != ~UINT64_C(0) && i < BLOCK; i++) {
            day[i] = there >> i & 1 ? day[i] : 0;
        }
        for (int i = 0; i < BLOCK; i++) {
            uint32_t inside = day[i] >= FIRST_DAY && day[i] <= LAST_DAY;
            bad |= !inside;
            packed[i] = packed_of(inside ? day[i] : 0);
        }
        for (int64_t i = 0; i < rows; i++, out += width) {
            put_big(out, end, there >> i & 1 ? packed[i] + base : null, width);
        }
    }
    return bad ? -1 : 1;
}

INLINE int64_t encode_dates(const int32_t *days, const uint8_t *valid, int64_t first, int64_t count, int64_t width,
                            int64_t unused, uint8_t *out) {
    (void)unused;
    return width == 3 ? encode(days, valid, first, count, 3, out) : encode(days, valid, first, count, 5, out);
}

DISPATCHED(sh_encode_dates, encode_dates,
           (const void *days, const uint8_t *valid, int64_t first, int64_t count, int64_t width, int64_t unused,
            uint8_t *out),
           (days, valid, first, count, width, unused, out))

/* Days since 1970; *bad is set where there is no such day. */
INLINE int32_t day_of(uint32_t packed, uint32_t *bad) {
    uint32_t year = packed >> 9, month = packed >> 5 & 15, day = packed & 31, early = month <= 2;
    uint32_t common = (year & 3) != 0 || (year - year / 100 * 100 == 0 && (year & 15) != 0);
    uint32_t length = month == 2 ? 29 - common : 30 + ((month + (month >> 3)) & 1);
    *bad |= packed >= YEARS << 9 || month - 1 >= 12 || day - 1 >= length;
    uint32_t years = year + 400 - early, centuries = years / 100, before = (153 * (month + 12 * early - 3) + 2) / 5;
    return (int32_t)(years * 365 + years / 4 - centuries + centuries / 4 + before + day - 1) - SHIFT;
}

INLINE int64_t decode(const uint8_t *entries, int64_t count, int width, int32_t *days, uint8_t *valid) {
    const uint8_t *end = entries + count * width;
    const uint64_t null = UINT64_C(0xFF) << (BITS * (width - 1)), base = width == 3 ? 0 : FULL;
    int64_t nulls = 0;
    uint32_t bad = 0;
    for (int64_t row = 0; row < count; row += BLOCK) {
        uint32_t packed[BLOCK];
        int32_t day[BLOCK];
        int64_t rows = count - row < BLOCK ? count - row : BLOCK;
        uint64_t there = 0;
        for (int64_t i = 0; i < BLOCK; i++) {
            packed[i] = EPOCH;
        }
        for (int64_t i = 0; i < rows; i++, entries += width) {
            uint64_t entry = big_at(entries, end, width), number = entry - base;
            uint64_t none = entry == null;
            packed[i] = none ? EPOCH : number > UINT32_MAX ? UINT32_MAX : (uint32_t)number;
            there |= (uint64_t)!none << i;
        }
        for (int i = 0; i < BLOCK; i++) {
            day[i] = day_of(packed[i], &bad);
        }
        memcpy(days + row, day, sizeof *day * (size_t)rows);
        nulls += put_valid(valid, row, rows, there);
    }
    return bad ? -1 : nulls;
}

INLINE int64_t decode_dates(const uint8_t *entries, int64_t count, int64_t width, int64_t unused, int32_t *days,
                            uint8_t *valid) {
    (void)unused;
    return width == 3 ? decode(entries, count, 3, days, valid) : decode(entries, count, 5, days, valid);
}

DISPATCHED(sh_decode_dates, decode_dates,
           (const uint8_t *entries, int64_t count, int64_t width, int64_t unused, void *days, uint8_t *valid),
           (entries, count, width, unused, days, valid))
