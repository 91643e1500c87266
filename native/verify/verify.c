/* Files of a column against their checksums and statistics: a part is summed as it comes, then its values are looked at
 * while it is in the first cache. */
#include "verify/verify.h"
#include "bytes/bytes.h"
#include "bytes/crc.h"
#include "verify/checked.h"
#include "verify/text_bounds.h"

enum { PART = 1 << 13, TEXTS = 1 << 10, MOST = 1 << 15 }; /* bytes; texts, and bytes of texts, that come together */

/* Entries as sh_within takes them; `crc` becomes the CRC-32 of them behind bytes that had this one. Returns count, -1
 * for an unknown kind. */
int64_t sh_verify_fixed(int64_t kind, int64_t width, const void *entries, int64_t count, const void *bounds,
                        int64_t *found, uint32_t *crc) {
    const uint8_t *p = entries;
    for (int64_t at = 0, stop = count * width; at < stop; at += PART) {
        const int64_t size = stop - at < PART ? stop - at : PART;
        *crc = sh_crc(p + at, size, *crc);
        if (sh_within(kind, p + at, size / width, bounds, found) < 0) {
            return -1;
        }
    }
    return count;
}

/* The same of ids, as sh_check_ids takes them: how many are null, -1 if one is not in the table. */
int64_t sh_verify_ids(const void *ids, int64_t count, int64_t entries, uint32_t *crc) {
    const uint8_t *p = ids;
    int64_t nulls = 0;
    for (int64_t at = 0, stop = 4 * count; at < stop; at += PART) {
        const int64_t size = stop - at < PART ? stop - at : PART;
        *crc = sh_crc(p + at, size, *crc);
        const int64_t found = sh_check_ids(p + at, size / 4, entries);
        if (found < 0) {
            return -1;
        }
        nulls += found;
    }
    return nulls;
}

/* The same of texts, as sh_check_texts and sh_texts_within take them, whose data ends with the last: how many have no
 * bytes, -1 if something is not as it should be, or beyond the bounds. crcs: of the ends, and of the data. low_length
 * is -1 where there are no bounds. */
int64_t sh_verify_texts(const void *ends, int64_t count, int64_t first, const uint8_t *data, int64_t size,
                        int64_t ascii, const uint8_t *low, int64_t low_length, const uint8_t *high, int64_t high_length,
                        uint32_t *crcs) {
    int64_t nulls = 0, done = 0, part, found[2];
    int32_t places[TEXTS + 1];
    for (int64_t from = 0; from < count; from += part) {
        const uint8_t *at = (const uint8_t *)ends + 8 * from;
        uint64_t stop;
        part = count - from < TEXTS ? count - from : TEXTS;
        while ((stop = (uint64_t)sh_end(at, 1, part - 1) - (uint64_t)first - (uint64_t)done) > MOST && part > 1) {
            part /= 2;
        }
        if (stop > (uint64_t)(size - done)) {
            return -1;
        }
        const uint8_t *texts = data + done;
        crcs[0] = sh_crc(at, 8 * part, crcs[0]);
        crcs[1] = sh_crc(texts, (int64_t)stop, crcs[1]);
        const int64_t empty = sh_check_texts(at, part, first + done, texts, size - done, ascii, places, found);
        if (empty < 0 || (low_length >= 0 &&
                          !sh_texts_within(places, part, texts, size - done, low, low_length, high, high_length))) {
            return -1;
        }
        nulls += empty;
        done += (int64_t)stop;
    }
    return done == size ? nulls : -1;
}
