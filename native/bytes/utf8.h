/* Strict UTF-8. */
#ifndef SPARKHAVEN_UTF8_H
#define SPARKHAVEN_UTF8_H

#include <stdint.h>

/* Whether bytes are strict UTF-8. */
int sh_is_text(const uint8_t *p, const uint8_t *stop);

/* Bytes of the character at p, whose first is no ASCII; 0 if it is none. */
int64_t sh_character(const uint8_t *p, const uint8_t *end);

/* Whether bytes are ASCII. */
int sh_is_ascii(const uint8_t *p, const uint8_t *stop);

#endif
