/* Directories compared with what is said of them: forms, paths, lengths and checksums that fit, or mean nothing. What is
 * exact is compared with what the directories were made of. */
#define _GNU_SOURCE /* O_DIRECTORY */
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "files/files.h"
#include "fuzz/fuzz.h"

enum { SETTINGS = 4, RECORD = 3, FILES = 3, RECORD_SIZE = 96, PATH = 8, ROOT = 64 };
enum { GOOD, LONGER, SHORTER, MORE, UNDEFINED, UNPUBLISHED, OTHER_RECORD, MISSING, PLACES };

static const char *const NAMES[FILES] = {"a.dat", "b.bytes", "c"};
static const int64_t STARTS[FILES] = {7, 0, 0}, LENGTHS[FILES] = {5, 0, 300};
static const uint32_t CHECKSUMS[FILES] = {1, UINT32_C(0xFEDCBA98), 0};
static const int64_t OWN[3] = {17, -1, INT64_MAX};
static char root[ROOT];

static void put(uint8_t *record, int64_t place, uint64_t number) {
    for (int i = 0; i < 8; i++) {
        record[place + i] = (uint8_t)(number >> (56 - 8 * i));
    }
}

/* The record of a directory, or the bytes around its numbers. */
static void make_record(uint8_t *record, bool blank) {
    for (int i = 0; i < RECORD_SIZE; i++) {
        record[i] = (uint8_t)(i * 3);
    }
    for (int i = 0; i < 3 + 2 * FILES; i++) {
        uint64_t number = i < 3           ? (uint64_t)OWN[i]
                          : i < 3 + FILES ? (uint64_t)LENGTHS[i - 3]
                                          : CHECKSUMS[i - 3 - FILES];
        put(record, 5 + 10 * i, blank ? 0 : number);
    }
}

static void make_file(int directory, const char *name, const void *bytes, size_t size) {
    int file = openat(directory, name, O_WRONLY | O_CREAT, 0600);
    HOLDS(file >= 0 && write(file, bytes, size) == (ssize_t)size);
    close(file);
}

static void remove_places(void) {
    static const char *const OTHERS[] = {"table.size", "table.tbl", ".stream", "d"};
    for (int k = 0; k < MISSING; k++) {
        char name[PATH];
        snprintf(name, PATH, "%d", k);
        int directory = open(name, O_RDONLY | O_DIRECTORY);
        for (int i = 0; i < FILES; i++) {
            unlinkat(directory, NAMES[i], 0);
        }
        for (size_t i = 0; i < sizeof OTHERS / sizeof *OTHERS; i++) {
            unlinkat(directory, OTHERS[i], 0);
        }
        close(directory);
        rmdir(name);
    }
    rmdir(root);
}

static void make_places(void) {
    static const uint8_t zeros[400] = {0};
    uint8_t record[RECORD_SIZE];
    snprintf(root, ROOT, "/tmp/sparkhaven-fuzz-XXXXXX");
    HOLDS(mkdtemp(root) != NULL && chdir(root) == 0 && atexit(remove_places) == 0);
    for (int k = 0; k < MISSING; k++) {
        char name[PATH];
        snprintf(name, PATH, "%d", k);
        HOLDS(mkdir(name, 0700) == 0);
        int directory = open(name, O_RDONLY | O_DIRECTORY);
        for (int i = 0; i < FILES; i++) {
            int64_t size = STARTS[i] + LENGTHS[i] + (k == LONGER && i == 1) - (k == SHORTER && i == 2);
            make_file(directory, NAMES[i], zeros, (size_t)size);
        }
        make_record(record, false);
        record[RECORD_SIZE - 1] ^= k == OTHER_RECORD;
        if (k != UNPUBLISHED) {
            make_file(directory, "table.size", record, RECORD_SIZE);
        }
        if (k != UNDEFINED) {
            make_file(directory, "table.tbl", "x", 1);
        }
        make_file(directory, k == MORE ? "d" : ".stream", "x", 1);
        close(directory);
    }
}

