/* Texts into the buffers of a column: ids of them, or their bytes. */
#ifndef SPARKHAVEN_TEXT_IDS_H
#define SPARKHAVEN_TEXT_IDS_H

#include <string.h>

#include "scan/scan.h"

/* The id of the text p to stop as that of the row. `end` is how far may be read. 0 if in doubt. */
int sh_put_id(struct sh_column *column, int64_t row, const uint8_t *p, const uint8_t *stop, const uint8_t *end);

/* Where a text of at most `length` bytes may be made for a row, NULL if there is no room; and that it is done:
 * it ends at `stop`. */
uint8_t *sh_text_place(struct sh_column *column, int64_t row, int64_t length);
int sh_text_made(struct sh_column *column, int64_t row, const uint8_t *stop);

/* The bytes p to stop behind those of the rows before. `end` is how far may be read. 0 if there is no room. */
static inline int sh_put_bytes(struct sh_column *column, int64_t row, const uint8_t *p, const uint8_t *stop,
                               const uint8_t *end) {
    int64_t used = column->ends[row], length = stop - p;
    if (length > column->room - used || used + length > INT32_MAX) {
        return 0;
    }
    uint8_t *out = column->bytes + used;
    column->ends[row + 1] = (int32_t)(used + length);
    if (length <= 16 && end - p >= 16 && column->room - used >= 16) {
        memcpy(out, p, 16); /* of a known length: two moves, and what is too much is written over later */
    } else {
        memcpy(out, p, (size_t)length);
    }
    return 1;
}

/* The text p to stop as that of the row. 0 if in doubt. */
static inline int sh_put_text(struct sh_column *column, int64_t row, const uint8_t *p, const uint8_t *stop,
                              const uint8_t *end) {
    return column->ids != NULL ? sh_put_id(column, row, p, stop, end) : sh_put_bytes(column, row, p, stop, end);
}

#endif
