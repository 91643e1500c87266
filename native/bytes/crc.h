/* The CRC-32 of gzip and zlib (polynomial 0x04C11DB7), and CRC-32C, which Kafka has (0x1EDC6F41). Bits are reflected,
 * all ones before and after. */
#ifndef SPARKHAVEN_CRC_H
#define SPARKHAVEN_CRC_H

#include "abi.h"

/* That of `size` bytes behind bytes whose CRC-32 is `crc`; 0 for none. */
uint32_t sh_crc(const uint8_t *data, int64_t size, uint32_t crc);
uint32_t sh_crc_castagnoli(const uint8_t *data, int64_t size, uint32_t crc);

SH_API void sh_crc32(const void *data, const int64_t *sizes, int64_t count, uint32_t *sums);

#endif
