/* Entries of a directory as the system gives them: inode, offset, length, kind, name. */
#ifndef SPARKHAVEN_LISTING_H
#define SPARKHAVEN_LISTING_H

#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { LISTING = 1 << 15, ENTRY_LENGTH = 16, ENTRY_NAME = 19 };

/* Bytes of the next entries of an open directory, 0 at its end, negative with errno set. */
static inline long next_entries(int directory, char listing[LISTING]) {
    return syscall(SYS_getdents64, directory, listing, LISTING);
}

static inline uint16_t entry_length(const char *entry) {
    uint16_t length;
    memcpy(&length, entry + ENTRY_LENGTH, sizeof length);
    return length;
}

static inline const char *entry_name(const char *entry) { return entry + ENTRY_NAME; }

static inline int is_own_or_parent(const char *name) { return strcmp(name, ".") == 0 || strcmp(name, "..") == 0; }

#endif
