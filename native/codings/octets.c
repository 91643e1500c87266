/* Bytes of one length, behind a byte 00, or FF and zeros for null; or as they are. */
#include "codings/codings.h"
#include "codings/entries.h"

static inline int64_t encode(const int32_t *starts, const uint8_t *valid, int64_t first, int64_t count,
                             const uint8_t *data, int64_t size, int64_t before, int64_t length, uint8_t *out) {
    for (int64_t i = 0; i < count; i++, out += before + length) {
        if (!is_valid(valid, first + i)) {
            if (before == 0) {
                return -1;
            }
            out[0] = 0xFF;
            memset(out + 1, 0, (size_t)length);
            continue;
        }
        if (starts[i] < 0 || starts[i] > size - length || (int64_t)starts[i + 1] - starts[i] != length) {
            return -1;
        }
        out[0] = 0; /* the value begins here where nothing is before it */
        memcpy(out + before, data + starts[i], (size_t)length);
    }
    return 1;
}

/* Short lengths that are usual have a copy of the loop, where bytes are moved by one instruction. */
#define BY_LENGTH(before, length, call)                                                                                \
    if ((before) == 1) {                                                                                               \
        return (length) == 4    ? call(1, 4)                                                                           \
               : (length) == 8  ? call(1, 8)                                                                           \
               : (length) == 16 ? call(1, 16)                                                                          \
                                : call(1, length);                                                                     \
    }                                                                                                                  \
    return (length) == 4 ? call(0, 4) : (length) == 8 ? call(0, 8) : (length) == 16 ? call(0, 16) : call(0, length);

int64_t sh_encode_octets(const int32_t *starts, const uint8_t *valid, int64_t first, int64_t count, const uint8_t *data,
                         int64_t size, int64_t width, int64_t length, uint8_t *out) {
#define ENCODE(before, length) encode(starts, valid, first, count, data, size, before, length, out)
    BY_LENGTH(width - length, length, ENCODE)
}

static inline int64_t decode(const uint8_t *entries, int64_t count, int64_t before, int64_t length, int32_t *starts,
                             uint8_t *out, uint8_t *valid) {
    int64_t nulls = 0, end = 0;
    int bad = 0;
    starts[0] = 0;
    for (int64_t row = 0; row < count; row += BLOCK) {
        int64_t rows = count - row < BLOCK ? count - row : BLOCK;
        uint64_t there = 0;
        for (int64_t i = 0; i < rows; i++, entries += before + length) {
            int none = before == 1 && entries[0] != 0;
            for (int64_t k = 1; none && k <= length; k++) {
                bad |= entries[k] != 0;
            }
            bad |= none && entries[0] != 0xFF;
            memcpy(out + end, entries + before, (size_t)length);
            end += none ? 0 : length;
            starts[row + i + 1] = (int32_t)end;
            there |= (uint64_t)!none << i;
        }
        nulls += put_valid(valid, row, rows, there);
    }
    return bad ? -1 : nulls;
}

int64_t sh_decode_octets(const uint8_t *entries, int64_t count, int64_t width, int64_t length, int32_t *starts,
                         uint8_t *out, uint8_t *valid) {
#define DECODE(before, length) decode(entries, count, before, length, starts, out, valid)
    BY_LENGTH(width - length, length, DECODE)
}
