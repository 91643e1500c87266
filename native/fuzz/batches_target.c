/* Record batches of Kafka as a broker may send them, sound or not: where they are, their checksums, their records, and
 * payloads as framed bytes. What comes out is compared with loops that go byte by byte. */
#include <stdbool.h>

#include "fuzz/fuzz.h"
#include "kafka/kafka.h"

enum { SETTINGS = 4, HEAD = 61, MOST = 64, UNTOUCHED = 0xA5 };

/* A reader of numbers that stops at `end`; `bad` once one did not end. */
struct cursor {
    const uint8_t *p, *end;
    bool bad;
};

static int64_t next_number(struct cursor *at) {
    uint64_t word = 0;
    for (int i = 0; i < 10; i++) {
        if (at->p >= at->end) {
            break;
        }
        uint8_t byte = *at->p++;
        if (i == 9 && byte > 1) {
            break;
        }
        for (int bit = 0; bit < 7 && 7 * i + bit < 64; bit++) {
            word |= (uint64_t)(byte >> bit & 1) << (7 * i + bit);
        }
        if (byte < 128) {
            return word % 2 ? -(int64_t)(word / 2) - 1 : (int64_t)(word / 2);
        }
    }
    at->bad = true;
    return 0;
}

static int64_t next_payload(struct cursor *at, const uint8_t **start) {
    int64_t length = next_number(at);
    *start = at->p;
    if (at->bad || length < -1 || length > at->end - at->p) {
        at->bad = true;
        return -1;
    }
    at->p += length > 0 ? length : 0;
    return length;
}

/* CRC-32C bit by bit. */
NOT_WATCHED static uint32_t slow_crc_castagnoli(const uint8_t *p, int64_t size) {
    uint32_t crc = UINT32_MAX;
    for (int64_t i = 0; i < size; i++) {
        crc ^= p[i];
        for (int bit = 0; bit < 8; bit++) {
            crc = crc >> 1 ^ ((crc & 1) != 0 ? UINT32_C(0x82F63B78) : 0);
        }
    }
    return ~crc;
}

static void check_checksums(const uint8_t *data, const int64_t *batches, int64_t count) {
    int64_t sound = 0;
    for (; sound < count; sound++) {
        const uint8_t *p = data + batches[sound * SH_BATCH_FIELDS + SH_BATCH_START] - HEAD;
        int64_t size = data + batches[sound * SH_BATCH_FIELDS + SH_BATCH_STOP] - p;
        uint32_t said = (uint32_t)p[17] << 24 | (uint32_t)p[18] << 16 | (uint32_t)p[19] << 8 | p[20];
        if (slow_crc_castagnoli(p + 21, size - 21) != said) {
            break;
        }
    }
    HOLDS(sh_kafka_check(data, batches, count) == sound);
}

/* Compares the records of batches with what a cursor finds; how many are to be there, -1 - n for a bad batch. */
static int64_t expected_records(const uint8_t *data, const int64_t *batches, int64_t count, int64_t from,
                                const struct sh_record_facts *facts, int64_t found) {
    int64_t used = 0;
    for (int64_t n = 0; n < count; n++) {
        const int64_t *batch = batches + n * SH_BATCH_FIELDS;
        struct cursor at = {data + batch[SH_BATCH_START], data + batch[SH_BATCH_STOP], false};
        int64_t last = batch[SH_BATCH_FIRST] - 1;
        for (int64_t i = 0; i < batch[SH_BATCH_COUNT]; i++) {
            int64_t length = next_number(&at);
            if (at.bad || length < 1 || length > at.end - at.p) {
                return -1 - n;
            }
            struct cursor record = {at.p + 1, at.p + length, false};
            int64_t later = next_number(&record), behind = next_number(&record);
            const uint8_t *key_start, *value_start;
            int64_t key = record.bad ? 0 : next_payload(&record, &key_start);
            int64_t value = record.bad ? 0 : next_payload(&record, &value_start);
            at.p += length;
            if (record.bad || behind < 0 || behind > batch[SH_BATCH_LAST] - batch[SH_BATCH_FIRST] ||
                batch[SH_BATCH_FIRST] + behind <= last) {
                return -1 - n;
            }
            last = batch[SH_BATCH_FIRST] + behind;
            if (last < from) {
                continue;
            }
            int64_t time = (int64_t)((uint64_t)batch[SH_BATCH_TIME] + (uint64_t)later);
            time = batch[SH_BATCH_ATTRIBUTES] & 8 ? batch[SH_BATCH_MAX_TIME] : time;
            HOLDS(found < 0 ||
                  (used < found && facts->offsets[used] == last && facts->keys[used] == key &&
                   facts->values[used] == value && facts->times[used] == (time < 0 ? -1 : time) &&
                   data + facts->key_starts[used] == key_start && data + facts->value_starts[used] == value_start));
            used++;
        }
        if (at.p != at.end) {
            return -1 - n;
        }
    }
    return used;
}

