/* Messages of librdkafka: what they are, their values or keys as framed records, and their release.
 *
 * A batch is an array of pointers, as rd_kafka_consume_batch_queue fills it. Nothing here is linked with librdkafka:
 * its functions are given by their address, and its structure is the public one of rdkafka.h, which the caller
 * proves. */
#include "kafka/kafka.h"
#include "bytes/bytes.h"

/* Fills an entry of each array for each message. Lengths are -1 where there is no value or no key, times are ms since
 * 1970 or -1 where the broker has none. Returns how many have an error, the events among the messages; -1 for a message
 * of another partition. */
int64_t sh_kafka_look(const void *const *messages, int64_t count, int64_t partition, sh_kafka_time *time_of,
                      const struct sh_kafka_facts *facts) {
    int64_t errors = 0;
    for (int64_t i = 0; i < count; i++) {
        const struct sh_message *message = messages[i];
        int kind = 0;
        facts->errors[i] = message->error;
        facts->offsets[i] = message->offset;
        facts->values[i] = facts->keys[i] = facts->times[i] = -1;
        if (UNLIKELY(message->error != 0)) {
            errors++;
            continue;
        }
        if (UNLIKELY(message->partition != partition)) {
            return -1;
        }
        if (message->payload != NULL) {
            facts->values[i] = (int64_t)message->length;
        }
        if (message->key != NULL) {
            facts->keys[i] = (int64_t)message->key_length;
        }
        int64_t at = time_of(message, &kind);
        if (kind != 0 && at >= 0) {
            facts->times[i] = at;
        }
    }
    return errors;
}

/* Copies the values, or the keys, of those messages that have one, each followed by a line feed; `ends` gets 0 and then
 * the end of each. Returns how many there are, or -1 where they need more than `room`, which is below 2^31. */
int64_t sh_kafka_frame(const void *const *messages, int64_t count, int64_t keys, uint8_t *out, int64_t room,
                       int32_t *ends) {
    int64_t used = 0, found = 0;
    ends[0] = 0;
    for (int64_t i = 0; i < count; i++) {
        const struct sh_message *message = messages[i];
        const uint8_t *bytes = keys ? message->key : message->payload;
        size_t length = keys ? message->key_length : message->length;
        if (bytes == NULL) {
            continue;
        }
        if (UNLIKELY(room <= used || length >= (uint64_t)(room - used))) {
            return -1;
        }
        memcpy(out + used, bytes, length);
        used += (int64_t)length + 1;
        out[used - 1] = '\n';
        ends[++found] = (int32_t)used;
    }
    return found;
}

/* Gives all messages back to librdkafka. */
void sh_kafka_release(void *const *messages, int64_t count, sh_kafka_free *free_message) {
    for (int64_t i = 0; i < count; i++) {
        free_message(messages[i]);
    }
}
