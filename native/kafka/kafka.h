/* Messages of librdkafka, and record batches as a broker sends them. */
#ifndef SPARKHAVEN_KAFKA_H
#define SPARKHAVEN_KAFKA_H

#include <stddef.h>

#include "abi.h"

/* rd_kafka_message_t of rdkafka.h, the same in all versions with the name librdkafka.so.1. */
struct sh_message {
    int32_t error;
    const void *topic;
    int32_t partition;
    const uint8_t *payload;
    size_t length;
    const uint8_t *key;
    size_t key_length;
    int64_t offset;
    void *own;
};

/* Where sh_kafka_look writes what it finds of messages; each has an entry a message. */
struct sh_kafka_facts {
    int32_t *errors;
    int64_t *offsets, *values, *keys, *times;
};

typedef int64_t sh_kafka_time(const void *message, int *kind); /* rd_kafka_message_timestamp */
typedef void sh_kafka_free(void *message);                     /* rd_kafka_message_destroy */

SH_API int64_t sh_kafka_look(const void *const *messages, int64_t count, int64_t partition, sh_kafka_time *time_of,
                             const struct sh_kafka_facts *facts);
SH_API int64_t sh_kafka_frame(const void *const *messages, int64_t count, int64_t keys, uint8_t *out, int64_t room,
                              int32_t *ends);
SH_API void sh_kafka_release(void *const *messages, int64_t count, sh_kafka_free *free_message);

/* What is known of a record batch: where its records begin and end, offsets, and what its head says. */
enum sh_batch {
    SH_BATCH_START,
    SH_BATCH_STOP,
    SH_BATCH_FIRST,
    SH_BATCH_LAST,
    SH_BATCH_COUNT,
    SH_BATCH_ATTRIBUTES,
    SH_BATCH_TIME,
    SH_BATCH_MAX_TIME,
    SH_BATCH_PRODUCER,
    SH_BATCH_EPOCH,
    SH_BATCH_FIELDS
};

/* What is behind the last whole batch: one that is cut short, or nothing; further ones, for which there is no room; one
 * that cannot be; a message of another format. */
enum sh_batch_end { SH_BATCH_END_CUT, SH_BATCH_END_FULL, SH_BATCH_END_DAMAGED, SH_BATCH_END_MAGIC };

/* Where sh_kafka_records writes what it finds, an entry a record. Lengths are -1 where there is no value or no key, times
 * are ms since 1970 or -1. */
struct sh_record_facts {
    int64_t *offsets, *times, *value_starts, *values, *key_starts, *keys;
};

SH_API int64_t sh_kafka_batches(const void *data, int64_t size, int64_t *batches, int64_t room, int64_t *stopped);
SH_API int64_t sh_kafka_check(const void *data, const int64_t *batches, int64_t count);
SH_API int64_t sh_kafka_records(const void *data, const int64_t *batches, int64_t count, int64_t from,
                                const struct sh_record_facts *out, int64_t room);
SH_API int64_t sh_kafka_copy(const void *data, const int64_t *starts, const int64_t *lengths, int64_t count,
                             uint8_t *out, int64_t used, int64_t room, int32_t *ends);

#endif
