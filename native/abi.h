/* The functions and structures that Python knows are in the headers that include this one: scan/scan.h, merge/merge.h,
 * verify/verify.h, kafka/kafka.h, files/files.h, codings/codings.h, and some of bytes/.
 *
 * Every length has 64 bits, every buffer belongs to the caller, nothing is allocated here, and no byte is read outside
 * of the lengths given. Structures have no padding. A pointer to const char is Python's
 * bytes. After a change to a function or structure SH_ABI is one more, and `python -m native.abi` writes
 * store/native/abi.py from the headers.
 */
#ifndef SPARKHAVEN_ABI_H
#define SPARKHAVEN_ABI_H

#include <stdint.h>

#define SH_ABI 31
#define SH_API __attribute__((visibility("default")))

/* library.c: SH_ABI, and what the library is made of. */
SH_API int64_t sh_abi(void);
SH_API const char *sh_sources(void);

#endif
