/* Objects whose values are of one type, each a JSON text, to the keys and values of all of them. */
#include "bytes/distinct.h"
#include "scan/elements.h"

/* The object at p, which ends at `end`; 0 if in doubt. `values` are texts, or NULL: those of the column. */
static int take_map(const struct sh_scan *scan, struct sh_texts *keys, struct sh_texts *values, int64_t room,
                    const uint8_t *p, const uint8_t *end) {
    if (p >= end || *p != '{') {
        return 0;
    }
    p = sh_blanks(p + 1, end);
    if (p < end && *p == '}') {
        return p + 1 == end;
    }
    while (keys->used < room) {
        p = sh_text_element(keys, p, end);
        if (p == NULL) {
            return 0;
        }
        p = sh_blanks(p, end);
        if (p >= end || *p != ':') {
            return 0;
        }
        p = sh_blanks(p + 1, end);
        p = values != NULL ? sh_text_element(values, p, end) : sh_plain_element(scan, keys->used - 1, p, end);
        if (p == NULL) {
            return 0;
        }
        p = sh_blanks(p, end);
        if (p >= end || *p != ',') {
            return p < end && *p == '}' && p + 1 == end;
        }
        p = sh_blanks(p + 1, end);
    }
    return 0;
}

/* Text i is data[ends[i]] to data[ends[i + 1]] where wanted[i] is 1; list_ends and doubt are as of sh_number_lists. An
 * object with a key that comes again is in doubt. Values go into the only column, or become texts where `value_ends` is
 * given. Returns how many entries there are. */
int64_t sh_map_lists(struct sh_scan *scan, const uint8_t *data, const int32_t *ends, const uint8_t *wanted,
                     int64_t count, const struct sh_map_lists *maps, int32_t *list_ends, uint8_t *doubt) {
    struct sh_texts keys = {0, maps->key_ends, maps->keys}, values = {0, maps->value_ends, maps->values};
    int texts = maps->value_ends != NULL;
    list_ends[0] = 0;
    keys.ends[0] = 0;
    if (texts) {
        values.ends[0] = 0;
    }
    for (int64_t i = 0; i < count; i++) {
        int64_t start = keys.used;
        doubt[i] = wanted[i] &&
                   !(take_map(scan, &keys, texts ? &values : NULL, maps->room, data + ends[i], data + ends[i + 1]) &&
                     sh_are_different(keys.ends, keys.bytes, start, keys.used, maps->numbers));
        if (doubt[i]) {
            if (!texts) {
                sh_drop_elements(scan, start, keys.used);
            }
            keys.used = start;
            values.used = start;
        }
        list_ends[i + 1] = (int32_t)keys.used;
    }
    return keys.used;
}
