/* Record batches of Kafka as a broker sends them. */
#ifndef SPARKHAVEN_KAFKA_H
#define SPARKHAVEN_KAFKA_H

#include "abi.h"

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
SH_API int64_t sh_kafka_headers(const void *data, int64_t size, const int64_t *starts, int64_t count, const void *name,
                                int64_t name_size, int64_t *places, int64_t *lengths);

#endif
