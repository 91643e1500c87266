/* Maps of texts to numbers, Booleans or texts: the number of entries in four bytes, then of each the length of its key
 * in four bytes, the key, and the value: in its own width, or as a key. */
#include "bytes/distinct.h"
#include "bytes/utf8.h"
#include "codings/codings.h"
#include "codings/entries.h"
#include "codings/lists.h"

enum { COUNT = 4, TEXTS = -1 };

static inline int64_t value_width(int64_t width) { return width == TEXTS ? COUNT : width == 0 ? 1 : width; }

/* A float that Python's own numbers would change: a NaN that signals. */
static inline int is_odd(uint64_t value, int64_t width, uint64_t null) {
    return width == 4 && null == UINT64_C(0xFF7FFFFF) && (value & 0x7FC00000) == 0x7F800000 &&
           (value & 0x003FFFFF) != 0;
}

static inline void put_count(uint8_t *p, int64_t count) {
    uint32_t stored = __builtin_bswap32((uint32_t)count);
    memcpy(p, &stored, COUNT);
}

static inline int64_t count_at(const uint8_t *p) {
    uint32_t stored;
    memcpy(&stored, p, COUNT);
    return (int32_t)__builtin_bswap32(stored);
}

/* A text with its length; NULL in doubt. */
static inline uint8_t *put_sized(uint8_t *out, const uint8_t *limit, const uint8_t *data, int64_t size, int64_t begin,
                                 int64_t stop) {
    if (!is_range(begin, stop, size) || stop - begin > limit - out - COUNT || !sh_is_text(data + begin, data + stop)) {
        return NULL;
    }
    put_count(out, stop - begin);
    memcpy(out + COUNT, data + begin, (size_t)(stop - begin));
    return out + COUNT + (stop - begin);
}

static inline uint8_t *put_value(uint8_t *out, const uint8_t *limit, const struct sh_map_entries *entries, int64_t k) {
    int64_t width = entries->width;
    int there = is_valid(entries->valid_values, entries->first_value + k);
    if (width == TEXTS) {
        const int32_t *texts = entries->values;
        return there ? put_sized(out, limit, entries->value_data, entries->value_size, texts[k], texts[k + 1]) : NULL;
    }
    if (limit - out < value_width(width)) {
        return NULL;
    }
    if (width == 0) {
        *out = there ? (uint8_t)is_valid(entries->values, entries->first_value + k) : 0xFF;
        return out + 1;
    }
    uint64_t value = 0;
    memcpy(&value, (const uint8_t *)entries->values + k * width, (size_t)width);
    if (there && (value == entries->null || is_odd(value, width, entries->null))) {
        return NULL;
    }
    value = __builtin_bswap64((there ? value : entries->null) << (64 - BITS * width));
    memcpy(out, &value, (size_t)width);
    return out + width;
}

int64_t sh_encode_string_maps(const int32_t *starts, const uint8_t *valid, int64_t first, int64_t count,
                              const struct sh_map_entries *entries, int32_t *numbers, int64_t longest, int64_t *ends,
                              uint8_t *out, int64_t room) {
    uint8_t *p = out;
    const uint8_t *limit = out + room;
    for (int64_t i = 0; i < count; i++) {
        if (is_valid(valid, first + i)) {
            int64_t low = starts[i], high = starts[i + 1];
            if (!is_range(low, high, entries->total) || high - low > longest || limit - p < COUNT) {
                return -1;
            }
            put_count(p, high - low);
            p += COUNT;
            for (int64_t k = low; k < high; k++) {
                p = put_sized(p, limit, entries->key_data, entries->key_size, entries->keys[k], entries->keys[k + 1]);
                if (p == NULL) {
                    return -1;
                }
                p = put_value(p, limit, entries, k);
                if (p == NULL) {
                    return -1;
                }
            }
            if (!sh_are_different(entries->keys, entries->key_data, low, high, numbers)) {
                return -1;
            }
        }
        ends[i] = p - out;
    }
    return p - out;
}

int64_t sh_string_map_lengths(const int64_t *ends, int64_t count, const uint8_t *data, int64_t bytes, int64_t width,
                              int32_t *starts, uint8_t *valid) {
    struct list_form form = {NULL, 0, COUNT + value_width(width), 0};
    return list_starts(ends, count, data, bytes, form, starts, valid);
}

/* The bytes behind a length at p, copied to `out`, whose first byte has the number `used`; NULL in doubt. */
static inline const uint8_t *take_sized(const uint8_t *p, const uint8_t *stop, uint8_t *out, int32_t *ends) {
    if (stop - p < COUNT) {
        return NULL;
    }
    int64_t length = count_at(p);
    p += COUNT;
    if (length < 0 || length > stop - p || !sh_is_text(p, p + length)) {
        return NULL;
    }
    memcpy(out + ends[0], p, (size_t)length);
    ends[1] = ends[0] + (int32_t)length;
    return p + length;
}

/* A number or Boolean at p; -1 in doubt, else whether it is null. */
static inline int take_value(const uint8_t *p, const struct sh_map_room *room, int64_t width, uint64_t null,
                             int64_t k) {
    uint8_t *values = room->values;
    if (width == 0) {
        values[k >> 3] |= (uint8_t)((*p != 0 && *p != 0xFF) << (k & 7));
        return *p == 0xFF;
    }
    uint64_t value = 0;
    memcpy(&value, p, (size_t)width);
    value = __builtin_bswap64(value) >> (64 - BITS * width);
    memcpy(values + k * width, &value, (size_t)width);
    return is_odd(value, width, null) ? -1 : value == null;
}

int64_t sh_decode_string_maps(const int64_t *ends, const int32_t *starts, int64_t count, const uint8_t *data,
                              int64_t width, uint64_t null, const struct sh_map_room *room) {
    int64_t nulls = 0, total = starts[count], bytes = (total + 7) / 8;
    int32_t *texts = room->values;
    room->keys[0] = 0;
    memset(room->valid_values, 0, (size_t)bytes);
    if (width == 0) {
        memset(room->values, 0, (size_t)bytes);
    } else if (width == TEXTS) {
        texts[0] = 0;
    }
    for (int64_t i = 0; i < count; i++) {
        const uint8_t *p = data + ends[i], *stop = data + ends[i + 1];
        p += stop > p ? COUNT : 0;
        for (int64_t k = starts[i]; k < starts[i + 1]; k++) {
            int none = 0;
            p = take_sized(p, stop, room->key_data, room->keys + k);
            if (p == NULL) {
                return -1;
            }
            if (width == TEXTS) {
                p = take_sized(p, stop, room->value_data, texts + k);
                if (p == NULL) {
                    return -1;
                }
            } else {
                if (stop - p < value_width(width)) {
                    return -1;
                }
                none = take_value(p, room, width, null, k);
                if (none < 0) {
                    return -1;
                }
                p += value_width(width);
            }
            nulls += none;
            room->valid_values[k >> 3] |= (uint8_t)(!none << (k & 7));
        }
        if (p != stop) {
            return -1;
        }
    }
    return nulls;
}
