/* Batches of librdkafka's messages: any errors, partitions, offsets and times, payloads and keys of any length, also of
 * lengths that no memory has. What comes out is compared with loops that go byte by byte. */
#include <stdbool.h>

#include "fuzz/fuzz.h"
#include "kafka/kafka.h"

enum { SETTINGS = 3, RECORD = 6, PAYLOAD_BYTES = 1 << 14, UNTOUCHED = 0xA5 };

/* What a message says of its time, and how often it was asked; `own` points to it. */
struct told {
    int64_t time;
    int kind; /* below 0: the function leaves it alone */
    int64_t asked;
};

static void *const *released; /* the messages that are to be given back next */

static int64_t tell_time(const void *message, int *kind) {
    struct told *told = ((const struct sh_message *)message)->own;
    told->asked++;
    if (told->kind >= 0) {
        *kind = told->kind;
    }
    return told->time;
}

static void take_back(void *message) {
    HOLDS(message == *released); /* in order, each once: the next access would be to memory that is free */
    released++;
    free(message);
}

/* Bytes of their own, of the input, that begin and end where it says. NULL, and a length that means nothing; nothing at
 * an address; bytes; or one byte and a length that does not exist. */
static const uint8_t *payload_of(int kind, uint8_t chosen, const uint8_t *data, size_t size, size_t *budget,
                                 size_t *length) {
    static const size_t IMPOSSIBLE[] = {SIZE_MAX,   SIZE_MAX - 1,          (size_t)INT64_MAX, (size_t)INT64_MAX + 1,
                                        UINT32_MAX, (size_t)INT32_MAX + 1, (size_t)1 << 32,   INT32_MAX};
    if (kind == 0) {
        *length = chosen;
        return NULL;
    }
    if (kind == 3 && chosen % 4 == 0) {
        *length = IMPOSSIBLE[chosen / 4 % 8];
        return made(1);
    }
    size_t start = chosen * (size_t)37 % size, most = kind == 1 ? 0 : kind == 2 ? chosen % 24u : size;
    *length = most < size - start ? most : size - start;
    *length = *length < *budget ? *length : *budget;
    *budget -= *length;
    uint8_t *bytes = made(*length);
    memcpy(bytes, data + start, *length);
    return bytes;
}

static struct sh_message *message_of(const uint8_t *record, int32_t partition, const uint8_t *data, size_t size,
                                     size_t *budget) {
    static const int64_t OFFSETS[] = {0, -1, -1001, INT64_MAX, INT64_MIN, (int64_t)1 << 32, 7, 8};
    static const int64_t TIMES[] = {0, -1, INT64_MIN, INT64_MAX, 1795255200000, 1};
    static const int32_t ERRORS[] = {-191, 1, INT32_MIN, INT32_MAX, -1, 3};
    struct sh_message *message = made(sizeof *message);
    struct told *told = made(sizeof *told);
    int kind = record[0];
    memset(message, UNTOUCHED, sizeof *message); /* also what is between the fields */
    message->payload = payload_of(kind & 3, record[1], data, size, budget, &message->length);
    message->key = payload_of(kind >> 2 & 3, record[2], data, size, budget, &message->key_length);
    message->offset = record[3] < 128 ? record[3] : OFFSETS[record[3] % 8];
    message->error = kind >> 4 & 1 ? ERRORS[record[5] % 6] : 0;
    message->partition = kind >> 5 & kind >> 6 & 1 ? (int32_t)record[5] - 128 : partition;
    message->own = told;
    told->time = TIMES[record[4] % 6];
    told->kind = (int)(record[4] >> 4) % 4 - 1;
    return message;
}

/* What of the facts is due: an entry is compared where a loop over the messages comes to it. */
static void check_look(struct sh_message *const *messages, int64_t count, int64_t partition) {
    size_t longs = sizeof(int64_t) * (size_t)count;
    struct sh_kafka_facts facts = {made(sizeof(int32_t) * (size_t)count), made(longs), made(longs), made(longs),
                                   made(longs)};
    int64_t found = sh_kafka_look((const void *const *)messages, count, partition, tell_time, &facts), errors = 0,
            i = 0;
    for (; i < count; i++) {
        const struct sh_message *message = messages[i];
        const struct told *told = message->own;
        bool sound = message->error == 0;
        if (sound && message->partition != partition) {
            break;
        }
        errors += !sound;
        HOLDS(facts.errors[i] == message->error && facts.offsets[i] == message->offset);
        HOLDS(facts.values[i] == (sound && message->payload ? (int64_t)message->length : -1));
        HOLDS(facts.keys[i] == (sound && message->key ? (int64_t)message->key_length : -1));
        HOLDS(facts.times[i] == (sound && told->kind > 0 && told->time >= 0 ? told->time : -1));
        HOLDS(told->asked == sound); /* what has an error has no time to ask for */
    }
    HOLDS(found == (i < count ? -1 : errors));
    for (; i < count; i++) {
        HOLDS(((const struct told *)messages[i]->own)->asked == 0);
    }
    free(facts.errors);
    free(facts.offsets);
    free(facts.values);
    free(facts.keys);
    free(facts.times);
}

