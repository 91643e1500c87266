/* Numbers as binary formats write them, and their values into columns. */
#ifndef SPARKHAVEN_WIRE_H
#define SPARKHAVEN_WIRE_H

#include <stddef.h>
#include <string.h>

#include "bytes/bytes.h"
#include "scan/scan.h"

/* A record while it is read. `limit` is how far may be read, behind `end`. */
struct record {
    struct sh_records *records;
    const uint8_t *end, *limit;
    int64_t row, number;
};

/* Reads one record from p to its end; 0 if in doubt. */
typedef int read_record(struct record *record, const uint8_t *p);

/* All records of a block: record i is data[ends[i]] to data[ends[i + 1] - 1], a line feed behind it. Writes the index of
 * each accepted one to rows, and returns how many there are. */
int64_t sh_scan_records(struct sh_records *records, const uint8_t *data, const int32_t *ends, int64_t count,
                        int64_t *rows, read_record *read);

/* A value into all columns that take the field; 0 in doubt. */
int sh_take_null(struct record *record, int64_t number);
int sh_take_whole(struct record *record, int64_t number, int64_t value);
int sh_take_truth(struct record *record, int64_t number, uint64_t value);
int sh_take_real(struct record *record, int64_t number, double value, int single);
int sh_take_instant(struct record *record, int64_t number, int64_t seconds, int64_t nanos);
int sh_take_text(struct record *record, int64_t number, const uint8_t *p, const uint8_t *stop);

/* The varint at p, seven bits a byte, at most 64 in all; NULL if it is none. */
static inline const uint8_t *sh_varint(const uint8_t *p, const uint8_t *end, uint64_t *value) {
    enum { LAST = 63, MORE = 0x80 };
    if (LIKELY(p < end && *p < MORE)) {
        *value = *p;
        return p + 1;
    }
    uint64_t bits = 0;
    for (int shift = 0; p < end && shift <= LAST; shift += 7) {
        uint64_t byte = *p++;
        if (shift == LAST && byte > 1) {
            return NULL;
        }
        bits |= (byte & 0x7F) << shift;
        if (byte < MORE) {
            *value = bits;
            return p;
        }
    }
    return NULL;
}

static inline int64_t sh_zigzag(uint64_t bits) { return (int64_t)(bits >> 1) ^ -(int64_t)(bits & 1); }

static inline int sh_is_int(int64_t value) { return value >= INT32_MIN && value <= INT32_MAX; }

static inline uint64_t sh_bytes_8(const uint8_t *p) {
    uint64_t bits;
    memcpy(&bits, p, 8);
    return bits;
}

static inline uint32_t sh_bytes_4(const uint8_t *p) {
    uint32_t bits;
    memcpy(&bits, p, 4);
    return bits;
}

static inline double sh_double_of(uint64_t bits) {
    double value;
    memcpy(&value, &bits, 8);
    return value;
}

static inline float sh_float_of(uint32_t bits) {
    float value;
    memcpy(&value, &bits, 4);
    return value;
}

#endif
