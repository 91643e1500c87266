/* What the processor can do at once, and the system keeps the registers for. */
#ifndef SPARKHAVEN_PROCESSOR_H
#define SPARKHAVEN_PROCESSOR_H

#include "abi.h"

extern int sh_compared;   /* bytes that are compared at once: 64, 32, or 0 where nothing is known */
extern int sh_multiplied; /* bytes that are multiplied without carries: 64, 16 or 0 */

SH_API int64_t sh_limit(int64_t bytes);

#endif
