/* Arrays of numbers, Booleans and characters, each a JSON text, to one column of all their elements. */
#include "scan/elements.h"

/* The array at p, which ends at `end`. *used elements are taken, and those of it are added. 0 if in doubt. */
static int take_list(const struct sh_scan *scan, const uint8_t *p, const uint8_t *end, int64_t room, int64_t *used) {
    if (p >= end || *p != '[') {
        return 0;
    }
    p = sh_blanks(p + 1, end);
    if (p < end && *p == ']') {
        return p + 1 == end;
    }
    while (*used < room) {
        if (p < end && *p == 'n' && scan->columns->kind == SH_BOOLEAN) {
            return 0; /* has no null */
        }
        p = sh_plain_element(scan, *used, p, end);
        if (p == NULL) {
            return 0;
        }
        ++*used;
        p = sh_blanks(p, end);
        if (p >= end || *p != ',') {
            return p < end && *p == ']' && p + 1 == end;
        }
        p = sh_blanks(p + 1, end);
    }
    return 0;
}

/* Text i is data[ends[i]] to data[ends[i + 1]] where wanted[i] is 1. Its elements go into the only column, which has `room`
 * places; list_ends gets 0 and then the end of each array. doubt[i] is 1 for a text
 * that is not taken, else 0; neither it nor one that is not wanted has elements. Returns how many elements there are. */
int64_t sh_number_lists(struct sh_scan *scan, const uint8_t *data, const int32_t *ends, const uint8_t *wanted,
                        int64_t count, int64_t room, int32_t *list_ends, uint8_t *doubt) {
    int64_t used = 0;
    list_ends[0] = 0;
    for (int64_t i = 0; i < count; i++) {
        int64_t start = used;
        doubt[i] = wanted[i] && !take_list(scan, data + ends[i], data + ends[i + 1], room, &used);
        if (doubt[i]) {
            sh_drop_elements(scan, start, used);
            used = start;
        }
        list_ends[i + 1] = (int32_t)used;
    }
    return used;
}
