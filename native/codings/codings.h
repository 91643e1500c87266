/* Values that a codec makes bytes of: store/types/codings says what they mean.
 *
 * Null is as in Arrow: bit `first` + i of `valid`, which is NULL where none is; `valid` that is written begins with
 * bit 0. Encoders return 1, decoders how many rows are null. What is negative is in doubt: a value or an entry that is
 * not taken here, and then what was written means nothing. */
#ifndef SPARKHAVEN_CODINGS_H
#define SPARKHAVEN_CODINGS_H

#include "abi.h"

/* dates.c: days since 1970 as int32, the years 0 to 9999; entries of 3 or 5 bytes. `unused` is 0. */
SH_API int64_t sh_encode_dates(const void *days, const uint8_t *valid, int64_t first, int64_t count, int64_t width,
                               int64_t unused, uint8_t *out);
SH_API int64_t sh_decode_dates(const uint8_t *entries, int64_t count, int64_t width, int64_t unused, void *days,
                               uint8_t *valid);

/* times.c: ns of the day as int64; `digits` below the second are 0, 3, 6 or 9. */
SH_API int64_t sh_encode_times(const void *times, const uint8_t *valid, int64_t first, int64_t count, int64_t width,
                               int64_t digits, uint8_t *out);
SH_API int64_t sh_decode_times(const uint8_t *entries, int64_t count, int64_t width, int64_t digits, void *times,
                               uint8_t *valid);

/* decimals.c: numbers of at most `precision` digits, in 16 bytes up to 38 of them, else in 32. */
SH_API int64_t sh_encode_decimals(const void *numbers, const uint8_t *valid, int64_t first, int64_t count,
                                  int64_t width, int64_t precision, uint8_t *out);
SH_API int64_t sh_decode_decimals(const uint8_t *entries, int64_t count, int64_t width, int64_t precision,
                                  void *numbers, uint8_t *valid);

/* octets.c: bytes of one length; where `width` is more than that, a byte before them says whether they are null. The
 * ends of texts are `starts`, one more than values; sh_decode_octets has room for all in `out`. */
SH_API int64_t sh_encode_octets(const int32_t *starts, const uint8_t *valid, int64_t first, int64_t count,
                                const uint8_t *data, int64_t size, int64_t width, int64_t length, uint8_t *out);
SH_API int64_t sh_decode_octets(const uint8_t *entries, int64_t count, int64_t width, int64_t length, int32_t *starts,
                                uint8_t *out, uint8_t *valid);

/* arrays.c: lists of `total` elements, which are `size` bytes wide, 0 for bits, -1 for bytes as they are, which are never
 * null; `null` is what a null element is written as. Each value begins with the 23 bytes of `head`. `ends` of values are
 * counted from 0, and have one entry more than values where they are read. sh_encode_arrays returns the bytes that it
 * has written; sh_array_lengths how many elements there are, and sh_decode_arrays, which relies on it, how many of them
 * are null. */
SH_API int64_t sh_encode_arrays(const int32_t *starts, const uint8_t *valid, int64_t first, int64_t count,
                                const void *elements, const uint8_t *valid_elements, int64_t first_element,
                                int64_t total, int64_t size, uint64_t null, const char *head, int64_t *ends,
                                uint8_t *out, int64_t room);
SH_API int64_t sh_array_lengths(const int64_t *ends, int64_t count, const uint8_t *data, int64_t bytes, int64_t size,
                                const char *head, int32_t *starts, uint8_t *valid);
SH_API int64_t sh_decode_arrays(const int64_t *ends, int64_t count, const uint8_t *data, int64_t size, uint64_t null,
                                void *elements, uint8_t *valid);

/* instant_arrays.c: the same of instants in ns. `fronts`: the head, and the fronts of the first and of later elements. An
 * element that refers to one before it is in doubt. */
SH_API int64_t sh_encode_instants(const int32_t *starts, const uint8_t *valid, int64_t first, int64_t count,
                                  const int64_t *elements, const uint8_t *valid_elements, int64_t first_element,
                                  int64_t total, const char *fronts, int64_t *ends, uint8_t *out, int64_t room);