/* Frames payloads into memory of the room that they need, and `slack` more or less. */
static void check_copy(const uint8_t *data, const int64_t *starts, const int64_t *lengths, int64_t count, int slack) {
    int64_t need = 0, present = 0, used = 0, number = 0;
    for (int64_t i = 0; i < count; i++) {
        present += lengths[i] >= 0;
        need += lengths[i] >= 0 ? lengths[i] + 1 : 0;
    }
    int64_t room = need + slack;
    size_t held = room < 0 ? 0 : (size_t)room;
    uint8_t *out = made(held);
    int32_t *ends = made(sizeof *ends * (size_t)present);
    memset(out, UNTOUCHED, held);
    int64_t half = sh_kafka_copy(data, starts, lengths, count / 2, out, 0, room, ends);
    int64_t first = 0;
    for (int64_t i = 0; i < count / 2; i++) {
        first += lengths[i] >= 0;
    }
    int64_t whole = half < 0 ? -1
                             : sh_kafka_copy(data, starts + count / 2, lengths + count / 2, count - count / 2, out,
                                             half, room, ends + first);
    HOLDS(whole == (room >= need || present == 0 ? need : -1));
    for (int64_t i = 0; whole >= 0 && i < count; i++) {
        if (lengths[i] >= 0) {
            HOLDS(memcmp(out + used, data + starts[i], (size_t)lengths[i]) == 0 && out[used + lengths[i]] == '\n');
            used += lengths[i] + 1;
            HOLDS(ends[number++] == used);
        }
    }
    for (int64_t i = used; whole >= 0 && i < room; i++) {
        HOLDS(out[i] == UNTOUCHED);
    }
    free(out);
    free(ends);
}

/* The last header of a name, number by number; false where a header is not what it says. */
static bool expected_header(const uint8_t *data, int64_t size, int64_t start, const char *name, int64_t *place,
                            int64_t *length) {
    struct cursor at = {data + start, data + size, false};
    int64_t count = next_number(&at);
    *place = 0;
    *length = -1;
    for (int64_t n = 0; !at.bad && n < count; n++) {
        const uint8_t *key, *value;
        int64_t key_length = next_payload(&at, &key);
        int64_t value_length = at.bad || key_length < 0 ? -1 : next_payload(&at, &value);
        at.bad |= key_length < 0;
        if (!at.bad && key_length == 1 && *key == (uint8_t)*name) {
            *place = value - data;
            *length = value_length;
        }
    }
    return !at.bad && count >= 0;
}

static void check_headers(const uint8_t *data, int64_t size, const int64_t *starts, int64_t count) {
    int64_t *places = made(sizeof(int64_t) * (size_t)count), *lengths = made(sizeof(int64_t) * (size_t)count);
    int64_t done = sh_kafka_headers(data, size, starts, count, "k", 1, places, lengths), place, length;
    HOLDS(done >= 0 && done <= count);
    for (int64_t n = 0; n < done; n++) {
        HOLDS(expected_header(data, size, starts[n], "k", &place, &length));
        HOLDS(lengths[n] == length && places[n] == place);
    }
    HOLDS(done == count || !expected_header(data, size, starts[done], "k", &place, &length));
    free(places);
    free(lengths);
}

static void check_records(const uint8_t *data, int64_t size, const int64_t *batches, int64_t count, int64_t from,
                          int slack) {
    int64_t room = 0;
    for (int64_t n = 0; n < count; n++) {
        room += batches[n * SH_BATCH_FIELDS + SH_BATCH_COUNT];
    }
    size_t longs = sizeof(int64_t) * (size_t)room;
    struct sh_record_facts facts = {made(longs), made(longs), made(longs), made(longs), made(longs), made(longs)};
    int64_t found = sh_kafka_records(data, batches, count, from, &facts, room);
    HOLDS(found == expected_records(data, batches, count, from, &facts, found));
    if (found >= 0) {
        check_copy(data, facts.value_starts, facts.values, found, slack);
        check_copy(data, facts.key_starts, facts.keys, found, -slack);
        check_headers(data, size, facts.key_starts, found);
        if (found > 0) {
            HOLDS(sh_kafka_records(data, batches, count, from, &facts, found - 1) < 0); /* no room for the last */
        }
    }
    free(facts.offsets);
    free(facts.times);
    free(facts.value_starts);
    free(facts.values);
    free(facts.key_starts);
    free(facts.keys);
}

