/* Arrays of texts, each a JSON text, to one column of all their elements. */
#include "bytes/bytes.h"
#include "scan/json_strings.h"
#include "scan/scan.h"
#include "scan/skip.h"

enum { LAST_LEAD = 0xF4 };

/* The elements so far. */
struct elements {
    int64_t used, room;
    int32_t *ends;
    uint8_t *texts, *valid;
};

/* The element at p, a string or null. Returns its end, or NULL: in doubt. */
static const uint8_t *take_element(struct elements *elements, const uint8_t *p, const uint8_t *end) {
    int64_t begin = elements->ends[elements->used], length = 0;
    int escaped = 0, there = p < end && *p == '"';
    if (there) {
        const uint8_t *stop = sh_string(p + 1, end, LAST_LEAD, &escaped);
        if (stop == NULL) {
            return NULL;
        }
        length = stop - p - 1;
        if (escaped) {
            length = sh_unescape(p + 1, stop, LAST_LEAD, elements->texts + begin);
            if (length < 0) {
                return NULL;
            }
        } else {
            memcpy(elements->texts + begin, p + 1, (size_t)length);
        }
        p = stop + 1;
    } else {
        p = sh_word(p, end, "null", 4);
        if (p == NULL) {
            return NULL;
        }
    }
    elements->valid[elements->used++] = (uint8_t)there;
    elements->ends[elements->used] = (int32_t)(begin + length);
    return p;
}

/* The array at p, which ends at `end`; 0 if in doubt. */
static int take_list(struct elements *elements, const uint8_t *p, const uint8_t *end) {
    if (p >= end || *p != '[') {
        return 0;
    }
    p = sh_blanks(p + 1, end);
    if (p < end && *p == ']') {
        return p + 1 == end;
    }
    while (elements->used < elements->room) {
        p = take_element(elements, p, end);
        if (p == NULL) {
            return 0;
        }
        p = sh_blanks(p, end);
        if (p >= end || *p != ',') {
            return p < end && *p == ']' && p + 1 == end;
        }
        p = sh_blanks(p + 1, end);
    }
    return 0;
}

/* Text i is data[ends[i]] to data[ends[i + 1]] where wanted[i] is 1. `text_ends` gets 0 and the end of each element in
 * `texts`, which has room for all of the data; of the others there is room for `room` elements. list_ends and doubt are
 * as of sh_number_lists. Returns how many elements there are. */
int64_t sh_text_lists(const uint8_t *data, const int32_t *ends, const uint8_t *wanted, int64_t count, int64_t room,
                      int32_t *list_ends, int32_t *text_ends, uint8_t *texts, uint8_t *valid, uint8_t *doubt) {
    struct elements elements = {0, room, text_ends, texts, valid};
    list_ends[0] = 0;
    text_ends[0] = 0;
    for (int64_t i = 0; i < count; i++) {
        int64_t start = elements.used;
        doubt[i] = wanted[i] && !take_list(&elements, data + ends[i], data + ends[i + 1]);
        if (doubt[i]) {
            elements.used = start;
        }
        list_ends[i + 1] = (int32_t)elements.used;
    }
    return elements.used;
}
