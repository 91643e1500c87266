/* What Python sees of the compiled core: functions and structures, with ctypes (store/native, ingest/formats).
 *
 * Every length is 64 bit, every buffer belongs to the caller, nothing is allocated here, and no byte is read outside of
 * the lengths given. Structures have 8-byte fields only, so that there is no padding to agree on. After a change to a
 * function or structure, SH_ABI changes here and ABI changes in store/native/library.py.
 */
#ifndef SPARKHAVEN_H
#define SPARKHAVEN_H

#include <stdint.h>

#define SH_ABI 12
#define SH_API __attribute__((visibility("default")))

/* Kinds of columns: what JSON value they take, and what is stored for it. Of a CSV field it is the text of that value;
 * numbers may have a plus sign or zeros in front, and true and false may be written True or TRUE, False or FALSE. */
enum sh_kind {
    SH_BYTE,    /* int8: a whole number from low to high */
    SH_SHORT,   /* int16 */
    SH_INT,     /* int32 */
    SH_LONG,    /* int64 */
    SH_CHAR,    /* uint16: a string of one UTF-16 unit */
    SH_FLOAT,   /* float: the nearest float of the nearest double */
    SH_DOUBLE,  /* double: the nearest one */
    SH_BOOLEAN, /* uint8: true or false as 1 or 0 */
    SH_ISO,     /* int64 ns: a string with an ISO time and its offset, or none where `local` is given */
    SH_EPOCH,   /* int64 ns: a number of units of 10^digits ns, exact to the ns */
    SH_TEXT,    /* ends and bytes: the content of a string, without escapes */
    SH_TOKEN    /* ends and bytes: the JSON text of a string, number, true or false, as it stands */
};

/* One distinct text of a column: of up to eight bytes its bytes, of a longer one a hash of them. */
struct sh_slot {
    uint64_t key;
    int32_t length, number; /* 0: empty, else one more than the text's id */
};

/* Where the values of a column go; one entry a row but for `bytes`. `valid` is 1 in all rows before a scan. */
struct sh_column {
    int64_t kind;
    int64_t low, high;  /* whole numbers */
    int64_t digits;     /* SH_EPOCH: 0 for ns, 3 for us, 6 for ms, 9 for s */
    int64_t last_lead;  /* SH_TEXT: largest first byte of a character: 0x7F ASCII, 0xC3 ISO 8859-1, 0xF4 all */
    void *values;       /* as the kind says; not SH_TEXT and SH_TOKEN */
    uint8_t *valid;     /* 0 where the value is null or missing */
    uint8_t *local;     /* SH_ISO: 1 where the text has no offset and the value is that of a clock; or NULL */
    int32_t *ends;      /* SH_TEXT, SH_TOKEN: entry 0 is 0, entry r + 1 the end of row r in `bytes` */
    uint8_t *bytes;
    int64_t room;       /* of `bytes`, and of `text_bytes`: what the lines have in all is enough */
    int32_t *ids;       /* SH_TEXT: id of the row's text, 0 if null, and `ends` are not used; NULL: no ids. A scan that
                         * meets more than `most` texts sets it to NULL, and `ends` and `bytes` have all rows */
    int32_t *text_ends; /* entry 0 is 0, entry i + 1 the end of the text with id i in `text_bytes` */
    uint8_t *text_bytes;
    struct sh_slot *slots; /* all empty before a scan, more than `most` */
    int64_t slot_mask;
    int64_t most;
    int64_t texts;      /* how many there are; 0 before a scan. Those of lines in doubt may be among them */
    uint64_t seed;
    int64_t some_null;  /* set to 1 when a row is null */
    int64_t also;       /* the next column that takes the same field, or -1 */
    int64_t line;       /* of the scan's own: number of the line that has set it last */
};

/* One name of a field in one object: declared by the caller, or met and unknown (column and inner are -1). */
struct sh_name {
    int64_t start, length; /* in the text of all names */
    int64_t object;        /* 0: the line itself */
    int64_t column;        /* where its value goes, or -1 */
    int64_t inner;         /* which object its value is, or -1 */
    int64_t met;           /* accepted lines with this name, where it is unknown */
    int64_t after;         /* the name that came after it last time, or -1 */
    int64_t line;          /* number of the line that has had it last */
};

