/* Record batches of Kafka, format 2, as a broker's answer has them: where they are, whether their checksums hold, and
 * where the values and keys of their records are. Nothing of them is believed: each length is compared with what is
 * there before it is used. */
#include "bytes/bytes.h"
#include "bytes/crc.h"
#include "kafka/kafka.h"

enum {
    /* bytes of a batch before its records; what its length does not count; where its magic and checksum are */
    HEAD = 61,
    UNCOUNTED = 12,
    MAGIC = 16,
    CHECKSUM = 17,
    CHECKED = 21,
    LEAST = 7, /* bytes of a record */
    CODEC = 7  /* bits of the attributes */
};

static inline uint64_t big(const uint8_t *p, int bytes) {
    uint64_t word = 0;
    for (int i = 0; i < bytes; i++) {
        word = word << 8 | p[i];
    }
    return word;
}

static inline int32_t int_at(const uint8_t *p) { return (int32_t)(uint32_t)big(p, 4); }

static inline int64_t long_at(const uint8_t *p) { return (int64_t)big(p, 8); }

/* Fills the fields of the batch at `p`; whether they can be. All of its bytes, to `stop`, are there. */
static int take_head(const uint8_t *data, int64_t start, int64_t stop, int64_t *batch) {
    const uint8_t *p = data + start;
    int64_t first = long_at(p), behind = int_at(p + 23);
    batch[SH_BATCH_START] = start + HEAD;
    batch[SH_BATCH_STOP] = stop;
    batch[SH_BATCH_FIRST] = first;
    batch[SH_BATCH_EPOCH] = int_at(p + 12);
    batch[SH_BATCH_ATTRIBUTES] = (int64_t)big(p + 21, 2);
    batch[SH_BATCH_TIME] = long_at(p + 27);
    batch[SH_BATCH_MAX_TIME] = long_at(p + 35);
    batch[SH_BATCH_PRODUCER] = long_at(p + 43);
    batch[SH_BATCH_COUNT] = int_at(p + 57);
    if (first < 0 || behind < 0 || first >= INT64_MAX - behind || batch[SH_BATCH_COUNT] < 0) {
        return 0;
    }
    batch[SH_BATCH_LAST] = first + behind;
    return (batch[SH_BATCH_ATTRIBUTES] & CODEC) != 0 || batch[SH_BATCH_COUNT] <= (stop - start - HEAD) / LEAST;
}

/* Fills SH_BATCH_FIELDS numbers for each whole batch of `data`, for `room` of them at most, whose offsets have to rise.
 * Returns how many there are; `stopped` gets the bytes of them, and which of sh_batch_end is behind them. */
int64_t sh_kafka_batches(const void *data, int64_t size, int64_t *batches, int64_t room, int64_t *stopped) {
    const uint8_t *bytes = data;
    int64_t count = 0, at = 0, last = -1;
    for (;;) {
        stopped[0] = at;
        stopped[1] = SH_BATCH_END_CUT;
        if (size - at <= MAGIC) {
            return count;
        }
        int64_t length = int_at(bytes + at + 8);
        if (bytes[at + MAGIC] != 2) {
            stopped[1] = SH_BATCH_END_MAGIC;
            return count;
        }
        if (length < HEAD - UNCOUNTED) {
            stopped[1] = SH_BATCH_END_DAMAGED;
            return count;
        }
        if (length > size - at - UNCOUNTED) {
            return count;
        }
        if (count == room) {
            stopped[1] = SH_BATCH_END_FULL;
            return count;
        }
        int64_t *batch = batches + count * SH_BATCH_FIELDS, stop = at + UNCOUNTED + length;
        if (!take_head(bytes, at, stop, batch) || batch[SH_BATCH_FIRST] <= last) {
            stopped[1] = SH_BATCH_END_DAMAGED;
            return count;
        }
        last = batch[SH_BATCH_LAST];
        at = stop;
        count++;
    }
}

/* How many of the first batches have the checksum that they say. */
int64_t sh_kafka_check(const void *data, const int64_t *batches, int64_t count) {
    int64_t good = 0;
    for (; good < count; good++) {
        const int64_t *batch = batches + good * SH_BATCH_FIELDS;
        const uint8_t *p = (const uint8_t *)data + batch[SH_BATCH_START] - HEAD;
        int64_t size = batch[SH_BATCH_STOP] - batch[SH_BATCH_START] + HEAD - CHECKED;
        if (sh_crc_castagnoli(p + CHECKED, size, 0) != (uint32_t)big(p + CHECKSUM, 4)) {
            break;
        }
    }
    return good;
}

/* A number of Kafka's records, the sign in its lowest bit; NULL where it does not end, or not within ten bytes. */
static const uint8_t *long_number_at(const uint8_t *p, const uint8_t *end, int64_t *number) {
    uint64_t word = 0;
    for (int shift = 0; shift < 70 && p < end; shift += 7) {
        uint8_t byte = *p++;
        word |= (uint64_t)(byte & 0x7F) << shift;
        if (byte < 0x80) {
            *number = (int64_t)(word >> 1) ^ -(int64_t)(word & 1);
            return shift < 63 || byte < 2 ? p : NULL;
        }
    }
    return NULL;
}

/* The same; most have one byte or two. */
static inline const uint8_t *number_at(const uint8_t *p, const uint8_t *end, int64_t *number) {
    if (UNLIKELY(end - p < 2 || (p[0] & p[1]) >= 0x80)) {
        return long_number_at(p, end, number);
    }
    int more = p[0] >> 7;
    uint32_t word = (p[0] & 0x7FU) | ((uint32_t)p[1] << 7 & -(uint32_t)more);
    *number = (int64_t)(word >> 1) ^ -(int64_t)(word & 1);
    return p + 1 + more;
}

