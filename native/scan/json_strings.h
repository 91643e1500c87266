/* Contents of JSON strings. */
#ifndef SPARKHAVEN_JSON_STRINGS_H
#define SPARKHAVEN_JSON_STRINGS_H

#include <stdint.h>

/* p is behind the opening quote, what is returned is at the closing one. */
const uint8_t *sh_string(const uint8_t *p, const uint8_t *end, int64_t last_lead, int *escaped);
int64_t sh_unescape(const uint8_t *p, const uint8_t *stop, int64_t last_lead, uint8_t *out);
int64_t sh_unit(const uint8_t *p, const uint8_t *stop);
int64_t sh_escaped_unit(const uint8_t *p, const uint8_t *stop);

#endif