/* All names, found by a seeded hash table of fixed size; when it is full, lines with further names are in doubt. */
struct sh_names {
    struct sh_name *list;
    int64_t count, room;
    uint8_t *text;
    int64_t used, text_room;
    int32_t *slots; /* -1: empty */
    int64_t slot_mask;
    uint64_t seed;
};

struct sh_scan {
    struct sh_names *names;
    struct sh_column *columns;
    int64_t column_count;
    int64_t *first;         /* for each object the name that came first last time, or -1 */
    const uint64_t *powers; /* powers of five from -342 to 308, 128 bit each, the upper half first */
    int64_t line;           /* number of lines looked at so far, by all calls */
    int64_t date_text;      /* the last date that was read: the first 8 of its bytes, the other 2, its day */
    int64_t date_rest;
    int64_t date_day;
};

/* The dialect of a CSV feed, where its fields go, and what a scan found. */
struct sh_csv {
    struct sh_scan *scan;      /* its columns and powers; names and first are not used */
    const int64_t *fields;     /* for each field of a record its first column, or -1 */
    int64_t field_count;
    int64_t delimiter, quote;  /* quote is -1 where there is none */
    int64_t trailing;          /* whether a record may end with one delimiter more */
    int64_t framed;            /* whether each line is a record, followed by one line feed, whatever it has inside */
    const uint8_t *comment;    /* lines that begin so where a record could are passed over */
    int64_t comment_length;
    const uint8_t *nulls;      /* texts that mean null, one behind the other */
    const int64_t *null_ends;  /* where each of them ends */
    int64_t null_count;
    int64_t null_lengths;      /* a bit for each length that one of them has, the last for 62 and more */
    int64_t quoted_null;       /* whether they mean it in quotes too */
    int64_t longest;           /* bytes of a record over lines; longer ones are in doubt */
    int64_t alone;             /* a line whose quote is known to stay open, or -1 */
    int64_t last;              /* whether nothing follows: then a quote that stays open spoils its own line alone */
    int64_t *rows, *stops;     /* accepted records: the first line of each, and the first line behind it */
    int64_t *odd, *odd_stops;  /* the same of those in doubt */
    int64_t odd_count;
    int64_t open;              /* line of a record whose quote is open at the end, if not `last`; or -1 */
};

SH_API int64_t sh_abi(void);
SH_API const char *sh_sources(void);
SH_API int64_t sh_limit(int64_t bytes);
SH_API int64_t sh_line_ends(const uint8_t *data, int64_t size, int32_t *ends, int64_t room);
SH_API int64_t sh_declare(struct sh_names *names, const uint8_t *name, int64_t length, int64_t object, int64_t column,
                          int64_t inner);
SH_API int64_t sh_json_scan(struct sh_scan *scan, const uint8_t *data, const int32_t *ends, int64_t lines,
                            int64_t *rows);
SH_API int64_t sh_csv_scan(struct sh_csv *csv, const uint8_t *data, const int32_t *ends, int64_t first, int64_t lines);

/* What the entries of a fixed-width column are. */
enum sh_entry {
    SH_ENTRY_BYTE,
    SH_ENTRY_SHORT,
    SH_ENTRY_INT,
    SH_ENTRY_LONG, /* and ns since 1970 */
    SH_ENTRY_CHAR,
    SH_ENTRY_FLOAT,
    SH_ENTRY_DOUBLE,
    SH_ENTRY_BOOLEAN
};

SH_API int64_t sh_digest_fixed(uint64_t prefix, int64_t kind, const void *entries, int64_t count, uint64_t null,
                               uint64_t *total);
SH_API int64_t sh_digest_texts(uint64_t prefix, const void *ends, int64_t wide, const uint8_t *valid, int64_t first,
                               int64_t count, const uint8_t *data, int64_t size, const int64_t *counts,
                               uint64_t *total);

SH_API int64_t sh_digest_values(uint64_t prefix, const void *ends, int64_t count, const uint8_t *data, int64_t size,
                                uint64_t *total);

