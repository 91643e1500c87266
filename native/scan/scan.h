/* Lines of JSON, CSV records, and records of Avro and Protobuf, to columns. */
#ifndef SPARKHAVEN_SCAN_H
#define SPARKHAVEN_SCAN_H

#include "abi.h"

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
    SH_DATE,    /* int32 days: a string with a date of the years 1 to 9999 */
    SH_TIME, /* int64 ns of the day, multiples of `high`, of which a second is one: a string with a time of the day */
    SH_DECIMAL, /* `digits` of at most `high` digits are behind the point, as a whole number of 16 bytes, or of 32 where
                 * `high` is above 38: a number, or a string with one */
    SH_TEXT,    /* ends and bytes: the content of a string, without escapes */
    SH_TOKEN,   /* ends and bytes: the JSON text of a string, number, true or false, as it stands */
    SH_NESTED   /* the same, and of an array or object too */
};

/* One distinct text of a column: of up to eight bytes its bytes, of a longer one a hash of them. */
struct sh_slot {
    uint64_t key;
    int32_t length, number; /* 0: empty, else one more than the text's id */
};

/* Where the values of a column go; one entry a row but for `bytes`. `valid` is 1 in all rows before a scan. */
struct sh_column {
    int64_t kind;
    int64_t low, high; /* whole numbers; SH_TIME, SH_DECIMAL: `high` alone */
    int64_t digits;    /* SH_EPOCH: 0 for ns, 3 for us, 6 for ms, 9 for s; SH_DECIMAL */
    int64_t last_lead; /* SH_TEXT: largest first byte of a character: 0x7F ASCII, 0xC3 ISO 8859-1, 0xF4 all */
    void *values;      /* as the kind says; not those with `ends` */
    uint8_t *valid;    /* 0 where the value is null or missing */
    uint8_t *local;    /* SH_ISO: 1 where the text has no offset and the value is that of a clock; or NULL */
    int32_t *ends;     /* SH_TEXT, SH_TOKEN, SH_NESTED: entry 0 is 0, entry r + 1 the end of row r in `bytes` */
    uint8_t *bytes;
    int64_t room;       /* of `bytes`, and of `text_bytes`: what the lines have in all is enough */
    int32_t *ids;       /* SH_TEXT: id of the row's text, 0 if null, and `ends` are not used; NULL: no ids. A scan that
                         * meets more than `most` texts sets it to NULL, and `ends` and `bytes` have all rows */
    int32_t *text_ends; /* entry 0 is 0, entry i + 1 the end of the text with id i in `text_bytes` */
    uint8_t *text_bytes;
    struct sh_slot *slots; /* all empty before a scan, more than `most` */
    int64_t slot_mask;
    int64_t most;
    int64_t texts; /* how many there are; 0 before a scan. Those of lines in doubt may be among them */
    uint64_t seed;
    int64_t some_null; /* set to 1 when a row is null */
    int64_t absent;    /* JSON: accepted lines that have no such field; 0 before a scan */
    int64_t also;      /* the next column that takes the same field, or -1 */
    int64_t line;      /* of the scan's own: number of the line that has set it last */
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
    int64_t known; /* how many were declared before the first scan */
};

struct sh_scan {
    struct sh_names *names;
    struct sh_column *columns;
    int64_t column_count;
    int64_t *first;         /* for each object the name that came first last time, or -1 */
    const uint64_t *powers; /* powers of five from -342 to 308, 128 bit each, the upper half first */
    int64_t line;           /* number of lines looked at so far, by all calls */
    int64_t strict;         /* JSON: whether lines with a name that is not known, or without the field of a column, are
                             * in doubt */
    int64_t date_text;      /* the last date that was read: the first 8 of its bytes, the other 2, its day */
    int64_t date_rest;
    int64_t date_day;
};

/* The dialect of a CSV feed, where its fields go, and what a scan found. */
struct sh_csv {
    struct sh_scan *scan;  /* its columns and powers; names and first are not used */
    const int64_t *fields; /* for each field of a record its first column, or -1 */
    int64_t field_count;
    int64_t delimiter, quote; /* quote is -1 where there is none */
    int64_t trailing;         /* whether a record may end with one delimiter more */
    int64_t framed;           /* whether each line is a record, followed by one line feed, whatever it has inside */
    const char *comment;      /* lines that begin so where a record could are passed over */
    int64_t comment_length;
    const char *nulls;        /* texts that mean null, one behind the other */
    const int64_t *null_ends; /* where each of them ends */
    int64_t null_count;
    int64_t null_lengths;     /* a bit for each length that one of them has, the last for 62 and more */
    int64_t quoted_null;      /* whether they mean it in quotes too */
    int64_t longest;          /* bytes of a record over lines; longer ones are in doubt */
    int64_t alone;            /* a line whose quote is known to stay open, or -1 */
    int64_t last;             /* whether nothing follows: then a quote that stays open spoils its own line alone */
    int64_t *rows, *stops;    /* accepted records: the first line of each, and the first line behind it */
    int64_t *odd, *odd_stops; /* the same of those in doubt */
    int64_t odd_count;
    int64_t open; /* line of a record whose quote is open at the end, if not `last`; or -1 */
};

