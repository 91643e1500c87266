/* What the entries of a fixed-width column are. */
#ifndef SPARKHAVEN_ENTRIES_H
#define SPARKHAVEN_ENTRIES_H

#include "abi.h"

enum sh_entry {
    SH_ENTRY_BYTE,
    SH_ENTRY_SHORT,
    SH_ENTRY_INT,
    SH_ENTRY_LONG, /* and ns since 1970 */
    SH_ENTRY_CHAR,
    SH_ENTRY_FLOAT,
    SH_ENTRY_DOUBLE,
    SH_ENTRY_BOOLEAN
};

#endif