/* The number of a text, and what it is sorted by. */
struct sh_keyed {
    uint64_t key;
    int64_t index;
};

SH_API int64_t sh_sort_texts(const void *ends, int64_t wide, const uint8_t *valid, int64_t first, int64_t total,
                             const uint8_t *data, int64_t size, struct sh_keyed *items, struct sh_keyed *spare);
SH_API int64_t sh_rank_texts(const struct sh_keyed *items, int64_t count, int32_t *ranks, uint32_t *distinct);
SH_API int64_t sh_texts_ordered(const void *ends, int64_t wide, int64_t first, int64_t count, const uint8_t *data,
                                int64_t size);
SH_API int64_t sh_take_texts(const void *ends, int64_t wide, int64_t first, int64_t total, const uint8_t *data,
                             int64_t size, const uint32_t *picks, int64_t count, void *out_ends, uint8_t *out,
                             int64_t room);

/* Rows of texts from number `row` on: row + i is from ends[i] to ends[i + 1] in `data`. */
struct sh_part {
    int64_t row;
    const int64_t *ends;
    const uint8_t *data;
    int64_t size; /* bytes of `data` */
};

SH_API int64_t sh_take_parts(const struct sh_part *parts, int64_t part_count, const uint32_t *starts, int64_t shift,
                             const uint32_t *picks, int64_t count, int64_t end, int64_t *out_ends, uint8_t *out,
                             int64_t room);

SH_API int64_t sh_gather(const void *entries, int64_t width, int64_t total, const uint32_t *order, int64_t count,
                         void *out);
SH_API int64_t sh_gather_ids(const uint32_t *ids, int64_t total, const uint32_t *order, int64_t count,
                             const int32_t *table, int64_t entries, int32_t *out);
SH_API int64_t sh_count_ids(const uint32_t *ids, int64_t total, int64_t *counts, int64_t entries);

SH_API int64_t sh_read_files(const uint8_t *names, int64_t names_size, int64_t count, const uint8_t *head,
                             int64_t head_length, uint8_t *scratch, const int64_t *sizes, uint8_t *out, int64_t room,
                             int32_t *errors);

SH_API void sh_crc32(const void *data, const int64_t *sizes, int64_t count, uint32_t *sums);

SH_API int64_t sh_count_nulls(const void *entries, int64_t width, int64_t count, uint64_t null);
SH_API int64_t sh_valid_bits(const void *entries, int64_t width, int64_t count, uint64_t null, uint8_t *bits);
SH_API int64_t sh_check_ids(const void *ids, int64_t count, int64_t entries);
SH_API int64_t sh_check_texts(const void *ends, int64_t count, int64_t first, const uint8_t *data, int64_t size,
                              int64_t ascii, int32_t *out, int64_t *found);
SH_API int64_t sh_verify_fixed(int64_t kind, int64_t width, const void *entries, int64_t count, const void *bounds,
                               int64_t *found, uint32_t *crc);
SH_API int64_t sh_verify_ids(const void *ids, int64_t count, int64_t entries, uint32_t *crc);
SH_API int64_t sh_verify_texts(const void *ends, int64_t count, int64_t first, const uint8_t *data, int64_t size,
                               int64_t ascii, const uint8_t *low, int64_t low_length, const uint8_t *high,
                               int64_t high_length, uint32_t *crcs);

/* Where sh_kafka_look writes what it finds of messages; each has an entry a message. */
struct sh_kafka_facts {
    int32_t *errors;
    int64_t *offsets, *values, *keys, *times;
};

typedef int64_t sh_kafka_time(const void *message, int *kind); /* rd_kafka_message_timestamp */
typedef void sh_kafka_free(void *message);                     /* rd_kafka_message_destroy */

SH_API int64_t sh_kafka_look(const void *const *messages, int64_t count, int64_t partition, sh_kafka_time *time_of,
                             const struct sh_kafka_facts *facts);
SH_API int64_t sh_kafka_frame(const void *const *messages, int64_t count, int64_t keys, uint8_t *out, int64_t room,
                              int32_t *ends);
SH_API void sh_kafka_release(void *const *messages, int64_t count, sh_kafka_free *free_message);

#endif
