/* Many files read at once: any names, also cut off; heads and sizes that fit, ask for too much or mean nothing; too
 * little room. What is taken is compared with what the files were made of. */
#define _GNU_SOURCE /* memfd_create */
#include <stdbool.h>
#include <sys/mman.h>
#include <unistd.h>

#include "files/files.h"
#include "fuzz/fuzz.h"

enum { SETTINGS = 4, RECORD = 2, NAME = 32, CONTENTS = 6, LONGEST = 200, UNTOUCHED = 0xA5 };
enum { DIRECTORY = CONTENTS, PIPE, MISSING, NOTHING, PLACES };

/* Files in memory that begin with the head or with nearly it, and what is no file. */
static struct {
    char name[NAME];
    uint8_t bytes[LONGEST];
    int64_t size;
} places[PLACES];

static const uint8_t HEAD[] = "prefix of a column";

static void make_places(void) {
    static const int64_t SIZES[CONTENTS] = {0, 5, 18, 19, 40, LONGEST};
    int ends[2];
    for (int k = 0; k < CONTENTS; k++) {
        for (int64_t i = 0; i < SIZES[k]; i++) {
            places[k].bytes[i] = i < (int64_t)sizeof HEAD - 1 ? HEAD[i] : (uint8_t)(i * 7 + k);
        }
        int file = memfd_create("fuzz", 0);
        HOLDS(file >= 0 && write(file, places[k].bytes, (size_t)SIZES[k]) == SIZES[k]);
        places[k].size = SIZES[k];
        snprintf(places[k].name, NAME, "/proc/self/fd/%d", file);
    }
    HOLDS(pipe(ends) == 0);
    snprintf(places[DIRECTORY].name, NAME, "/proc");
    snprintf(places[PIPE].name, NAME, "/proc/self/fd/%d", ends[0]);
    snprintf(places[MISSING].name, NAME, "/proc/self/fd/none");
}

/* Whether a file is one with these bytes: so many behind a head that is its own. */
static bool fits(int place, const uint8_t *head, int64_t head_length, int64_t size) {
    return place < CONTENTS && head_length + size <= places[place].size &&
           memcmp(head, places[place].bytes, (size_t)head_length) == 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const int64_t ASKED[] = {0, 1, 5, 13, 22, LONGEST, -1, INT64_MIN, INT64_MAX, (int64_t)1 << 32};
    static const int64_t SLACKS[] = {0, 0, 0, 1, 9, -1, -30, -300};
    if (size < SETTINGS) {
        return 0;
    }
    if (places[0].name[0] == 0) {
        make_places();
    }
    int64_t count = (int64_t)((size - SETTINGS) / RECORD), head_length = data[0] % sizeof HEAD;
    int64_t names_size = 0, room = 0;
    uint8_t *head = made((size_t)head_length), *scratch = made((size_t)head_length);
    memcpy(head, HEAD, (size_t)head_length);
    if (head_length > 0 && data[1] % 8 == 0) {
        head[data[1] / 8 % head_length] ^= 1;
    }
    char *every = made((size_t)count * NAME);
    int64_t *sizes = made(sizeof *sizes * (size_t)count);
    for (int64_t i = 0; i < count; i++) {
        const uint8_t *record = data + SETTINGS + i * RECORD;
        int64_t length = (int64_t)strlen(places[record[0] % PLACES].name) + 1;
        memcpy(every + names_size, places[record[0] % PLACES].name, (size_t)length);
        names_size += length;
        sizes[i] = record[1] < 250 ? record[1] % 64 : ASKED[data[3] % 10];
        room += sizes[i] >= 0 && sizes[i] <= LONGEST ? sizes[i] : 0;
    }
    int64_t cut = data[2] >= 128 ? data[2] % 24 : 0, asked = room + SLACKS[data[2] % 8];
    names_size = cut < names_size ? names_size - cut : 0;
    room = asked < 0 ? 0 : asked;
    uint8_t *names = made((size_t)names_size), *out = made((size_t)room);
    memcpy(names, every, (size_t)names_size);
    memset(out, UNTOUCHED, (size_t)room);
    int32_t *errors = made(sizeof *errors * (size_t)count);

    int64_t found = sh_read_files(names, names_size, count, head, head_length, scratch, sizes, out, room, errors);

    int64_t good = 0, at = 0, name = 0, i = 0;
    for (; i < count; i++) {
        int place = data[SETTINGS + i * RECORD] % PLACES;
        name += (int64_t)strlen(places[place].name) + 1;
        if (name > names_size || sizes[i] < 0 || sizes[i] > room - at) {
            break;
        }
        bool taken = fits(place, head, head_length, sizes[i]);
        HOLDS(taken == (errors[i] == 0) || head_length + sizes[i] == 0); /* nothing may be read of what is no file */
        HOLDS(!taken || memcmp(out + at, places[place].bytes + head_length, (size_t)sizes[i]) == 0);
        good += errors[i] == 0;
        at += sizes[i];
    }
    HOLDS(found == good);
    for (; i < count; i++) {
        HOLDS(errors[i] != 0); /* one without room, or without a name, ends the reading */
    }
    for (; at < room; at++) {
        HOLDS(out[at] == UNTOUCHED);
    }
    free(head);
    free(scratch);
    free(every);
    free(sizes);
    free(names);
    free(out);
    free(errors);
    return 0;
}

const char *const fuzz_pieces[] = {"\x12\x01\x01\x01", "\x05\x02", "\x04\x16", "\x03\x01", "\x02\x40",
                                   "\x01\x40",         "\x0a\x40", "\x06\x01", "\x07\x01", "\x08\x01",
                                   "\x09\x01",         "\x05\xfa", "\x05\xff", "\x80",     "\xff"};
const size_t fuzz_piece_count = sizeof fuzz_pieces / sizeof *fuzz_pieces;
