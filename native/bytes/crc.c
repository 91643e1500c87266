/* CRC-32 of two polynomials, eight bytes at a time by tables, or as wide as the processor multiplies without carries.
 *
 * Folding, after Gopal and others, "Fast CRC Computation for Generic Polynomials Using PCLMULQDQ Instruction" (Intel,
 * 2009): bytes may be replaced by others of the same remainder that stand further behind, so lanes are moved over the
 * data until one of 16 bytes is left, whose remainder the tables give. */
#include "bytes/crc.h"
#include "bytes/bytes.h"

enum { TABLES = 8, LANE = 16, FOLDED = 4 * LANE };

/* The polynomial with its bits reflected, the remainders of bytes, and x^(8 n + 32) and x^(8 n - 32) modulo it, which
 * move a lane by n bytes. */
struct polynomial {
    uint32_t bits, tables[TABLES][256];
    uint64_t by_lane[2], by_four[2], by_four_wide[2];
};

static struct polynomial plain = {.bits = UINT32_C(0xEDB88320)}, castagnoli = {.bits = UINT32_C(0x82F63B78)};

static uint32_t by_tables(const struct polynomial *of, const uint8_t *p, int64_t size, uint32_t state) {
    for (; size >= 8; size -= 8, p += 8) {
        uint64_t word;
        memcpy(&word, p, 8);
        word ^= state;
        state = 0;
        for (int i = 0; i < TABLES; i++) {
            state ^= of->tables[TABLES - 1 - i][word >> 8 * i & 0xFF];
        }
    }
    for (; size > 0; size--, p++) {
        state = state >> 8 ^ of->tables[0][(state ^ *p) & 0xFF];
    }
    return state;
}

/* A state behind one more bit that is zero. */
static uint32_t shifted(const struct polynomial *of, uint32_t state) {
    return state >> 1 ^ ((state & 1) != 0 ? of->bits : 0);
}

#ifdef __x86_64__
#include <immintrin.h>

#include "bytes/processor.h"

#define NARROW __attribute__((target("sse4.1,pclmul")))
#define WIDE __attribute__((target("avx512f,vpclmulqdq")))

enum { WIDE_LANE = 64, WIDE_FOLDED = 4 * WIDE_LANE };

static void set_power(const struct polynomial *of, uint64_t *out, int bytes) {
    for (int i = 0; i < 2; i++) {
        uint32_t state = UINT32_C(1) << 31;
        for (int bits = 8 * bytes + (i == 0 ? 32 : -32); bits > 0; bits--) {
            state = shifted(of, state);
        }
        out[i] = (uint64_t)state << 1;
    }
}

static void set_up_machine(struct polynomial *of) {
    set_power(of, of->by_lane, LANE);
    set_power(of, of->by_four, FOLDED);
    set_power(of, of->by_four_wide, WIDE_FOLDED);
}

NARROW static inline __m128i moved(__m128i lane, __m128i power) {
    return _mm_xor_si128(_mm_clmulepi64_si128(lane, power, 0x00), _mm_clmulepi64_si128(lane, power, 0x11));
}

NARROW static inline __m128i lane_at(const uint8_t *p) { return _mm_loadu_si128((const __m128i *)p); }

/* Of FOLDED bytes and a multiple of LANE more. */
NARROW static uint32_t by_lanes(const struct polynomial *of, const uint8_t *p, int64_t size, uint32_t state) {
    const __m128i four = lane_at((const uint8_t *)of->by_four), one = lane_at((const uint8_t *)of->by_lane);
    __m128i lanes[4];
    for (int64_t i = 0; i < 4; i++) {
        lanes[i] = lane_at(p + i * LANE);
    }
    lanes[0] = _mm_xor_si128(lanes[0], _mm_cvtsi32_si128((int)state));
    for (p += FOLDED, size -= FOLDED; size >= FOLDED; p += FOLDED, size -= FOLDED) {
        for (int64_t i = 0; i < 4; i++) {
            lanes[i] = _mm_xor_si128(moved(lanes[i], four), lane_at(p + i * LANE));
        }
    }
    for (int64_t i = 1; i < 4; i++) {
        lanes[0] = _mm_xor_si128(moved(lanes[0], one), lanes[i]);
    }
    for (; size >= LANE; p += LANE, size -= LANE) {
        lanes[0] = _mm_xor_si128(moved(lanes[0], one), lane_at(p));
    }
    uint8_t left[LANE];
    memcpy(left, lanes, LANE);
    return by_tables(of, left, LANE, 0);
}

