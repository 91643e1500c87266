/* Messages of librdkafka. */
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

#endif