/* Frames into memory of exactly the room that is said; `slack` is what it has more than is needed, or less. */
static void check_frame(struct sh_message *const *messages, int64_t count, bool keys, int slack) {
    int64_t need = 0, present = 0;
    bool fits = true;
    for (int64_t i = 0; i < count; i++) {
        if (keys ? messages[i]->key : messages[i]->payload) {
            size_t length = keys ? messages[i]->key_length : messages[i]->length;
            present++;
            if (length > PAYLOAD_BYTES) {
                fits = false; /* there is no memory of it */
            } else {
                need += (int64_t)length + 1;
            }
        }
    }
    int64_t room = need + slack;
    fits = fits && (room >= need || present == 0);
    size_t held = room < 0 ? 0 : (size_t)room;
    uint8_t *out = made(held), *wanted = made(held);
    int32_t *ends = made(sizeof *ends * (size_t)(present + 1));
    memset(out, UNTOUCHED, held);
    memset(wanted, UNTOUCHED, held);
    int64_t found = sh_kafka_frame((const void *const *)messages, count, keys, out, room, ends);
    HOLDS(found == (fits ? present : -1));
    HOLDS(ends[0] == 0);
    int64_t used = 0, number = 0;
    for (int64_t i = 0; fits && i < count; i++) {
        const uint8_t *bytes = keys ? messages[i]->key : messages[i]->payload;
        if (bytes == NULL) {
            continue;
        }
        for (size_t k = 0; k < (keys ? messages[i]->key_length : messages[i]->length); k++) {
            wanted[used++] = bytes[k];
        }
        wanted[used++] = '\n';
        HOLDS(ends[++number] == used);
    }
    HOLDS(!fits || memcmp(out, wanted, held) == 0); /* and nothing behind what was framed */
    free(out);
    free(wanted);
    free(ends);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const int64_t PARTITIONS[] = {0, 3, -1, ((int64_t)1 << 32) + 3, INT32_MIN};
    static const int SLACKS[] = {0, -1, 0, 1, 9, -2, -30, 0};
    if (size < SETTINGS) {
        return 0;
    }
    int64_t partition = PARTITIONS[data[0] % 5], count = (int64_t)((size - SETTINGS) / RECORD);
    size_t budget = PAYLOAD_BYTES;
    struct sh_message **messages = made(sizeof *messages * (size_t)count);
    void **kept = made(3 * sizeof *kept * (size_t)count); /* what outlives the messages */
    for (int64_t i = 0; i < count; i++) {
        const uint8_t *record = data + SETTINGS + i * RECORD;
        struct sh_message *message = messages[i] = message_of(record, (int32_t)partition, data, size, &budget);
        memcpy(kept + 3 * i, (void *[]){message->own, (void *)message->payload, (void *)message->key},
               3 * sizeof *kept);
    }
    check_look(messages, count, partition);
    check_frame(messages, count, false, SLACKS[data[1] % 8]);
    check_frame(messages, count, true, SLACKS[data[1] / 8 % 8]);

    int64_t first = count > 0 ? data[2] % (count + 1) : 0; /* some are given back, then the others */
    void *const *all = (void *const *)messages;
    released = all;
    sh_kafka_release(all, first, take_back);
    HOLDS(released == all + first);
    sh_kafka_release(all + first, count - first, take_back);
    HOLDS(released == all + count);
    for (int64_t i = 0; i < 3 * count; i++) {
        free(kept[i]);
    }
    free(kept);
    free(messages);
    return 0;
}

/* clang-format off */
const char *const fuzz_pieces[] = {
    "\x0a\x05\x03\x01\x24\x01",             /* a short value and key */
    "\x08\x05\x03\x02\x24\x01",             /* a tombstone */
    "\x02\x11\x03\x03\x34\x01",             /* no key */
    "\x05\x05\x03\x04\x11\x01",             /* both empty */
    "\x0f\x05\x07\x05\x24\x01",             /* both long */
    "\x03\x04\x03\x06\x24\x01",             /* lengths that cannot be */
    "\x1a\x05\x03\x07\x24\x06",             /* the end of the partition */
    "\x6a\x05\x03\x08\x24\x01",             /* another partition */
    "\x0a\x05\x03\xff\x24\x01\x02\x05\x03\x80\x24\x01", /* offsets that jump */
    "\x0a\n\n\n\n\n", "\x01", "\x04", "\x10", "\xff", "\x80", "\n"};
/* clang-format on */
const size_t fuzz_piece_count = sizeof fuzz_pieces / sizeof *fuzz_pieces;
