/* XXH3 of 128 bits: a prefix and a text as one input, of any length, without joining them in memory. */
#include "bytes/hash.h"

#define PRIME_3 UINT64_C(0x165667B19E3779F9)
#define PRIME_4 UINT64_C(0x85EBCA77C2B2AE63)
#define PRIME_5 UINT64_C(0x27D4EB2F165667C5)
#define PRIME32_1 UINT64_C(0x9E3779B1)
#define PRIME32_2 UINT64_C(0x85EBCA77)
#define PRIME32_3 UINT64_C(0xC2B2AE3D)

enum { SECRET = 192, STRIPE = 64, STRIPES = 16, MEDIUM = 240 };

static const uint8_t secret[SECRET] = {
    0xb8, 0xfe, 0x6c, 0x39, 0x23, 0xa4, 0x4b, 0xbe, 0x7c, 0x01, 0x81, 0x2c, 0xf7, 0x21, 0xad, 0x1c, 0xde, 0xd4,
    0x6d, 0xe9, 0x83, 0x90, 0x97, 0xdb, 0x72, 0x40, 0xa4, 0xa4, 0xb7, 0xb3, 0x67, 0x1f, 0xcb, 0x79, 0xe6, 0x4e,
    0xcc, 0xc0, 0xe5, 0x78, 0x82, 0x5a, 0xd0, 0x7d, 0xcc, 0xff, 0x72, 0x21, 0xb8, 0x08, 0x46, 0x74, 0xf7, 0x43,
    0x24, 0x8e, 0xe0, 0x35, 0x90, 0xe6, 0x81, 0x3a, 0x26, 0x4c, 0x3c, 0x28, 0x52, 0xbb, 0x91, 0xc3, 0x00, 0xcb,
    0x88, 0xd0, 0x65, 0x8b, 0x1b, 0x53, 0x2e, 0xa3, 0x71, 0x64, 0x48, 0x97, 0xa2, 0x0d, 0xf9, 0x4e, 0x38, 0x19,
    0xef, 0x46, 0xa9, 0xde, 0xac, 0xd8, 0xa8, 0xfa, 0x76, 0x3f, 0xe3, 0x9c, 0x34, 0x3f, 0xf9, 0xdc, 0xbb, 0xc7,
    0xc7, 0x0b, 0x4f, 0x1d, 0x8a, 0x51, 0xe0, 0x4b, 0xcd, 0xb4, 0x59, 0x31, 0xc8, 0x9f, 0x7e, 0xc9, 0xd9, 0x78,
    0x73, 0x64, 0xea, 0xc5, 0xac, 0x83, 0x34, 0xd3, 0xeb, 0xc3, 0xc5, 0x81, 0xa0, 0xff, 0xfa, 0x13, 0x63, 0xeb,
    0x17, 0x0d, 0xdd, 0x51, 0xb7, 0xf0, 0xda, 0x49, 0xd3, 0x16, 0x55, 0x26, 0x29, 0xd4, 0x68, 0x9e, 0x2b, 0x16,
    0xbe, 0x58, 0x7d, 0x47, 0xa1, 0xfc, 0x8f, 0xf8, 0xb8, 0xd1, 0x7a, 0xd0, 0x31, 0xce, 0x45, 0xcb, 0x3a, 0x8f,
    0x95, 0x16, 0x04, 0x28, 0xaf, 0xd7, 0xfb, 0xca, 0xbb, 0x4b, 0x40, 0x7e};

static inline uint64_t word(const uint8_t *p) {
    uint64_t found;
    memcpy(&found, p, 8);
    return found;
}

static inline sh_u128 joined(uint64_t low, uint64_t high) { return (sh_u128)high << 64 | low; }

