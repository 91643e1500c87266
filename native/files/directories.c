/* Directories that hold what a log says of them: whether they do exactly that, each by one listing, one look at each
 * file, and one read of its record. */
#define _GNU_SOURCE /* O_DIRECTORY */
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bytes/bytes.h"
#include "files/files.h"
#include "files/listing.h"

enum { NUMBER = 8, OWN = 3, CHECKSUM = 4 };

/* Lengths and checksums of the files of a directory: the width of a length, then all of each. */
struct packed_files {
    const uint8_t *lengths, *checksums;
    int64_t width;
};

/* A number of 4 or 8 bytes. */
static uint64_t number_of(const uint8_t *bytes, int64_t width) {
    uint64_t number = 0;
    memcpy(&number, bytes, (size_t)width);
    return number;
}

static int unpack(const struct sh_directories *all, int64_t at, int64_t count, struct packed_files *files) {
    if (at < 0 || at >= all->packed_size) {
        return 0;
    }
    files->width = all->packed[at];
    if ((files->width != 4 && files->width != 8) || count > (all->packed_size - at - 1) / (files->width + CHECKSUM)) {
        return 0;
    }
    files->lengths = all->packed + at + 1;
    files->checksums = files->lengths + count * files->width;
    return 1;
}

/* Whether all files of the form are there and as long as they should be. */
static int has_files(int directory, const struct sh_directory_form *form, const struct packed_files *files) {
    const char *name = form->names, *end = form->names + form->names_size;
    for (int64_t i = 0; i < form->count; i++) {
        const char *stop = memchr(name, 0, (size_t)(end - name));
        struct stat status;
        if (stop == NULL || fstatat(directory, name, &status, 0) != 0 || !S_ISREG(status.st_mode)) {
            return 0;
        }
        uint64_t length = number_of(files->lengths + i * files->width, files->width) + (uint64_t)form->starts[i];
        if ((uint64_t)status.st_size != length) {
            return 0;
        }
        name = stop + 1;
    }
    return 1;
}

/* Whether nothing is there but `count` files, the record, which may lack, a definition, and perhaps an owner mark. */
static int has_no_more(int directory, int64_t count) {
    _Alignas(8) char listing[LISTING];
    int defined = 0;
    long size;
    while ((size = next_entries(directory, listing)) > 0) {
        for (const char *entry = listing; entry < listing + size; entry += entry_length(entry)) {
            const char *name = entry_name(entry);
            if (strcmp(name, "table.tbl") == 0) {
                defined = 1;
            } else if (!is_own_or_parent(name) && strcmp(name, "table.size") != 0 && strcmp(name, ".stream") != 0) {
                count--;
            }
        }
    }
    return size == 0 && defined && count == 0;
}

static void put_number(const struct sh_directory_form *form, int64_t index, uint64_t number, uint8_t *record) {
    for (int64_t i = NUMBER - 1; i >= 0; i--) {
        record[form->places[index] + i] = (uint8_t)number;
        number >>= 8;
    }
}

/* Whether the record is the form's with these numbers. `scratch` has room for two of them and one byte. */
static int has_record(int directory, const struct sh_directory_form *form, const struct sh_directory *one,
                      const struct packed_files *files, uint8_t *scratch) {
    int file = openat(directory, "table.size", O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file < 0) {
        return 0;
    }
    uint8_t *record = scratch + form->record_size + 1;
    ssize_t size = pread(file, scratch, (size_t)form->record_size + 1, 0);
    close(file);
    if (size != form->record_size) {
        return 0;
    }
    memcpy(record, form->record, (size_t)form->record_size);
    put_number(form, 0, (uint64_t)one->rows, record);
    put_number(form, 1, (uint64_t)one->time, record);
    put_number(form, 2, (uint64_t)one->epoch, record);
    for (int64_t i = 0; i < form->count; i++) {
        put_number(form, OWN + i, number_of(files->lengths + i * files->width, files->width), record);
        put_number(form, OWN + form->count + i, number_of(files->checksums + i * CHECKSUM, CHECKSUM), record);
    }
    return memcmp(scratch, record, (size_t)form->record_size) == 0;
}

static int is_exact(int root, const struct sh_directories *all, const struct sh_directory *one, uint8_t *scratch,
                    int64_t room) {
    if (one->form < 0 || one->form >= all->form_count || one->path < 0 || one->path >= all->paths_size ||
        memchr(all->paths + one->path, 0, (size_t)(all->paths_size - one->path)) == NULL) {
        return 0;
    }
    const struct sh_directory_form *form = all->forms + one->form;
    struct packed_files files;
    if (room < 2 * form->record_size + 1 || !unpack(all, one->packed, form->count, &files)) {
        return 0;
    }
    int directory = openat(root, all->paths + one->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (directory < 0) {
        return 0;
    }
    int exact = has_no_more(directory, form->count) && has_files(directory, form, &files) &&
                has_record(directory, form, one, &files, scratch);
    close(directory);
    return exact;
}

/* Of each directory below `root` whether it is exactly as its form and numbers say: exact[i] is 1 or 0. What a 0 means
 * is for others to find out. `scratch` has room for two records of the longest form, and a byte. Returns how many are
 * exact. */
int64_t sh_compare_directories(const char *root, const struct sh_directories *all, const struct sh_directory *asked,
                               int64_t count, uint8_t *scratch, int64_t room, uint8_t *exact) {
    int directory = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int64_t good = 0;
    for (int64_t i = 0; i < count; i++) {
        exact[i] = directory >= 0 && is_exact(directory, all, asked + i, scratch, room);
        good += exact[i];
    }
    if (directory >= 0) {
        close(directory);
    }
    return good;
}