/* Makes the head of one batch of all the bytes, so that its records are looked at. */
static void mend(uint8_t *bytes, int64_t length, uint8_t first, const uint8_t *chosen) {
    memset(bytes, 0, 11);
    bytes[7] = first;
    bytes[10] = (uint8_t)((length - 12) >> 8);
    bytes[11] = (uint8_t)(length - 12);
    bytes[16] = 2;
    memset(bytes + 21, 0, 6);
    bytes[22] = chosen[0] & 8;
    bytes[26] = chosen[1] % 128;
    memset(bytes + 57, 0, 3);
    bytes[60] = chosen[2] % 8;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const int SLACKS[] = {0, -1, 0, 1, 9, -2, -30, 0};
    if (size < SETTINGS) {
        return 0;
    }
    int64_t length = (int64_t)size - SETTINGS, rooms[] = {MOST, 1, 0, 2}, stopped[2];
    uint8_t *bytes = made((size_t)length);
    memcpy(bytes, data + SETTINGS, (size_t)length);
    if (data[0] & 1 && length >= HEAD) {
        int64_t cut = data[0] & 16 && length >= 2 * HEAD ? HEAD + data[1] % (length - 2 * HEAD + 1) : length;
        mend(bytes, cut, 0, data);
        if (cut < length) {
            mend(bytes + cut, length - cut, data[0] & 32 ? 128 : 1, data);
            bytes[cut + 11] = (uint8_t)(bytes[cut + 11] + data[3] % 16 / 14); /* some are cut short */
        }
    }
    int64_t room = rooms[data[0] >> 1 & 3];
    int64_t *batches = made(sizeof(int64_t) * SH_BATCH_FIELDS * (size_t)room);
    int64_t count = sh_kafka_batches(bytes, length, batches, room, stopped), last = -1, at = 0, plain = 0;
    HOLDS(count >= 0 && count <= room && stopped[0] >= 0 && stopped[0] <= length);
    for (int64_t n = 0; n < count; n++) {
        const int64_t *batch = batches + n * SH_BATCH_FIELDS;
        HOLDS(batch[SH_BATCH_START] == at + HEAD && batch[SH_BATCH_STOP] >= batch[SH_BATCH_START]);
        HOLDS(batch[SH_BATCH_FIRST] > last && batch[SH_BATCH_LAST] >= batch[SH_BATCH_FIRST]);
        HOLDS(batch[SH_BATCH_LAST] < INT64_MAX && batch[SH_BATCH_COUNT] >= 0);
        plain += plain == n && (batch[SH_BATCH_ATTRIBUTES] & 7) == 0;
        last = batch[SH_BATCH_LAST];
        at = batch[SH_BATCH_STOP];
    }
    HOLDS(at == stopped[0]);
    HOLDS(stopped[1] != SH_BATCH_END_FULL || count == room);
    check_checksums(bytes, batches, count);
    check_records(bytes, length, batches, plain, data[3], SLACKS[data[3] % 8]);
    free(batches);
    free(bytes);
    return 0;
}

/* clang-format off */
const char *const fuzz_pieces[] = {
    "\x0e\x01\x02\x02\x02k\x02v",      /* offset 1, a key and a value */
    "\x0e\x01\x02\x04\x02k\x02v",      /* offset 2 */
    "\x0a\x01\x02\x06\x01\x01",         /* offset 3, neither */
    "\x10\x01\x80\x01\x08\x01\x04vv",  /* offset 4, no key */
    "\x12\x01\x02\x0a\x01\x02v\x02hh", /* offset 5, and more behind */
    "\x01", "\x02", "\x80\x01", "\xff\xff\xff\xff\x0f", "\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01", "\x7f", "\xff", "\x1e", "\n"};
/* clang-format on */
const size_t fuzz_piece_count = sizeof fuzz_pieces / sizeof *fuzz_pieces;