static inline uint64_t folded(uint64_t a, uint64_t b) {
    sh_u128 product = (sh_u128)a * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

/* 5 to 8 bytes. */
static sh_u128 few(const uint8_t *p, uint64_t length) {
    uint32_t first, last;
    memcpy(&first, p, 4);
    memcpy(&last, p + length - 4, 4);
    uint64_t value = word(secret + 16) ^ word(secret + 24) ^ ((uint64_t)last << 32 | first);
    sh_u128 product = (sh_u128)value * (SH_PRIME_1 + (length << 2));
    uint64_t low = (uint64_t)product, high = (uint64_t)(product >> 64) + (low << 1);
    low ^= high >> 3;
    low ^= low >> 35;
    low *= UINT64_C(0x9FB21C651E98DF25);
    low ^= low >> 28;
    return joined(low, sh_avalanche(high));
}

struct pair {
    uint64_t a, b;
};

static inline struct pair pair_at(const uint8_t *p) { return (struct pair){word(p), word(p + 8)}; }

/* Two pieces of 16 bytes with 32 bytes of the secret. */
static inline void mix_pairs(struct pair *acc, struct pair one, struct pair two, const uint8_t *key) {
    acc->a += folded(one.a ^ word(key), one.b ^ word(key + 8));
    acc->b += folded(two.a ^ word(key + 16), two.b ^ word(key + 24));
    acc->a ^= two.a + two.b;
    acc->b ^= one.a + one.b;
}

static inline void mix(struct pair *acc, const uint8_t *one, const uint8_t *two, const uint8_t *key) {
    mix_pairs(acc, pair_at(one), pair_at(two), key);
}

static inline sh_u128 finished(struct pair acc, int64_t length) {
    uint64_t high = acc.a * SH_PRIME_1 + acc.b * PRIME_4 + (uint64_t)length * SH_PRIME_2;
    return joined(sh_avalanche(acc.a + acc.b), 0 - sh_avalanche(high));
}

/* 16 bytes of prefix and text, from byte `at` on: what lies in both is put together in a register. */
static inline struct pair joint_at(uint64_t prefix, const uint8_t *text, int64_t at) {
    uint64_t first =
        at < SH_PREFIX ? prefix >> 8 * at | word(text) << 8 * (SH_PREFIX - at) : word(text + (at - SH_PREFIX));
    return (struct pair){first, word(text + (at + 8 - SH_PREFIX))};
}

/* 17 to 128 bytes of prefix and text. */
static inline sh_u128 joint(uint64_t prefix, const uint8_t *text, int64_t length) {
    struct pair acc = {(uint64_t)length * SH_PRIME_1, 0};
    for (int64_t i = (length - 1) >> 5; i > 0; i--) {
        mix_pairs(&acc, pair_at(text + (i * 16 - SH_PREFIX)), joint_at(prefix, text, length - i * 16 - 16),
                  secret + i * 32);
    }
    mix_pairs(&acc, joint_at(prefix, text, 0), joint_at(prefix, text, length - 16), secret);
    return finished(acc, length);
}

/* Up to 16 bytes, in steps of known lengths. */
static inline void copy_few(uint8_t *to, const uint8_t *text, int64_t length) {
    if (length >= 16) {
        memcpy(to, text, 16);
    } else if (length >= 8) {
        uint64_t first = word(text), last = word(text + length - 8);
        memcpy(to, &first, 8);
        memcpy(to + length - 8, &last, 8);
    } else {
        for (int64_t i = 0; i < length; i++) {
            to[i] = text[i];
        }
    }
}

/* 129 to 240 bytes. Those behind HEAD are read where they lie: `text` has those from SH_PREFIX on, `head` those
 * before. */
static inline sh_u128 medium(const uint8_t *head, const uint8_t *text, int64_t length) {
    struct pair acc = {(uint64_t)length * SH_PRIME_1, 0};
    for (int64_t i = 0; i < 4; i++) {
        mix(&acc, i == 0 ? head : text + (i * 32 - SH_PREFIX), text + (i * 32 + 16 - SH_PREFIX), secret + i * 32);
    }
    acc.a = sh_avalanche(acc.a);
    acc.b = sh_avalanche(acc.b);
    for (int64_t i = 4; i < length >> 5; i++) {
        mix(&acc, text + (i * 32 - SH_PREFIX), text + (i * 32 + 16 - SH_PREFIX), secret + (i - 4) * 32 + 3);
    }
    mix(&acc, text + (length - 16 - SH_PREFIX), text + (length - 32 - SH_PREFIX), secret + 103);
    return finished(acc, length);
}

static inline void accumulate(uint64_t *acc, const uint8_t *stripe, const uint8_t *key) {
    for (int64_t i = 0; i < 8; i++) {
        uint64_t value = word(stripe + 8 * i), keyed = value ^ word(key + 8 * i);
        acc[i ^ 1] += value;
        acc[i] += (keyed & UINT64_C(0xFFFFFFFF)) * (keyed >> 32);
    }
}

static uint64_t merged(const uint64_t *acc, uint64_t start, const uint8_t *key) {
    for (int64_t i = 0; i < 8; i += 2) {
        start += folded(acc[i] ^ word(key + 8 * i), acc[i + 1] ^ word(key + 8 * i + 8));
    }
    return sh_avalanche(start);
}

/* More than 240 bytes: those of `head`, which has a stripe, then those of `text` from SH_PREFIX before. */
static sh_u128 large(const uint8_t *head, const uint8_t *text, int64_t length) {
    uint64_t acc[8] = {PRIME32_3, SH_PRIME_1, SH_PRIME_2, PRIME_3, PRIME_4, PRIME32_2, PRIME_5, PRIME32_1};
    int64_t stripes = (length - 1) / STRIPE;
    for (int64_t i = 0; i < stripes; i++) {
        const uint8_t *stripe = i == 0 ? head : text + (i * STRIPE - SH_PREFIX);
        accumulate(acc, stripe, secret + i % STRIPES * 8);
        if (i % STRIPES == STRIPES - 1) {
            for (int64_t k = 0; k < 8; k++) {
                acc[k] = (acc[k] ^ acc[k] >> 47 ^ word(secret + SECRET - STRIPE + 8 * k)) * PRIME32_1;
            }
        }
    }
    accumulate(acc, text + (length - STRIPE - SH_PREFIX), secret + SECRET - STRIPE - 7);
    return joined(merged(acc, (uint64_t)length * SH_PRIME_1, secret + 11),
                  merged(acc, ~((uint64_t)length * SH_PRIME_2), secret + SECRET - STRIPE - 11));
}

sh_u128 sh_hash_text(uint64_t prefix, const uint8_t *text, int64_t length) {
    uint8_t input[STRIPE];
    int64_t total = length + SH_PREFIX;
    if (LIKELY(total > 16 && total <= 128)) {
        return joint(prefix & ((UINT64_C(1) << 8 * SH_PREFIX) - 1), text, total);
    }
    memcpy(input, &prefix, 8);
    if (total > MEDIUM) {
        memcpy(input + SH_PREFIX, text, STRIPE - SH_PREFIX);
        return large(input, text, total);
    }
    copy_few(input + SH_PREFIX, text, length);
    if (total <= 8) {
        return few(input, (uint64_t)total);
    }
    if (total <= 16) {
        return sh_hash_short(word(input), word(input + total - 8), (uint64_t)total);
    }
    return medium(input, text, total);
}
