/* Numbers as texts have them. Parsers return where they ended, or NULL: in doubt. */
#ifndef SPARKHAVEN_NUMBERS_H
#define SPARKHAVEN_NUMBERS_H

#include <stdint.h>

/* A number is digits * 10^power, or a little more: less than 10^power. sh_number takes it as JSON has it;
 * sh_text_number also takes a plus sign, further zeros in front, and a point without digits before or behind it. */
struct sh_number {
    uint64_t digits;
    int64_t power;
    int negative, more;
};
const uint8_t *sh_number(const uint8_t *p, const uint8_t *end, struct sh_number *out);
const uint8_t *sh_text_number(const uint8_t *p, const uint8_t *end, struct sh_number *out);
int sh_whole(const struct sh_number *number, int64_t *out);
int sh_scaled(const struct sh_number *number, int64_t digits, int64_t *out);
int sh_double(const struct sh_number *number, const uint64_t *powers, double *out);
const uint8_t *sh_skip_number(const uint8_t *p, const uint8_t *end);

#endif
