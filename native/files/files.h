/* Small files and their directories, many at once. */
#ifndef SPARKHAVEN_FILES_H
#define SPARKHAVEN_FILES_H

#include "abi.h"

/* files.c */
SH_API int64_t sh_read_files(const uint8_t *names, int64_t names_size, int64_t count, const uint8_t *head,
                             int64_t head_length, uint8_t *scratch, const int64_t *sizes, uint8_t *out, int64_t room,
                             int32_t *errors);

/* What directories have in common: `count` files, whose names have a NUL each at their end, and before whose committed
 * bytes stand starts[i] others; and a record in which numbers of 8 bytes stand at `places`: the directory's own, the
 * lengths, the checksums. */
struct sh_directory_form {
    const char *names;
    int64_t names_size, count;
    const int64_t *starts;
    const char *record;
    int64_t record_size;
    const int64_t *places;
};

/* Where in `paths` and `packed` the path of a directory begins, and its lengths and checksums; its own numbers. */
struct sh_directory {
    int64_t form, path, packed, rows, time, epoch;
};

/* Directories: their paths have a NUL each at their end, and in `packed` stand, for each, the width of a length (4 or
 * 8), all lengths, and all checksums in 4 bytes each. */
struct sh_directories {
    const struct sh_directory_form *forms;
    int64_t form_count;
    const char *paths;
    int64_t paths_size;
    const uint8_t *packed;
    int64_t packed_size;
};

/* directories.c */
SH_API int64_t sh_compare_directories(const char *root, const struct sh_directories *all,
                                      const struct sh_directory *asked, int64_t count, uint8_t *scratch, int64_t room,
                                      uint8_t *exact);

/* small.c */
SH_API int64_t sh_read_whole_files(const char *root, const char *names, int64_t names_size, int64_t count,
                                   uint8_t *scratch, int64_t most, uint8_t *out, int64_t room, int64_t *sizes);
SH_API int64_t sh_list_directories(const char *root, const char *names, int64_t names_size, int64_t count, uint8_t *out,
                                   int64_t room, int64_t *sizes);

#endif
