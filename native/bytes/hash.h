/* XXH3 of 128 bits with seed 0, after its published specification; and sums of hashes. */
#ifndef SPARKHAVEN_HASH_H
#define SPARKHAVEN_HASH_H

#include "bytes/bytes.h"

typedef unsigned __int128 sh_u128;

/* Bytes of text that come behind the prefix of a hash: column id and type tag. */
enum { SH_PREFIX = 5 };

/* The hash of SH_PREFIX bytes, the low ones of `prefix`, and `length` bytes of text behind them. */
sh_u128 sh_hash_text(uint64_t prefix, const uint8_t *text, int64_t length);

#define SH_PRIME_1 UINT64_C(0x9E3779B185EBCA87)
#define SH_PRIME_2 UINT64_C(0xC2B2AE3D27D4EB4F)
#define SH_FACTOR (UINT64_C(0x85EBCA77) - 1)
/* of 9 to 16 bytes */
#define SH_KEY_VALUE (UINT64_C(0x8E2443F7744608B8) ^ UINT64_C(0x4C263A81E69035E0))
#define SH_KEY_BOTH (UINT64_C(0x78E5C0CC4EE679CB) ^ UINT64_C(0x2172FFCC7DD05A82))

static inline uint64_t sh_avalanche(uint64_t h) {
    h ^= h >> 37;
    h *= UINT64_C(0x165667919E3779F9);
    return h ^ (h >> 32);
}

/* The hash of 9 to 16 bytes, of which first and last are the first and the last 8. */
static inline sh_u128 sh_hash_short(uint64_t first, uint64_t last, uint64_t length) {
    uint64_t value = last ^ SH_KEY_VALUE;
    sh_u128 product = (sh_u128)(first ^ last ^ SH_KEY_BOTH) * SH_PRIME_1;
    uint64_t low = (uint64_t)product + ((length - 1) << 54);
    uint64_t high = (uint64_t)(product >> 64) + value + (value & UINT64_C(0xFFFFFFFF)) * SH_FACTOR;
    product = (sh_u128)(low ^ __builtin_bswap64(high)) * SH_PRIME_2;
    high = (uint64_t)(product >> 64) + high * SH_PRIME_2;
    return (sh_u128)sh_avalanche(high) << 64 | sh_avalanche((uint64_t)product);
}

#endif
