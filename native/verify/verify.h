/* Files of a column held against what is known of them. */
#ifndef SPARKHAVEN_VERIFY_H
#define SPARKHAVEN_VERIFY_H

#include "abi.h"

/* checked.c */
SH_API int64_t sh_count_nulls(const void *entries, int64_t width, int64_t count, uint64_t null);
SH_API int64_t sh_valid_bits(const void *entries, int64_t width, int64_t count, uint64_t null, uint8_t *bits);
SH_API int64_t sh_check_ids(const void *ids, int64_t count, int64_t entries);
SH_API int64_t sh_check_texts(const void *ends, int64_t count, int64_t first, const uint8_t *data, int64_t size,
                              int64_t ascii, int32_t *out, int64_t *found);

/* verify.c */
SH_API int64_t sh_verify_fixed(int64_t kind, int64_t width, const void *entries, int64_t count, const void *bounds,
                               int64_t *found, uint32_t *crc);
SH_API int64_t sh_verify_ids(const void *ids, int64_t count, int64_t entries, uint32_t *crc);
SH_API int64_t sh_verify_texts(const void *ends, int64_t count, int64_t first, const uint8_t *data, int64_t size,
                               int64_t ascii, const uint8_t *low, int64_t low_length, const uint8_t *high,
                               int64_t high_length, uint32_t *crcs);

#endif
