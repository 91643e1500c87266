/* Values that are lists: a head, the number of elements, and the elements. */
#ifndef SPARKHAVEN_LISTS_H
#define SPARKHAVEN_LISTS_H

#include "codings/entries.h"

/* A head of `size` bytes, and elements of at least so many bytes, or where they are `alike` of just as many. */
struct list_form {
    const char *head;
    int64_t size, element;
    int alike;
};

/* Where the elements of each list begin; returns how many elements there are, or -1 where a list has another head, or
 * bytes that are not those of its elements. */
static inline int64_t list_starts(const int64_t *ends, int64_t count, const uint8_t *data, int64_t bytes,
                                  struct list_form form, int32_t *starts, uint8_t *valid) {
    int64_t total = 0, front = form.size + (int64_t)sizeof(uint32_t);
    starts[0] = 0;
    memset(valid, 0, (size_t)((count + 7) / 8));
    for (int64_t i = 0; i < count; i++) {
        int64_t low = ends[i], high = ends[i + 1];
        if (!is_range(low, high, bytes)) {
            return -1;
        }
        if (high > low) {
            uint32_t stored;
            if (high - low < front || (form.size > 0 && memcmp(data + low, form.head, (size_t)form.size) != 0)) {
                return -1;
            }
            memcpy(&stored, data + low + form.size, sizeof stored);
            int64_t length = __builtin_bswap32(stored), unused = high - low - front - length * form.element;
            if (unused < 0 || (form.alike && unused > 0) || total + length > INT32_MAX) {
                return -1;
            }
            total += length;
            set_valid(valid, i);
        }
        starts[i + 1] = (int32_t)total;
    }
    return total;
}

#endif
