/* Columns digested, sorted and put in another order. */
#ifndef SPARKHAVEN_MERGE_H
#define SPARKHAVEN_MERGE_H

#include "abi.h"

/* digest.c */
SH_API int64_t sh_digest_fixed(uint64_t prefix, int64_t kind, const void *entries, int64_t count, uint64_t null,
                               uint64_t *hashes, uint64_t *total);
SH_API int64_t sh_digest_coded(uint64_t prefix, const uint8_t *entries, int64_t count, int64_t width,
                               const uint8_t *null, uint64_t *hashes, uint64_t *total);
SH_API int64_t sh_digest_texts(uint64_t prefix, const void *ends, int64_t wide, const uint8_t *valid, int64_t first,
                               int64_t count, const uint8_t *data, int64_t size, const int64_t *counts,
                               uint64_t *hashes, uint64_t *total);
SH_API int64_t sh_digest_values(uint64_t prefix, const void *ends, int64_t count, const uint8_t *data, int64_t size,
                                uint64_t *hashes, uint64_t *total);
SH_API int64_t sh_add_symbols(const uint32_t *ids, int64_t count, const uint64_t *table, int64_t entries,
                              uint64_t *hashes);

/* The number of a text, and what it is sorted by. */
struct sh_keyed {
    uint64_t key;
    int64_t index;
};

/* Words of 1, 2, 4 or 8 bytes without sign, one a row. */
struct sh_words {
    const void *words;
    int64_t width;
};

/* rows.c */
SH_API int64_t sh_sort_rows(const struct sh_words *keys, int64_t key_count, uint32_t *order, int64_t count,
                            struct sh_keyed *items, struct sh_keyed *spare, int64_t *places);

/* Texts as one Arrow array has them: text i of `count` is between ends first + i and first + i + 1, of 8 bytes each if
 * wide, else of 4. Bit first + i of `valid`, if given, is 0 where it is null. */
struct sh_texts {
    const void *ends;
    int64_t wide;
    const uint8_t *valid;
    int64_t first, count;
    const uint8_t *data;
    int64_t size; /* bytes of `data` */
};

enum { SH_PARTS = 1 << 12 }; /* of texts, at most, which are sorted part by part */

/* symbols.c */
SH_API int64_t sh_union_texts(const struct sh_texts *tables, int64_t table_count, struct sh_keyed *items,
                              struct sh_keyed *spare, uint8_t *scratch, int64_t scratch_room, int32_t *ranks,
                              int32_t *out_ends, uint8_t *out, int64_t out_room);
SH_API int64_t sh_texts_ordered(const void *ends, int64_t wide, int64_t first, int64_t count, const uint8_t *data,
                                int64_t size);

/* Rows of texts from number `row` on: row + i is from ends[i] to ends[i + 1] in `data`. */
struct sh_part {
    int64_t row;
    const int64_t *ends;
    const uint8_t *data;
    int64_t size; /* bytes of `data` */
};

/* take.c */
SH_API int64_t sh_take_texts(const void *ends, int64_t wide, int64_t first, int64_t total, const uint8_t *data,
                             int64_t size, const uint32_t *picks, int64_t count, void *out_ends, uint8_t *out,
                             int64_t room);
SH_API int64_t sh_take_parts(const struct sh_part *parts, int64_t part_count, const uint32_t *starts, int64_t shift,
                             const uint32_t *picks, int64_t count, int64_t end, int64_t *out_ends, uint8_t *out,
                             int64_t room);

/* gather.c */
SH_API int64_t sh_gather(const void *entries, int64_t width, int64_t total, const uint32_t *order, int64_t count,
                         void *out);
SH_API int64_t sh_gather_ids(const uint32_t *ids, int64_t total, const uint32_t *order, int64_t count,
                             const int32_t *table, int64_t entries, int32_t *out);
SH_API int64_t sh_count_ids(const uint32_t *ids, int64_t total, int64_t *counts, int64_t entries);

/* Bounds in ascending order: `key_count` words each, of which the first lengths[i] count, and the keys of rows. */
struct sh_bounds {
    const struct sh_words *keys;
    int64_t key_count;
    const uint64_t *words;
    const int64_t *lengths;
    int64_t count;
};

/* parting.c */
SH_API int64_t sh_number_pieces(const struct sh_bounds *bounds, int64_t rows, uint32_t *pieces);
SH_API int64_t sh_part(const void *entries, int64_t width, const uint32_t *pieces, int64_t count, int64_t *places,
                       int64_t piece_count, void *out);

/* moves.c */
SH_API int64_t sh_plan_moves(const uint32_t *order, int64_t count, const uint16_t *windows, int64_t blocks,
                             int64_t shift, int64_t *starts, int64_t window_count, uint32_t *origins, uint32_t *places);
SH_API int64_t sh_move(const void *entries, int64_t width, int64_t total, const uint32_t *origins,
                       const uint32_t *places, int64_t count, void *out, int64_t room);

/* Blocks of rows, each of 1 << shift: the window of each, and what is added to the number of a row to get its place
 * among those of the window. */
struct sh_windows {
    const uint16_t *windows;
    const uint32_t *shifts;
    int64_t blocks, shift;
};

/* Rows of a file, from byte `offset` on: those of a window stand together, one window after the other. */
struct sh_stretch {
    int64_t file, offset, rows, window;
    int64_t source; /* whose ids they are */
    int64_t sum;    /* the checksum that they are added to */
};

/* Moves as sh_plan_moves() makes them, to `out`, with room for so many entries; `done` of them are done. */
struct sh_moves {
    const uint32_t *origins, *places;
    uint8_t *out;
    int64_t count, room, done;
};

/* What a digest needs to know of entries. */
struct sh_fixed {
    uint64_t prefix, null;
    int64_t kind;
};

/* What there is of entries. */
struct sh_survey {
    int64_t nulls, nans, low, high, crc;
};

/* survey.c */
SH_API int64_t sh_survey_fixed(const struct sh_fixed *fixed, const void *entries, int64_t count,
                               struct sh_survey *found, uint64_t *hashes, uint64_t *total);

/* The ranks of a source's ids; the last is that of the null. */
struct sh_table {
    const int32_t *ranks;
    int64_t entries;
};

/* Tables by source; counts[rank] is how often a rank is there, the last of `kinds` counts the null. */
struct sh_ranked {
    const struct sh_table *tables;
    int64_t *counts;
    int64_t kinds;
};

/* placed.c */
SH_API int64_t sh_place_files(const struct sh_stretch *stretches, int64_t count, struct sh_moves *moves,
                              int64_t move_count, const struct sh_windows *windows, const struct sh_fixed *fixed,
                              const struct sh_ranked *ranked, int64_t width, uint8_t *scratch, int64_t room,
                              uint32_t *sums, uint64_t *total);

#endif