/* Of a multiple of WIDE_FOLDED bytes. */
WIDE static uint32_t by_wide_lanes(const struct polynomial *of, const uint8_t *p, int64_t size, uint32_t state) {
    const __m512i power = _mm512_set4_epi64((long long)of->by_four_wide[1], (long long)of->by_four_wide[0],
                                            (long long)of->by_four_wide[1], (long long)of->by_four_wide[0]);
    __m512i lanes[4];
    for (int64_t i = 0; i < 4; i++) {
        lanes[i] = _mm512_loadu_si512(p + i * WIDE_LANE);
    }
    lanes[0] = _mm512_xor_si512(lanes[0], _mm512_zextsi128_si512(_mm_cvtsi32_si128((int)state)));
    for (p += WIDE_FOLDED, size -= WIDE_FOLDED; size >= WIDE_FOLDED; p += WIDE_FOLDED, size -= WIDE_FOLDED) {
        for (int64_t i = 0; i < 4; i++) {
            lanes[i] = _mm512_ternarylogic_epi64(_mm512_clmulepi64_epi128(lanes[i], power, 0x00),
                                                 _mm512_clmulepi64_epi128(lanes[i], power, 0x11),
                                                 _mm512_loadu_si512(p + i * WIDE_LANE), 0x96);
        }
    }
    uint8_t left[WIDE_FOLDED];
    memcpy(left, lanes, WIDE_FOLDED);
    return by_lanes(of, left, WIDE_FOLDED, 0);
}

static uint32_t state_behind(const struct polynomial *of, const uint8_t *p, int64_t size, uint32_t state) {
    if (sh_multiplied == 64 && size >= WIDE_FOLDED) {
        const int64_t part = size & -(int64_t)WIDE_FOLDED;
        state = by_wide_lanes(of, p, part, state);
        p += part;
        size -= part;
    }
    if (sh_multiplied != 0 && size >= FOLDED) {
        const int64_t part = size & -(int64_t)LANE;
        state = by_lanes(of, p, part, state);
        p += part;
        size -= part;
    }
    return by_tables(of, p, size, state);
}
#elif defined(__aarch64__)
#include <arm_acle.h>
#include <sys/auxv.h>

static int has_instruction;

static void set_up_machine(struct polynomial *of) {
    has_instruction = (getauxval(AT_HWCAP) & 1 << 7) != 0; /* HWCAP_CRC32 */
    (void)of;
}

__attribute__((target("crc"))) static uint32_t by_instruction(const struct polynomial *of, const uint8_t *p,
                                                              int64_t size, uint32_t state) {
    for (; size >= 8; size -= 8, p += 8) {
        uint64_t word;
        memcpy(&word, p, 8);
        state = of == &plain ? __crc32d(state, word) : __crc32cd(state, word);
    }
    for (; size > 0; size--, p++) {
        state = of == &plain ? __crc32b(state, *p) : __crc32cb(state, *p);
    }
    return state;
}

static uint32_t state_behind(const struct polynomial *of, const uint8_t *p, int64_t size, uint32_t state) {
    return has_instruction ? by_instruction(of, p, size, state) : by_tables(of, p, size, state);
}
#else
static void set_up_machine(struct polynomial *of) { (void)of; }

static uint32_t state_behind(const struct polynomial *of, const uint8_t *p, int64_t size, uint32_t state) {
    return by_tables(of, p, size, state);
}
#endif

static void set_up_one(struct polynomial *of) {
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t state = byte;
        for (int bit = 0; bit < 8; bit++) {
            state = shifted(of, state);
        }
        of->tables[0][byte] = state;
    }
    for (int i = 1; i < TABLES; i++) {
        for (int byte = 0; byte < 256; byte++) {
            of->tables[i][byte] = of->tables[i - 1][byte] >> 8 ^ of->tables[0][of->tables[i - 1][byte] & 0xFF];
        }
    }
    set_up_machine(of);
}

__attribute__((constructor)) static void set_up(void) {
    set_up_one(&plain);
    set_up_one(&castagnoli);
}

uint32_t sh_crc(const uint8_t *data, int64_t size, uint32_t crc) { return ~state_behind(&plain, data, size, ~crc); }

uint32_t sh_crc_castagnoli(const uint8_t *data, int64_t size, uint32_t crc) {
    return ~state_behind(&castagnoli, data, size, ~crc);
}

/* The same of `count` parts that lie one behind the other; each of `sums` is that of the bytes before its part, and
 * becomes that of all. */
void sh_crc32(const void *data, const int64_t *sizes, int64_t count, uint32_t *sums) {
    const uint8_t *p = data;
    for (int64_t i = 0; i < count; p += sizes[i], i++) {
        sums[i] = sh_crc(p, sizes[i], sums[i]);
    }
}