/* Names in the directories, and their records, with more or less room: what is set is right, what is not is asked for. */
static void read_all(const uint8_t *record, int64_t count, const char *paths, int64_t paths_size, int64_t room,
                     bool cut) {
    enum { RECORD_PATH = 13 };
    uint8_t *out = made((size_t)room), *scratch = made(RECORD_SIZE + 1);
    int64_t *sizes = made(sizeof *sizes * (size_t)count), used = 0;
    int64_t most = RECORD_SIZE + 1 - cut, whole = paths_size / 2;
    int64_t done = sh_list_directories(root, paths, paths_size, count, out, room, sizes);
    HOLDS(done >= 0 && done <= whole && done <= count);
    for (int64_t i = 0; i < done; i++) {
        int place = record[i * RECORD] % PLACES, names = 0;
        HOLDS((sizes[i] == -1) == (place == MISSING) && sizes[i] >= -1 && sizes[i] <= room - used);
        for (int64_t j = 0; j < sizes[i]; j++) {
            names += out[used + j] == 0;
        }
        HOLDS(names == (place == MISSING ? 0 : FILES + 3 - (place == UNDEFINED) - (place == UNPUBLISHED)));
        used += sizes[i] > 0 ? sizes[i] : 0;
    }
    HOLDS(done == whole || room - used < 64);

    char *records = made((size_t)count * RECORD_PATH);
    for (int64_t i = 0; i < count; i++) {
        memcpy(records + i * RECORD_PATH, "0/table.size", RECORD_PATH);
        records[i * RECORD_PATH] = (char)('0' + record[i * RECORD] % PLACES);
    }
    done = sh_read_whole_files(root, records, count * RECORD_PATH, count, scratch, most, out, room, sizes);
    used = 0;
    for (int64_t i = 0; i < done; i++) {
        int place = record[i * RECORD] % PLACES;
        bool absent = place == MISSING || place == UNPUBLISHED;
        HOLDS(sizes[i] == (absent ? -1 : cut ? -2 : RECORD_SIZE));
        if (sizes[i] > 0) {
            uint8_t wanted[RECORD_SIZE];
            make_record(wanted, false);
            wanted[RECORD_SIZE - 1] ^= place == OTHER_RECORD;
            HOLDS(memcmp(out + used, wanted, RECORD_SIZE) == 0);
            used += sizes[i];
        }
    }
    HOLDS(done == count || room - used < RECORD_SIZE);
    free(out);
    free(scratch);
    free(sizes);
    free(records);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const int64_t ODD[] = {-1, INT64_MIN, INT64_MAX, 1, 2, 3, 5, 9};
    if (size < SETTINGS) {
        return 0;
    }
    if (root[0] == 0) {
        make_places();
    }
    int64_t count = (int64_t)((size - SETTINGS) / RECORD), width = data[0] % 4 == 0 ? 4 : 8;
    int64_t one_packed = 1 + FILES * (width + 4);
    int64_t paths_size = 2 * count, packed_size = one_packed * count;
    char *every_path = made((size_t)paths_size);
    uint8_t *every_packed = made((size_t)packed_size);
    struct sh_directory *asked = made(sizeof *asked * (size_t)count);
    bool *wanted = made((size_t)count);
    int64_t cut = data[1] >= 128 ? data[1] % 40 : 0, cut_paths = data[1] % 16 == 1 ? 1 : 0;
    cut = cut < packed_size ? cut : packed_size;
    cut_paths = cut_paths < paths_size ? cut_paths : paths_size;
    for (int64_t i = 0; i < count; i++) {
        const uint8_t *record = data + SETTINGS + i * RECORD;
        int place = record[0] % PLACES, odd = record[2] % 32;
        every_path[2 * i] = (char)('0' + place);
        every_path[2 * i + 1] = 0;
        uint8_t *packed = every_packed + i * one_packed;
        packed[0] = (uint8_t)width;
        for (int j = 0; j < FILES; j++) {
            memcpy(packed + 1 + j * width, LENGTHS + j, (size_t)width);
            memcpy(packed + 1 + FILES * width + j * 4, CHECKSUMS + j, 4);
        }
        asked[i] = (struct sh_directory){0, 2 * i, i * one_packed, OWN[0], OWN[1], OWN[2]};
        wanted[i] = place == GOOD;
        if (odd == 1) {
            packed[record[1] % one_packed] ^= 1;
        } else if (odd == 2) {
            asked[i].form = ODD[record[1] % 8];
        } else if (odd == 3) {
            asked[i].packed = ODD[record[1] % 3];
        } else if (odd == 4) {
            asked[i].path = ODD[record[1] % 3];
        } else if (odd == 5) {
            asked[i].rows ^= 1;
        }
        wanted[i] = wanted[i] && (odd < 1 || odd > 5) && (i + 1) * one_packed <= packed_size - cut &&
                    2 * i + 1 < paths_size - cut_paths;
    }
    paths_size -= cut_paths;
    packed_size -= cut;
    char *paths = made((size_t)paths_size);
    uint8_t *packed = made((size_t)packed_size), *blank = made(RECORD_SIZE), *exact = made((size_t)count);
    memcpy(paths, every_path, (size_t)paths_size);
    memcpy(packed, every_packed, (size_t)packed_size);
    make_record(blank, true);
    int64_t places[3 + 2 * FILES], names_size = 0;
    for (int i = 0; i < 3 + 2 * FILES; i++) {
        places[i] = 5 + 10 * i;
    }
    char *names = made(16);
    for (int i = 0; i < FILES; i++) {
        memcpy(names + names_size, NAMES[i], strlen(NAMES[i]) + 1);
        names_size += (int64_t)strlen(NAMES[i]) + 1;
    }
    HOLDS(names_size == 16);
    bool no_room = data[2] == 1;
    int64_t room = 2 * RECORD_SIZE + 1 - no_room;
    uint8_t *scratch = made((size_t)room);
    struct sh_directory_form form = {names, names_size, FILES, STARTS, (const char *)blank, RECORD_SIZE, places};
    struct sh_directories all = {&form, 1, paths, paths_size, packed, packed_size};
    const char *where = data[3] == 1 ? "/tmp/sparkhaven-fuzz-none" : root;

    int64_t found = sh_compare_directories(where, &all, asked, count, scratch, room, exact);

    int64_t good = 0;
    for (int64_t i = 0; i < count; i++) {
        HOLDS(exact[i] == (wanted[i] && !no_room && where == root));
        good += exact[i];
    }
    HOLDS(found == good);
    read_all(data + SETTINGS, count, paths, paths_size, data[3] * 8, data[2] % 2 == 1);
    free(every_path);
    free(every_packed);
    free(asked);
    free(wanted);
    free(paths);
    free(packed);
    free(blank);
    free(exact);
    free(names);
    free(scratch);
    return 0;
}

const char *const fuzz_pieces[] = {
    "\x01\x01\x01\x01", "\x08\x01\x01\x01", "\x00\x00\x00\x00", "\x00\x01\x01", "\x00\x01\x02", "\x00\x01\x03",
    "\x00\x02\x04",     "\x00\x00\x05",     "\x00\x00\x06",     "\x80",         "\xff"};
const size_t fuzz_piece_count = sizeof fuzz_pieces / sizeof *fuzz_pieces;
