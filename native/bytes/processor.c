/* Looks at the processor when the library is loaded: the compiler's own way to ask says no where Zig has linked it. */
#include "bytes/processor.h"

int sh_compared, sh_multiplied;

static int compared, multiplied;

#ifdef __x86_64__
#include <cpuid.h>

enum { YMM = 0x06, ZMM = 0xE6 }; /* registers, as XCR0 names those that the system keeps */

static int has(uint32_t bits, uint32_t wanted) { return (bits & wanted) == wanted; }

static void look(void) {
    uint32_t a, b, c, d, kept = 0, high;
    if (!__get_cpuid(1, &a, &b, &c, &d)) {
        return;
    }
    multiplied = has(c, bit_PCLMUL | bit_SSE4_1) ? 16 : 0;
    if (has(c, bit_OSXSAVE)) {
        __asm__("xgetbv" : "=a"(kept), "=d"(high) : "c"(0));
    }
    if (!has(kept, YMM) || !__get_cpuid_count(7, 0, &a, &b, &c, &d)) {
        return;
    }
    compared = has(b, bit_AVX2) ? 32 : 0;
    if (has(kept, ZMM) && has(b, bit_AVX2 | bit_AVX512F | bit_AVX512DQ | bit_AVX512BW | bit_AVX512VL)) {
        compared = 64;
        multiplied = multiplied != 0 && has(c, bit_VPCLMULQDQ) ? 64 : multiplied;
    }
}
#else
static void look(void) {}
#endif

/* As if the processor could do no more than so many bytes at once; returns what it can. Tests look at every way. */
int64_t sh_limit(int64_t bytes) {
    sh_compared = compared <= bytes ? compared : bytes >= 32 ? 32 : 0;
    sh_multiplied = multiplied <= bytes ? multiplied : bytes >= 16 ? 16 : 0;
    return compared > multiplied ? compared : multiplied;
}

__attribute__((constructor)) static void set_up(void) {
    look();
    sh_limit(64);
}
