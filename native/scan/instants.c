/* ISO times, `2013-01-01T05:00:00.123456789+01:00`, to nanoseconds since 1970; years 1700 to 2199. */
#include "scan/instants.h"
#include "bytes/bytes.h"

static const int64_t FRACTIONS[] = {1000000000, 100000000, 10000000, 1000000, 100000, 10000, 1000, 100, 10, 1};

static const int64_t SECOND = 1000000000, DAY = 86400 * INT64_C(1000000000);

enum { FIRST_DAY = -98615, LAST_DAY = 84005 }; /* 1700-01-01 and 2199-12-31 */

/* Texts of eight bytes: a byte of `form` is 0 where there has to be a digit. `room` is 7F less the largest byte of the
 * text xor `form`. */
static const uint64_t DATE_FORM = UINT64_C(0x2D30302D30303030), DATE_ROOM = UINT64_C(0x7F76767F76767676);
static const uint64_t CLOCK_FORM = UINT64_C(0x30303A30303A3030), CLOCK_ROOM = UINT64_C(0x76767F76767F7676);

/* Two digits of a word as a number, in the byte of the first of them; whether the word is of the form goes to *formed.
 */
static inline uint64_t pairs_of(uint64_t word, uint64_t form, uint64_t room, int *formed) {
    word ^= form;
    *formed = ((((word & UINT64_C(0x7F7F7F7F7F7F7F7F)) + room) | word) & UINT64_C(0x8080808080808080)) == 0;
    return word * 10 + (word >> 8);
}

static inline int64_t pair_at(uint64_t pairs, int byte) { return (int64_t)(pairs >> (8 * byte) & 0xFF); }

/* Days since 1970-01-01 of the bytes `0001-01-` and `01` of a date, INT64_MIN if in doubt. */
static int64_t day_of(uint64_t word, const uint8_t *rest) {
    static const int16_t BEFORE[2][13] = {{0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334, 365},
                                          {0, 31, 60, 91, 121, 152, 182, 213, 244, 274, 305, 335, 366}};
    int formed;
    uint64_t pairs = pairs_of(word, DATE_FORM, DATE_ROOM, &formed);
    int64_t century = pair_at(pairs, 0), of_century = pair_at(pairs, 2), month = pair_at(pairs, 5);
    int64_t day = two_digits(rest);
    if (!formed || century + of_century == 0 || month < 1 || month > 12) {
        return INT64_MIN;
    }
    int64_t leap = (of_century == 0 ? century : of_century) % 4 == 0, years = century * 100 + of_century - 1;
    const int16_t *before = BEFORE[leap] + month - 1;
    if (day < 1 || day > before[1] - before[0]) {
        return INT64_MIN;
    }
    century -= of_century == 0; /* centuries of the years before */
    return years * 365 + years / 4 - century + century / 4 + before[0] + day - 719163;
}

int64_t sh_day(struct sh_scan *scan, const uint8_t *p) {
    int64_t text;
    uint16_t rest;
    memcpy(&text, p, 8);
    memcpy(&rest, p + 8, 2);
    if (text == scan->date_text && rest == scan->date_rest) {
        return scan->date_day;
    }
    int64_t day = day_of((uint64_t)text, p + 8);
    if (day != SH_NO_INSTANT) {
        scan->date_text = text;
        scan->date_rest = rest;
        scan->date_day = day;
    }
    return day;
}

/* The digits behind the point at p, up to nine, in ns; what follows them goes to *p. SH_NO_INSTANT if there is none. */
static inline int64_t fraction_at(const uint8_t **p, const uint8_t *end) {
    uint64_t word = word_at(*p + 1, end);
    int count = digit_count(word);
    *p += 1 + count;
    if (count == 0) {
        return SH_NO_INSTANT;
    }
    int64_t below = (int64_t)digits_value(word, count);
    if (count == 8 && *p < end && **p >= '0' && **p <= '9') {
        return below * 10 + (*(*p)++ - '0');
    }
    return below * FRACTIONS[count];
}

const uint8_t *sh_clock(const uint8_t *p, const uint8_t *end, int64_t *clock) {
    int64_t hour, minute, second = 0, below = 0;
    int formed = 1;
    if (LIKELY(end - p >= 8 && p[5] == ':')) {
        uint64_t pairs = pairs_of(word_at(p, end), CLOCK_FORM, CLOCK_ROOM, &formed);
        hour = pair_at(pairs, 0);
        minute = pair_at(pairs, 3);
        second = pair_at(pairs, 6);
        p += 8;
        if (p < end && *p == '.') {
            below = fraction_at(&p, end);
        }
    } else {
        if (end - p < 5 || p[2] != ':' || (end - p > 5 && p[5] == ':')) {
            return NULL;
        }
        hour = two_digits(p);
        minute = two_digits(p + 3);
        p += 5;
    }
    *clock = ((hour * 60 + minute) * 60 + second) * SECOND + below;
    return formed && hour < 24 && minute < 60 && second < 60 && below != SH_NO_INSTANT ? p : NULL;
}

/* The time of a day at p, whose seconds may be left out, and its minutes: seconds of the day, and ns below. */
static inline const uint8_t *time_at(const uint8_t *p, const uint8_t *end, int64_t *time) {
    if (LIKELY(end - p >= 8 && p[2] == ':' && p[5] == ':')) {
        return sh_clock(p, end, time);
    }
    if (end - p < 2) {
        return NULL;
    }
    int64_t hour = two_digits(p), minute = 0;
    p += 2;
    if (end - p >= 3 && *p == ':') {
        minute = two_digits(p + 1);
        p += 3;
    }
    *time = (hour * 60 + minute) * 60 * SECOND;
    return hour < 24 && minute < 60 ? p : NULL;
}

/* The offset at p, `+01:00`, `+0100`, `+01` or Z, in ns; or none. */
static inline const uint8_t *offset_at(const uint8_t *p, const uint8_t *end, int64_t *offset, int *local) {
    *offset = 0;
    *local = p >= end || (*p != 'Z' && *p != '+' && *p != '-');
    if (*local || *p == 'Z') {
        return p + !*local;
    }
    int behind = *p == '-';
    if (end - p < 3) {
        return NULL;
    }
    int64_t hours = two_digits(p + 1), minutes = 0;
    p += 3;
    if (p < end && (*p == ':' || (*p >= '0' && *p <= '9'))) {
        p += *p == ':';
        minutes = end - p >= 2 ? two_digits(p) : 60;
        p += 2;
    }
    *offset = (hours * 60 + minutes) * 60 * SECOND;
    *offset = behind ? -*offset : *offset;
    return hours < 24 && minutes < 60 ? p : NULL;
}

const uint8_t *sh_put_instant(struct sh_scan *scan, struct sh_column *column, int64_t row, const uint8_t *p,
                              const uint8_t *end) {
    int64_t day = end - p < 10 ? SH_NO_INSTANT : sh_day(scan, p), time = 0, offset = 0;
    int local = 1;
    if (day < FIRST_DAY || day > LAST_DAY) {
        return NULL;
    }
    p += 10;
    if (p < end && (*p == 'T' || *p == ' ')) {
        p = time_at(p + 1, end, &time);
        if (p == NULL) {
            return NULL;
        }
        p = offset_at(p, end, &offset, &local);
    }
    if (p == NULL || (local && column->local == NULL)) {
        return NULL;
    }
    ((int64_t *)column->values)[row] = day * DAY + time - offset;
    if (column->local != NULL) {
        column->local[row] = (uint8_t)local;
    }
    return p;
}
