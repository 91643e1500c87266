/* ISO times, `2013-01-01T05:00:00.123456789+01:00`, to nanoseconds since 1970; years 1700 to 2199. */
#include "scan/instants.h"
#include "bytes/bytes.h"

static const int64_t FRACTIONS[] = {1000000000, 100000000, 10000000, 1000000, 100000, 10000, 1000, 100, 10, 1};

enum { FIRST_DAY = -98615, LAST_DAY = 84005 }; /* 1700-01-01 and 2199-12-31 */

/* Days since 1970-01-01 of the ten bytes of a date, INT64_MIN if in doubt. Years begin in March, so that the day that
 * some of them have more is their last. */
static int64_t day_of(const uint8_t *p) {
    static const int8_t LENGTHS[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    int year = two_digits(p) * 100 + two_digits(p + 2), month = two_digits(p + 5), day = two_digits(p + 8);
    if (p[4] != '-' || p[7] != '-' || year < 1 || year > 9999 || month < 1 || month > 12 || day < 1) {
        return INT64_MIN;
    }
    int leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    if (day > LENGTHS[month - 1] + (leap && month == 2)) {
        return INT64_MIN;
    }
    int64_t years = month > 2 ? year : year - 1, months = month > 2 ? month - 3 : month + 9;
    return years * 365 + years / 4 - years / 100 + years / 400 + (153 * months + 2) / 5 + day - 719469;
}

int64_t sh_day(struct sh_scan *scan, const uint8_t *p) {
    int64_t text;
    uint16_t rest;
    memcpy(&text, p, 8);
    memcpy(&rest, p + 8, 2);
    if (text == scan->date_text && rest == scan->date_rest) {
        return scan->date_day;
    }
    int64_t day = day_of(p);
    if (day != SH_NO_INSTANT) {
        scan->date_text = text;
        scan->date_rest = rest;
        scan->date_day = day;
    }
    return day;
}

/* The digits behind the point at p, up to nine, in ns; what follows them goes to *p. SH_NO_INSTANT if there is none. */
static int64_t fraction_at(const uint8_t **p, const uint8_t *stop) {
    int64_t below = 0;
    int count = 0;
    for ((*p)++; *p < stop && **p >= '0' && **p <= '9' && count < 9; (*p)++, count++) {
        below = below * 10 + (**p - '0');
    }
    return count == 0 ? SH_NO_INSTANT : below * FRACTIONS[count];
}

int64_t sh_clock(const uint8_t *p, const uint8_t *stop) {
    int64_t length = stop - p, below = 0;
    if (length < 5 || p[2] != ':' || (length > 5 && (length < 8 || p[5] != ':'))) {
        return SH_NO_INSTANT;
    }
    int hour = two_digits(p), minute = two_digits(p + 3), second = length > 5 ? two_digits(p + 6) : 0;
    p += length > 5 ? 8 : 5;
    if (p < stop && *p == '.') {
        below = fraction_at(&p, stop);
    }
    if (hour > 23 || minute > 59 || second > 59 || p != stop || below == SH_NO_INSTANT) {
        return SH_NO_INSTANT;
    }
    return ((hour * 60 + minute) * 60 + second) * INT64_C(1000000000) + below;
}

int64_t sh_instant(struct sh_scan *scan, const uint8_t *p, const uint8_t *stop, int *local) {
    int64_t day = stop - p < 10 ? SH_NO_INSTANT : sh_day(scan, p);
    if (day < FIRST_DAY || day > LAST_DAY) {
        return SH_NO_INSTANT;
    }
    int64_t seconds = day * 86400, below = 0;
    p += 10;
    *local = p == stop;
    if (p == stop) {
        return seconds * 1000000000;
    }
    if ((*p != 'T' && *p != ' ') || stop - p < 3) {
        return SH_NO_INSTANT;
    }
    int hour = two_digits(p + 1), minute = 0, second = 0;
    p += 3;
    if (stop - p >= 3 && *p == ':') {
        minute = two_digits(p + 1);
        p += 3;
        if (stop - p >= 3 && *p == ':') {
            second = two_digits(p + 1);
            p += 3;
            if (p < stop && *p == '.') {
                below = fraction_at(&p, stop);
                if (below == SH_NO_INSTANT) {
                    return SH_NO_INSTANT;
                }
            }
        }
    }
    if (hour > 23 || minute > 59 || second > 59) {
        return SH_NO_INSTANT;
    }
    seconds += hour * 3600 + minute * 60 + second;
    *local = p == stop;
    if (p == stop || (stop - p == 1 && *p == 'Z')) {
        return seconds * 1000000000 + below;
    }
    int64_t length = stop - p;
    if ((*p != '+' && *p != '-') || (length != 6 && length != 5 && length != 3) || (length == 6 && p[3] != ':')) {
        return SH_NO_INSTANT;
    }
    int hours = two_digits(p + 1), minutes = length == 3 ? 0 : two_digits(stop - 2);
    if (hours > 23 || minutes > 59) {
        return SH_NO_INSTANT;
    }
    int64_t shift = hours * 3600 + minutes * 60;
    return (seconds - (*p == '-' ? -shift : shift)) * 1000000000 + below;
}