/* Reads the number at a place, and moves behind it; 0 where `number_at` finds none. */
static inline int take_number(const uint8_t **p, const uint8_t *end, int64_t *number) {
    *p = number_at(*p, end, number);
    return *p != NULL;
}

/* Where a key or a value is, and its length, -1 for none; moves behind it. 0 where it does not end before `end`. */
static inline int take_payload(const uint8_t **p, const uint8_t *end, const uint8_t *data, int64_t *start,
                               int64_t *length) {
    if (UNLIKELY(!take_number(p, end, length) || *length < -1 || *length > end - *p)) {
        return 0;
    }
    *start = *p - data;
    *p += *length > 0 ? *length : 0;
    return 1;
}

/* Adds the records of a batch from an offset on; how many there are then, or -1 where it is damaged. */
static int64_t take_records(const uint8_t *data, const int64_t *batch, int64_t from, const struct sh_record_facts *out,
                            int64_t used, int64_t room) {
    enum { BY_BROKER = 8 };
    const uint8_t *p = data + batch[SH_BATCH_START], *stop = data + batch[SH_BATCH_STOP];
    int64_t last = batch[SH_BATCH_FIRST] - 1, by_broker = batch[SH_BATCH_ATTRIBUTES] & BY_BROKER;
    for (int64_t i = 0; i < batch[SH_BATCH_COUNT]; i++) {
        int64_t length, later, behind, key, key_start, value, value_start;
        if (UNLIKELY(!take_number(&p, stop, &length) || length < 1 || length > stop - p)) {
            return -1;
        }
        const uint8_t *end = p + length;
        p++; /* attributes, which say nothing */
        if (UNLIKELY(!take_number(&p, end, &later) || !take_number(&p, end, &behind) ||
                     !take_payload(&p, end, data, &key_start, &key) ||
                     !take_payload(&p, end, data, &value_start, &value))) {
            return -1;
        }
        p = end; /* behind the headers */
        if (UNLIKELY(behind < 0 || behind > batch[SH_BATCH_LAST] - batch[SH_BATCH_FIRST] ||
                     batch[SH_BATCH_FIRST] + behind <= last)) {
            return -1;
        }
        last = batch[SH_BATCH_FIRST] + behind;
        if (UNLIKELY(last < from)) {
            continue;
        }
        if (UNLIKELY(used >= room)) {
            return -1;
        }
        int64_t at = by_broker ? batch[SH_BATCH_MAX_TIME] : (int64_t)((uint64_t)batch[SH_BATCH_TIME] + (uint64_t)later);
        out->offsets[used] = last;
        out->times[used] = at < 0 ? -1 : at;
        out->value_starts[used] = value_start;
        out->values[used] = value;
        out->key_starts[used] = key_start;
        out->keys[used] = key;
        used++;
    }
    return p == stop ? used : -1;
}

/* Fills an entry of each array for each record at or after an offset, in batches that are not compressed, or no longer:
 * their records are where START and STOP say. Returns how many there are; -1 - n where batch n is damaged. */
int64_t sh_kafka_records(const void *data, const int64_t *batches, int64_t count, int64_t from,
                         const struct sh_record_facts *out, int64_t room) {
    int64_t used = 0;
    for (int64_t i = 0; i < count; i++) {
        used = take_records(data, batches + i * SH_BATCH_FIELDS, from, out, used, room);
        if (used < 0) {
            return -1 - i;
        }
    }
    return used;
}

/* Copies the payloads of `data` whose length is not -1 behind the `used` bytes of `out`, each followed by a line feed;
 * `ends` gets the end of each. Returns the bytes that are used then, or -1 where they need more than `room`, which is
 * below 2^31. */
int64_t sh_kafka_copy(const void *data, const int64_t *starts, const int64_t *lengths, int64_t count, uint8_t *out,
                      int64_t used, int64_t room, int32_t *ends) {
    for (int64_t i = 0; i < count; i++) {
        if (lengths[i] < 0) {
            continue;
        }
        if (UNLIKELY(room <= used || lengths[i] >= room - used)) {
            return -1;
        }
        memcpy(out + used, (const uint8_t *)data + starts[i], (size_t)lengths[i]);
        used += lengths[i] + 1;
        out[used - 1] = '\n';
        *ends++ = (int32_t)used;
    }
    return used;
}

/* Finds the value of the last header of a name in the headers of each record, which begin at `starts`; a length of -1
 * is none. Returns how many records it has read: fewer than `count` where the next one is damaged. */
int64_t sh_kafka_headers(const void *data, int64_t size, const int64_t *starts, int64_t count, const void *name,
                         int64_t name_size, int64_t *places, int64_t *lengths) {
    const uint8_t *bytes = data, *end = bytes + size;
    for (int64_t i = 0; i < count; i++) {
        const uint8_t *p = bytes + starts[i];
        int64_t headers, key, key_start, value, value_start;
        places[i] = 0;
        lengths[i] = -1;
        if (UNLIKELY(!take_number(&p, end, &headers) || headers < 0)) {
            return i;
        }
        for (int64_t n = 0; n < headers; n++) {
            if (UNLIKELY(!take_payload(&p, end, bytes, &key_start, &key) || key < 0 ||
                         !take_payload(&p, end, bytes, &value_start, &value))) {
                return i;
            }
            if (key == name_size && memcmp(bytes + key_start, name, (size_t)key) == 0) {
                places[i] = value_start;
                lengths[i] = value;
            }
        }
    }
    return count;
}
