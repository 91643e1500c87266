/* What the loader asks first: is this the library that the Python modules were written for. */
#include "abi.h"

#ifndef SPARKHAVEN_SOURCES
#define SPARKHAVEN_SOURCES "unknown"
#endif

int64_t sh_abi(void) { return SH_ABI; }

/* SHA-256 of the sources, for a test that compares it with those of the checkout. */
const char *sh_sources(void) { return "sparkhaven-sources:" SPARKHAVEN_SOURCES; }
