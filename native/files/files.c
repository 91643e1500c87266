/* Many small files, each opened, read and closed. */
#define _GNU_SOURCE /* preadv */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "files/files.h"

/* Why a file is not taken, if it is not the system's error. */
enum { SHORT = -1, OTHER_HEAD = -2, NO_ROOM = -3 };

static int32_t read_one(const char *name, const uint8_t *head, int64_t head_length, uint8_t *scratch, uint8_t *out,
                        int64_t size) {
    int file = open(name, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe without a writer would keep us */
    if (file < 0) {
        return errno;
    }
    struct iovec parts[2] = {{scratch, (size_t)head_length}, {out, (size_t)size}};
    ssize_t found = preadv(file, parts, 2, 0);
    int32_t error = found < 0 ? errno : found != head_length + size ? SHORT : 0;
    close(file);
    return error == 0 && memcmp(scratch, head, (size_t)head_length) != 0 ? OTHER_HEAD : error;
}

/* Of each file the bytes behind `head`, which it has to begin with: sizes[i] of them, one file's behind the other's in
 * `out`. The names stand one behind the other, each with a NUL at its end; `scratch` has room for a head. errors[i] is
 * 0, or says why the bytes are not those of the file. Returns how many files were read. */
int64_t sh_read_files(const uint8_t *names, int64_t names_size, int64_t count, const uint8_t *head, int64_t head_length,
                      uint8_t *scratch, const int64_t *sizes, uint8_t *out, int64_t room, int32_t *errors) {
    int64_t good = 0, name = 0, at = 0;
    for (int64_t i = 0; i < count; i++) {
        const uint8_t *end = name < names_size ? memchr(names + name, 0, (size_t)(names_size - name)) : NULL;
        if (end == NULL || sizes[i] < 0 || sizes[i] > room - at) {
            for (; i < count; i++) {
                errors[i] = NO_ROOM;
            }
            break;
        }
        errors[i] = read_one((const char *)names + name, head, head_length, scratch, out + at, sizes[i]);
        good += errors[i] == 0;
        name = end - names + 1;
        at += sizes[i];
    }
    return good;
}