SH_API int64_t sh_instant_lengths(const int64_t *ends, int64_t count, const uint8_t *data, int64_t bytes,
                                  const char *fronts, int32_t *starts, uint8_t *valid);
SH_API int64_t sh_decode_instants(const int64_t *ends, const int32_t *starts, int64_t count, const uint8_t *data,
                                  const char *fronts, int64_t *elements, uint8_t *valid);

/* string_arrays.c: lists of `total` texts, which lie in `data` and end as `texts` says, one more than texts; the same of
 * those that are written. sh_decode_texts has room for the number of each text in `known`, writes texts while
 * they have room, and returns the bytes that all have. */
SH_API int64_t sh_encode_texts(const int32_t *starts, const uint8_t *valid, int64_t first, int64_t count,
                               const int32_t *texts, const uint8_t *valid_texts, int64_t first_text, int64_t total,
                               const uint8_t *data, int64_t size, const char *head, int64_t *ends, uint8_t *out,
                               int64_t room);
SH_API int64_t sh_text_lengths(const int64_t *ends, int64_t count, const uint8_t *data, int64_t bytes, const char *head,
                               int32_t *starts, uint8_t *valid);
SH_API int64_t sh_decode_texts(const int64_t *ends, const int32_t *starts, int64_t count, const uint8_t *data,
                               int32_t *known, int32_t *texts, uint8_t *valid_texts, uint8_t *out, int64_t room,
                               int64_t *nulls);

/* string_maps.c: keys, none of them null, and values of `width` bytes, 0 for bits, -1 for texts, which `values` has the
 * ends of. Those that are read lie in memory that has room for all bytes of the maps. `numbers` has room for twice
 * the entries of the longest map. */
struct sh_map_entries {
    const int32_t *keys;
    const uint8_t *key_data;
    int64_t key_size;
    const void *values;
    const uint8_t *valid_values;
    int64_t first_value;
    const uint8_t *value_data;
    int64_t value_size;
    int64_t total;
    int64_t width;
    uint64_t null;
};

struct sh_map_room {
    int32_t *keys;
    uint8_t *key_data;
    void *values;
    uint8_t *valid_values;
    uint8_t *value_data;
};

SH_API int64_t sh_encode_string_maps(const int32_t *starts, const uint8_t *valid, int64_t first, int64_t count,
                                     const struct sh_map_entries *entries, int32_t *numbers, int64_t longest,
                                     int64_t *ends, uint8_t *out, int64_t room);
SH_API int64_t sh_string_map_lengths(const int64_t *ends, int64_t count, const uint8_t *data, int64_t bytes,
                                     int64_t width, int32_t *starts, uint8_t *valid);
SH_API int64_t sh_decode_string_maps(const int64_t *ends, const int32_t *starts, int64_t count, const uint8_t *data,
                                     int64_t width, uint64_t null, const struct sh_map_room *room);

/* free_decimals.c: numbers of any length as plain decimal texts; where `whole` is 1 without a point.
 * sh_decode_free_decimals writes texts while they have room, and returns the bytes that all have. */
SH_API int64_t sh_encode_free_decimals(const int32_t *starts, const uint8_t *valid, int64_t first, int64_t count,
                                       const uint8_t *data, int64_t size, int64_t whole, int64_t *ends, uint8_t *out,
                                       int64_t room);
SH_API int64_t sh_decode_free_decimals(const int64_t *ends, int64_t count, const uint8_t *data, int64_t bytes,
                                       int64_t whole, int32_t *starts, uint8_t *valid, uint8_t *out, int64_t room);

/* row_sets.c: writes 1 to `doubt` for each value that may not be a row set, else 0; returns how many are in doubt. */
SH_API int64_t sh_row_sets(const int32_t *starts, const uint8_t *valid, int64_t first, int64_t count,
                           const uint8_t *data, int64_t size, uint8_t *doubt);

#endif
