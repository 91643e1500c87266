/* Small files and directories below one, each opened, read and closed, with all that they have. */
#define _GNU_SOURCE /* O_DIRECTORY */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "files/files.h"
#include "files/listing.h"

/* Why there is nothing of a file or directory, instead of its size; ABSENT also where something else has its name. */
enum { ABSENT = -1, UNREAD = -2, NO_ROOM = -3 };

static int64_t reason(void) { return errno == ENOENT || errno == ENOTDIR ? ABSENT : UNREAD; }

static int64_t read_whole(int root, const char *name, uint8_t *scratch, int64_t most, uint8_t *out, int64_t room) {
    int file = openat(root, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe without a writer would keep us */
    if (file < 0) {
        return reason();
    }
    int64_t size = pread(file, scratch, (size_t)most, 0);
    close(file);
    if (size < 0 || size == most) {
        return UNREAD;
    }
    if (size > room) {
        return NO_ROOM;
    }
    memcpy(out, scratch, (size_t)size);
    return size;
}

static int64_t list_names(int root, const char *name, uint8_t *out, int64_t room) {
    _Alignas(8) char listing[LISTING];
    int directory = openat(root, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (directory < 0) {
        return reason();
    }
    int64_t size = 0;
    long got;
    while (size >= 0 && (got = next_entries(directory, listing)) != 0) {
        for (const char *entry = listing; size >= 0 && entry < listing + got; entry += entry_length(entry)) {
            const char *found = entry_name(entry);
            int64_t name_size = (int64_t)strlen(found) + 1;
            if (is_own_or_parent(found)) {
                continue;
            }
            if (name_size > room - size) {
                size = NO_ROOM;
            } else {
                memcpy(out + size, found, (size_t)name_size);
                size += name_size;
            }
        }
        size = got < 0 ? UNREAD : size;
    }
    close(directory);
    return size;
}

/* Where the next of several names begins, each with a NUL at its end; NULL: they end before. */
static const char *next_name(const char *name, const char *end) {
    const char *stop = name < end ? memchr(name, 0, (size_t)(end - name)) : NULL;
    return stop == NULL ? NULL : stop + 1;
}

/* Of each name below `root` the whole file, or where there is no `scratch` the names in the directory. */
static int64_t each_below(const char *root, const char *names, int64_t names_size, int64_t count, uint8_t *scratch,
                          int64_t most, uint8_t *out, int64_t room, int64_t *sizes) {
    int directory = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const char *name = names, *end = names + names_size, *next;
    int64_t done = 0, used = 0;
    for (; done < count && (next = next_name(name, end)) != NULL; done++, name = next) {
        int64_t size = directory < 0     ? UNREAD
                       : scratch == NULL ? list_names(directory, name, out + used, room - used)
                                         : read_whole(directory, name, scratch, most, out + used, room - used);
        if (size == NO_ROOM) {
            break;
        }
        sizes[done] = size;
        used += size > 0 ? size : 0;
    }
    if (directory >= 0) {
        close(directory);
    }
    return done;
}

/* Of each file below `root` all bytes, if they are fewer than `most`, one file's behind the other's in `out`: sizes[i]
 * of them, or why there are none. `scratch` has room for `most`. Returns of how many sizes[i] was set: of the first
 * for which there was no room, of none. */
int64_t sh_read_whole_files(const char *root, const char *names, int64_t names_size, int64_t count, uint8_t *scratch,
                            int64_t most, uint8_t *out, int64_t room, int64_t *sizes) {
    return each_below(root, names, names_size, count, scratch, most, out, room, sizes);
}

/* The same of the names in each directory, without `.` and `..`, in any order, each with a NUL at its end. */
int64_t sh_list_directories(const char *root, const char *names, int64_t names_size, int64_t count, uint8_t *out,
                            int64_t room, int64_t *sizes) {
    return each_below(root, names, names_size, count, NULL, 0, out, room, sizes);
}
