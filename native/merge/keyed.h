/* Items in the order of their keys, those of equal keys as they came. */
#ifndef SPARKHAVEN_KEYED_H
#define SPARKHAVEN_KEYED_H

#include "merge/merge.h"

/* At most so many are sorted by sh_sort_few(). */
enum { SH_FEW = 24 };

void sh_sort_few(struct sh_keyed *items, int64_t count);

/* `spare` has room for as many items. */
void sh_sort_keyed(struct sh_keyed *items, struct sh_keyed *spare, int64_t count);

#endif
