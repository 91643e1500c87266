/* Arrays of a primitive as Java streams: a head, which all of a class have, the number of elements in four bytes, and
 * the elements, most significant byte first. */
#include "codings/codings.h"
#include "codings/entries.h"
#include "codings/lists.h"

enum { HEAD = 23, COUNT = 4, FRONT = HEAD + COUNT, OCTETS = -1 };

static inline uint64_t element_at(const uint8_t *elements, int64_t index, int size) {
    uint64_t value = 0;
    if (size == 0) {
        return (uint64_t)is_valid(elements, index);
    }
    memcpy(&value, elements + index * size, (size_t)size);
    return value;
}

/* The elements of one list at p; bit `first` + i of `valid` says whether element i is null. */
static inline int put_elements(uint8_t *p, const uint8_t *elements, int64_t low, int64_t high, const uint8_t *valid,
                               int64_t first, int size, uint64_t null) {
    int bytes = size == 0 ? 1 : size, bad = 0;
    if (size == OCTETS) {
        memcpy(p, elements + low, (size_t)(high - low));
        return 0;
    }
    for (int64_t i = low; i < high; i++, p += bytes) {
        int there = is_valid(valid, first + i);
        uint64_t value = element_at(elements, size == 0 ? first + i : i, size);
        bad |= size == 0 ? !there : there && value == null;
        value = __builtin_bswap64((there ? value : null) << (64 - BITS * bytes));
        memcpy(p, &value, (size_t)bytes);
    }
    return bad;
}

static inline int64_t encode(const int32_t *starts, const uint8_t *valid, int64_t first, int64_t count,
                             const uint8_t *elements, const uint8_t *valid_elements, int64_t first_element,
                             int64_t total, int size, uint64_t null, const char *head, int64_t *ends, uint8_t *out,
                             int64_t room) {
    int64_t end = 0, bytes = size <= 0 ? 1 : size;
    int bad = 0;
    for (int64_t i = 0; i < count; i++) {
        if (is_valid(valid, first + i)) {
            int64_t low = starts[i], high = starts[i + 1], length = high - low;
            if (!is_range(low, high, total) || FRONT + length * bytes > room - end) {
                return -1;
            }
            memcpy(out + end, head, HEAD);
            uint32_t stored = __builtin_bswap32((uint32_t)length);
            memcpy(out + end + HEAD, &stored, COUNT);
            end += FRONT;
            bad |= put_elements(out + end, elements, low, high, valid_elements, first_element, size, null);
            end += length * bytes;
        }
        ends[i] = end;
    }
    return bad ? -1 : end;
}

/* One copy of a function for each width, so that elements are moved without a loop over their bytes. */
#define BY_SIZE(size, call)                                                                                            \
    switch (size) {                                                                                                    \
    case OCTETS:                                                                                                       \
        return call(OCTETS);                                                                                           \
    case 0:                                                                                                            \
        return call(0);                                                                                                \
    case 1:                                                                                                            \
        return call(1);                                                                                                \
    case 2:                                                                                                            \
        return call(2);                                                                                                \
    case 4:                                                                                                            \
        return call(4);                                                                                                \
    default:                                                                                                           \
        return call(8);                                                                                                \
    }

int64_t sh_encode_arrays(const int32_t *starts, const uint8_t *valid, int64_t first, int64_t count,
                         const void *elements, const uint8_t *valid_elements, int64_t first_element, int64_t total,
                         int64_t size, uint64_t null, const char *head, int64_t *ends, uint8_t *out, int64_t room){
#define ENCODE(width)                                                                                                  \
    encode(starts, valid, first, count, elements, valid_elements, first_element, total, width, null, head, ends, out,  \
           room)
    BY_SIZE(size, ENCODE)}

int64_t sh_array_lengths(const int64_t *ends, int64_t count, const uint8_t *data, int64_t bytes, int64_t size,
                         const char *head, int32_t *starts, uint8_t *valid) {
    struct list_form form = {head, HEAD, size <= 0 ? 1 : size, 1};
    return list_starts(ends, count, data, bytes, form, starts, valid);
}

static inline int64_t decode(const int64_t *ends, int64_t count, const uint8_t *data, int size, uint64_t null,
                             uint8_t *elements, uint8_t *valid) {
    int64_t done = 0, nulls = 0;
    unsigned bits = 0;
    int bytes = size == 0 ? 1 : size;
    for (int64_t i = 0; size == OCTETS && i < count; i++) {
        int64_t length = ends[i + 1] - ends[i] - FRONT;
        if (length > 0) {
            memcpy(elements + done, data + ends[i] + FRONT, (size_t)length);
            done += length;
        }
    }
    if (size == OCTETS) {
        return 0;
    }
    for (int64_t i = 0; i < count; i++) {
        for (const uint8_t *p = data + ends[i] + FRONT, *stop = data + ends[i + 1]; p < stop; p += bytes, done++) {
            uint64_t value = 0;
            memcpy(&value, p, (size_t)bytes);
            value = __builtin_bswap64(value) >> (64 - BITS * bytes);
            unsigned there = size == 0 ? value != 0 : value != null;
            if (size != 0) {
                memcpy(elements + done * bytes, &value, (size_t)bytes);
                nulls += !there;
            }
            bits |= there << (done & 7);
            if ((done & 7) == 7) {
                (size == 0 ? elements : valid)[done >> 3] = (uint8_t)bits;
                bits = 0;
            }
        }
    }
    if ((done & 7) != 0) {
        (size == 0 ? elements : valid)[done >> 3] = (uint8_t)bits;
    }
    return nulls;
}

int64_t sh_decode_arrays(const int64_t *ends, int64_t count, const uint8_t *data, int64_t size, uint64_t null,
                         void *elements, uint8_t *valid) {
#define DECODE(width) decode(ends, count, data, width, null, elements, valid)
    BY_SIZE(size, DECODE)
}