/* What stands for a field. Avro has those down to SH_WIRE_FIXED; its numbers are zigzag. Protobuf has all but
 * SH_WIRE_ENUM and SH_WIRE_FIXED; an enum is an SH_WIRE_INT. */
enum sh_wire {
    SH_WIRE_NULL,     /* no bytes: null */
    SH_WIRE_BOOLEAN,  /* one byte, 0 or 1; a varint of it */
    SH_WIRE_INT,      /* a varint of 32 bits with a sign */
    SH_WIRE_LONG,     /* the same of 64 bits */
    SH_WIRE_FLOAT,    /* four bytes */
    SH_WIRE_DOUBLE,   /* eight bytes */
    SH_WIRE_STRING,   /* a length and UTF-8 */
    SH_WIRE_BYTES,    /* a length and bytes, which no column takes */
    SH_WIRE_ENUM,     /* a number below `size`, which no column takes */
    SH_WIRE_FIXED,    /* `size` bytes, which no column takes */
    SH_WIRE_UINT,     /* a varint of 32 bits without a sign */
    SH_WIRE_ULONG,    /* the same of 64 bits, below 2^63 */
    SH_WIRE_SINT,     /* a zigzag varint of 32 bits */
    SH_WIRE_SLONG,    /* the same of 64 bits */
    SH_WIRE_FIXED32,  /* four bytes without a sign */
    SH_WIRE_FIXED64,  /* eight bytes without a sign, below 2^63 */
    SH_WIRE_SFIXED32, /* four bytes with a sign */
    SH_WIRE_SFIXED64, /* eight bytes with a sign */
    SH_WIRE_TIMESTAMP /* a message of seconds since 1970 and nanoseconds */
};

/* One field of a record. Avro: in the order of the schema, those of records inside too. Protobuf: in any order. */
struct sh_wire_field {
    int64_t kind;
    int64_t column; /* the first column that takes it, or -1: it is passed over */
    int64_t nulls;  /* Avro: which branch of a union of two is null, -1: no union. Protobuf: whether unset is null */
    int64_t size;
    int64_t number; /* Protobuf */
    int64_t met;    /* accepted records that have it, where it is passed over; Protobuf */
    int64_t record; /* of the scan's own: number of the record that has had it last; Protobuf */
};

struct sh_records {
    struct sh_scan *scan; /* its columns and line; the rest is not used */
    struct sh_wire_field *fields;
    int64_t field_count;
    const char *prefix; /* with which each record begins; another is in doubt */
    int64_t prefix_length;
};

/* lines.c */
SH_API int64_t sh_line_ends(const uint8_t *data, int64_t size, int32_t *ends, int64_t room);

/* names.c */
SH_API int64_t sh_declare(struct sh_names *names, const uint8_t *name, int64_t length, int64_t object, int64_t column,
                          int64_t inner);

/* json_scan.c */
SH_API int64_t sh_json_scan(struct sh_scan *scan, const uint8_t *data, const int32_t *ends, int64_t lines,
                            int64_t *rows);

/* number_lists.c: of a scan its only column and powers; of numbers, SH_BOOLEAN and SH_CHAR */
SH_API int64_t sh_number_lists(struct sh_scan *scan, const uint8_t *data, const int32_t *ends, const uint8_t *wanted,
                               int64_t count, int64_t room, int32_t *list_ends, uint8_t *doubt);

/* text_lists.c: of strings */
SH_API int64_t sh_text_lists(const uint8_t *data, const int32_t *ends, const uint8_t *wanted, int64_t count,
                             int64_t room, int32_t *list_ends, int32_t *text_ends, uint8_t *texts, uint8_t *valid,
                             uint8_t *doubt);

/* map_lists.c: room for so many entries, and for the bytes of all texts; `value_ends` is NULL where values are no texts.
 * `numbers` has room for two of them for each five bytes of the longest text. */
struct sh_map_lists {
    int64_t room;
    int32_t *key_ends;
    uint8_t *keys;
    int32_t *value_ends;
    uint8_t *values;
    int32_t *numbers;
};

SH_API int64_t sh_map_lists(struct sh_scan *scan, const uint8_t *data, const int32_t *ends, const uint8_t *wanted,
                            int64_t count, const struct sh_map_lists *maps, int32_t *list_ends, uint8_t *doubt);

/* byte_values.c: `form` is 0 for base64, 1 for a JSON string with it, 2 for that or an array of numbers */
SH_API void sh_byte_values(const uint8_t *data, const int32_t *ends, const uint8_t *wanted, int64_t count, int64_t form,
                           int32_t *value_ends, uint8_t *out, uint8_t *doubt);

/* csv_scan.c */
SH_API int64_t sh_csv_scan(struct sh_csv *csv, const uint8_t *data, const int32_t *ends, int64_t first, int64_t lines);

/* avro_scan.c: records one a payload, behind each a line feed */
SH_API int64_t sh_avro_scan(struct sh_records *records, const uint8_t *data, const int32_t *ends, int64_t count,
                            int64_t *rows);

/* protobuf_scan.c: likewise */
SH_API int64_t sh_protobuf_scan(struct sh_records *records, const uint8_t *data, const int32_t *ends, int64_t count,
                                int64_t *rows);

#endif
