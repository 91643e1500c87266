/* Arrays of texts, each a JSON text, to one column of all their elements. */
#include "scan/elements.h"

/* The elements so far, null among them. */
struct elements {
    struct sh_texts texts;
    int64_t room;
    uint8_t *valid;
};

/* The element at p, a string or null. Returns its end, or NULL: in doubt. */
static const uint8_t *take_element(struct elements *elements, const uint8_t *p, const uint8_t *end) {
    struct sh_texts *texts = &elements->texts;
    int there = p < end && *p == '"';
    elements->valid[texts->used] = (uint8_t)there;
    if (there) {
        return sh_text_element(texts, p, end);
    }
    p = sh_word(p, end, "null", 4);
    if (p != NULL) {
        texts->ends[texts->used + 1] = texts->ends[texts->used];
        texts->used++;
    }
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
    while (elements->texts.used < elements->room) {
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
    struct elements elements = {{0, text_ends, texts}, room, valid};
    list_ends[0] = 0;
    text_ends[0] = 0;
    for (int64_t i = 0; i < count; i++) {
        int64_t start = elements.texts.used;
        doubt[i] = wanted[i] && !take_list(&elements, data + ends[i], data + ends[i + 1]);
        if (doubt[i]) {
            elements.texts.used = start;
        }
        list_ends[i + 1] = (int32_t)elements.texts.used;
    }
    return elements.texts.used;
}
