/* Small files, many at once. */
#ifndef SPARKHAVEN_FILES_H
#define SPARKHAVEN_FILES_H

#include "abi.h"

SH_API int64_t sh_read_files(const uint8_t *names, int64_t names_size, int64_t count, const uint8_t *head,
                             int64_t head_length, uint8_t *scratch, const int64_t *sizes, uint8_t *out, int64_t room,
                             int32_t *errors);

#endif
