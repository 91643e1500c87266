/* Texts of the files of a column, held against the bounds that statistics tell. */
#ifndef SPARKHAVEN_TEXT_BOUNDS_H
#define SPARKHAVEN_TEXT_BOUNDS_H

#include <stdint.h>

int64_t sh_texts_within(const int32_t *ends, int64_t count, const uint8_t *data, int64_t size, const uint8_t *low,
                        int64_t low_length, const uint8_t *high, int64_t high_length);

#endif
