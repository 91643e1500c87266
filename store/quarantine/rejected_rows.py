"""Rejected rows: why, and their schema from the task that rejects them to the quarantine.

A reason is one code, stored in the quarantine, counted by metrics and documented for users. A code never changes and
never depends on a row. What differs from row to row is the detail beside it.

One Arrow schema is for scratch files of a batch and for files of requeued rows. ``SourcePartition`` and ``Position``
identify the row: path and line of a file (row of a Parquet file), topic/partition and offset.

================  ==================================================================================
``Reason``        a code, or an older one; ``Detail``: the explanation for this row
``Column``        null = the whole row
``Value``         the offending text, at most 1 KiB
``Payload``       the row as received, at most 1 MiB, truncated if ``PayloadBytes`` is more. For a Parquet file, whose
                  rows have no text, a JSON object; for a message its value, null if it had none
``Header``        names of the fields of a CSV record, as a JSON list; null for other formats
``Key``           key of a message, null if it has none
``SourceTime``    ns since the epoch: modification time of the file, timestamp of the message
================  ==================================================================================
"""

from __future__ import annotations

import io
from enum import StrEnum
from typing import TypedDict

import pyarrow as pa

_ROW = "Correct the row, or the program that writes it."
_CSV = "Correct the record, or set `quote` and `delimiter` in `[feed]`."
_ENCODING = "The bytes are not text in the `encoding` of `[feed]`."
_SET_ENCODING = "Set the `encoding` of `[feed]`, or correct the row."
_SCHEMA = "Compare the schema of `[feed]` with the one of the producer."
_WIDER = "Choose a wider type for the column, or correct the value."
_TIME = "Correct the time, or set `format` for the column."


class Reason(StrEnum):
    """The code of a rejection. ``words`` say it in a message, ``meaning`` and ``remedy`` on the page of codes."""

    words: str
    meaning: str
    remedy: str

    def __new__(cls, value: str, meaning: str, remedy: str, words: str = "") -> Reason:
        """Without ``words`` they are those of the code."""
        reason = str.__new__(cls, value)
        reason._value_ = value
        reason.words, reason.meaning, reason.remedy = words or value.replace("-", " "), meaning, remedy
        return reason

    def explained(self, detail: str) -> str:
        """The reason with what is special about one row."""
        return f"{self.words} ({detail})" if detail else self.words

    # a record as a whole
    LINE_TOO_LONG = "line-too-long", "The line has more than 16 MiB.", _ROW
    RECORD_TOO_LONG = "record-too-long", "The CSV record has more than 16 MiB over its lines.", _CSV
    LACKS_A_LINE = "record-with-a-line-that-is-too-long", "A line of the CSV record has more than 16 MiB.", _CSV
    OPEN_QUOTE = "a-quoted-field-does-not-end", "A field of the CSV record has no closing quote.", _CSV
    AFTER_QUOTE = "text-after-a-closing-quote", "Text stands between a closing quote and the next delimiter.", _CSV
    FIELD_COUNT = (
        "wrong-number-of-fields",
        "The CSV record has more or fewer fields than the header.",
        "Correct the record, or set `delimiter` or `trailing_delimiter` in `[feed]`.",
    )
    NOT_JSON = "not-json", "The record is not one JSON object on one line.", _ROW, "not JSON"
    TOO_DEEP = "nested-too-deeply", "Objects and arrays are nested more than 500 levels deep.", _ROW
    NOT_UTF8 = "not-utf-8", "The bytes are not text in UTF-8.", _SET_ENCODING, "not UTF-8"
    NOT_WINDOWS_1250 = "not-windows-1250", _ENCODING, _SET_ENCODING, "not windows-1250"
    NOT_WINDOWS_1251 = "not-windows-1251", _ENCODING, _SET_ENCODING, "not windows-1251"
    NOT_WINDOWS_1252 = "not-windows-1252", _ENCODING, _SET_ENCODING, "not windows-1252"
    NOT_UTF16 = "not-utf-16", _ENCODING, _SET_ENCODING, "not utf-16"
    NOT_UTF16LE = "not-utf-16le", _ENCODING, _SET_ENCODING, "not utf-16le"
    NOT_UTF16BE = "not-utf-16be", _ENCODING, _SET_ENCODING, "not utf-16be"
    NOT_AVRO = "not-avro", "The payload is not one record of its Avro schema.", _SCHEMA, "not Avro"
    NOT_PROTOBUF = "not-protobuf", "The payload is not one message of its Protobuf type.", _SCHEMA, "not Protobuf"
    NO_FRAME = (
        "no-frame",
        "The payload does not begin with a zero byte and the id of its schema.",
        "Remove `frame` from `[feed]`, or correct the producer.",
    )
    OTHER_LENGTH = (
        "other-length",
        "The raw payload is not as long as the column's type.",
        "Correct the type of the column, or the `format` of `[feed]`.",
    )
    EMPTY = (
        "empty",
        "A row that is requeued has no content.",
        "Correct the payload of the row and requeue it, or drop the row.",
    )
    DECODER_FAILED = (
        "decoder-failed",
        "The decoder has a defect that this row shows.",
        "Report the row with its detail.",
    )

    # any value
    WRONG_JSON_TYPE = (
        "wrong-json-type",
        "The value has a JSON type that the column does not take.",
        "Correct the value, or set `quoted` or `as_text` for the column.",
        "wrong JSON type",
    )
    WRONG_TYPE = (
        "wrong-type",
        "The value has a type that the column does not take.",
        "Set `as_text` for the column, or `binary_as_text` in `[feed]`.",
    )
    NO_OBJECT = (
        "no-object",
        "The column's field lies in an object, and another value stands in its place.",
        "Correct the row, or `from` of the column.",
    )
    NO_VALUE_OF_TYPE = (
        "not-a-value-of-the-type",
        "The value is none of the column's type, like a text that is no date for a LocalDate.",
        "Correct the value. The row says what is expected. An empty text, as Protobuf has where nothing was set, is"
        " null with `trim`, or `quoted` for a decimal.",
    )
    NO_NULL = (
        "null-where-the-column-stores-none",
        "The value is null, and the codec of the column has no null.",
        "Correct the row, or declare the codec without `notNull`.",
        "null in a column without null",
    )
    NULL_ALIAS = (
        "equals-the-null-value-of-the-type",
        "The value is the one that the column's type stores for null.",
        "Choose a wider type for the column, or set `allow_null_alias` in `[bad_rows]`.",
    )

    REQUIRED = (
        "required",
        "The column needs a value, and the row has none, or no such field.",
        "Correct the row, or `from` of the column. Or remove `required` under `[columns]`.",
        "no value in a required column",
    )
    UNKNOWN_FIELD = (
        "unknown-field",
        "The row has a field that no column takes, and the `contract` of the stream discards such rows.",
        "Add a column to the schema, or list the field under `ignore`. Or choose another `contract`.",
    )
    ABSENT_FIELD = (
        "absent-field",
        "The row lacks the field of a column, and the `contract` of the stream discards such rows. Or it is requeued,"
        " and `missing_columns` is `fail`.",
        "Correct the row, or `from` of the column. Or choose another `contract`, or `missing_columns`.",
    )

    # numbers and booleans
    OVERFLOW = "overflow", "The number lies outside the range of the column's type.", _WIDER
    FRACTION = (
        "has-a-fraction",
        "The column takes whole numbers, and the number has a fraction.",
        "Choose float or double for the column, or correct the value.",
    )
    NOT_A_NUMBER = (
        "not-a-number",
        "The text is not a number.",
        "Correct the value, or set `trim`, `thousands` or `decimal` for the column.",
    )
    NOT_FINITE = (
        "not-a-finite-number",
        "The value is NaN or infinite, which only float and double take.",
        "Choose float or double for the column, or correct the value.",
    )
    NOT_EXACT = (
        "not-exactly-representable",
        "The column does not hold the value exactly: a float, a double, or a codec with fewer digits.",
        "Set `lossy` for a float or double. Declare a codec with more digits for others.",
    )
    NOT_A_BOOLEAN = "not-a-boolean", "The text means neither true nor false.", "Set `true` and `false` for the column."
    NOT_0_OR_1 = "neither-0-nor-1", "A Boolean takes no other numbers than 0 and 1.", _ROW

    # texts
    NOT_ONE_CHARACTER = (
        "not-one-character",
        "A char takes exactly one UTF-16 unit.",
        "Choose String for the column, or correct the value. An empty text is null with `trim`.",
    )
    HALF_A_PAIR = (
        "half-a-surrogate-pair",
        "The UTF-16 unit is half of a character.",
        "Choose String for the column, or correct the value.",
    )
    NOT_IN_CHARSET = (
        "not-in-the-charset",
        "The text has a character that the column's `encoding` lacks.",
        "Set another `encoding` for the column in the schema, or correct the text.",
    )
    READS_BACK_EMPTY = (
        "reads-back-as-the-empty-string",
        "The text is the single character U+0000, which the column stores like the empty text.",
        _ROW,
    )

    # times
    NOT_AN_INSTANT = (
        "not-an-instant",
        "The text is not a time in the column's form.",
        "Set `format` or `unit` for the column, or correct the time.",
    )
    NO_SUCH_DAY = "no-such-day", "The calendar lacks this day.", _TIME
    NO_SUCH_TIME = "no-such-time-of-day", "The hour, minute or second is too large.", _TIME
    NO_SUCH_OFFSET = "no-such-offset", "The offset from UTC is not within 23:59.", _TIME
    NO_ZONE = "has-no-time-zone", "A local time has neither an offset nor a zone.", "Set `zone` for the column."
    SKIPPED_TIME = (
        "this-local-time-does-not-exist",
        "The clocks of the column's zone skipped this time.",
        "Correct the time, or `zone` of the column.",
    )
    OUTSIDE_RANGE = (
        "outside-the-range-of-an-instant",
        "The time lies before 1677-09-21 or after 2262-04-11.",
        "Correct the time or `unit` of the column, or set `far` for it.",
        "outside the range of an Instant",
    )
    TOO_FINE = (
        "finer-than-a-nanosecond",
        "The count of time units has digits below a nanosecond.",
        "Correct the number, or `unit` of the column.",
    )
    TOO_MANY_DIGITS = "too-many-digits", "The count of time units has more than 200 digits.", _ROW
    NO_TIME_OF_DAY = "no-time-of-day", "The time of day is not before 24:00.", _ROW
    NO_TIMESTAMP = "no-timestamp", "The nanoseconds of a Protobuf Timestamp are out of range.", _ROW
    NO_DURATION = "no-duration", "The nanoseconds of a Protobuf Duration are out of range, or of the other sign.", _ROW
    NO_WHOLE_DAY = "no-whole-day", "A date has a time of day.", _ROW
    UNKNOWN_INT96 = (
        "int96-of-a-writer-that-does-not-say-whether-it-is-an-instant",
        "The Parquet file does not say whether its INT96 timestamps are in UTC.",
        "Set `zone` for the column.",
        "INT96 of a writer that does not say whether it is an instant",
    )
    OLD_CALENDAR = (
        "instant-before-1900-of-an-unknown-zone",
        "Spark wrote the Parquet file in its calendar of before 3.0, and not surely in UTC.",
        "Have Spark 3 or later write the file again, or set `zone` for the column if it was written in UTC.",
        "instant before 1900 of an unknown zone",
    )
    NO_ENUM_VALUE = "no-value-of-the-enum", "The Protobuf enum has no name for the number.", _SCHEMA

    # the table of the row
    NO_TABLE = (
        "no-table",
        "No table of the stream takes the row.",
        'Add its value to `where` of a table, set `else` of a table, or set `else = "ignore"`.',
    )

    # the location of the row
    NULL_INTERNAL = (
        "null-internal-partition",
        "The column that names the internal partition is null.",
        "Correct the row, or `internal` of `[partition]`.",
    )
    NO_INTERNAL_NAME = (
        "cannot-name-an-internal-partition",
        "The text cannot become the name of a directory.",
        "Correct the row, or `internal` of `[partition]`.",
    )
    NULL_DATE = (
        "null-partition-value",
        "The column that gives the date is null.",
        "Correct the row, or `value` of `[partition]`.",
    )
    OUT_OF_BOUNDS = (
        "instant-out-of-bounds",
        "The row's date is further from the clock than `[partition]` allows.",
        "Correct the time, or set `max_past`, `max_future` or `clock` of `[partition]`.",
    )
    NO_ROOM_IN_SETS = (
        "no-room-in-the-sets-of-the-location",
        "A text of the set would be the 65th of its column in the location, and a StringSet holds 64.",
        "Declare the column as `String[]`, or route the row to another location.",
    )
    NO_ROOM_IN_FORM = (
        "too-wide-for-the-location",
        "The column was widened after the location was begun, whose files keep the narrower type.",
        "Merge the date and delete its intraday files, then requeue the row.",
    )
    LATE = (
        "late",
        "The row's date was truncated, and the stream does not take late rows.",
        'Set `late = "supplement"` in `[partition]`, or delete the files of the date. Then requeue the row.',
    )


REJECTED = pa.schema(
    [
        pa.field("SourcePartition", pa.string(), nullable=False),
        pa.field("Position", pa.int64(), nullable=False),
        pa.field("Reason", pa.string(), nullable=False),
        pa.field("Detail", pa.string()),
        pa.field("Column", pa.string()),
        pa.field("Expected", pa.string()),
        pa.field("Value", pa.string()),
        pa.field("Payload", pa.binary()),
        pa.field("PayloadBytes", pa.int64(), nullable=False),
        pa.field("Header", pa.string()),
        pa.field("Key", pa.binary()),
        pa.field("SourceTime", pa.int64()),
    ]
)


class RejectedRow(TypedDict):
    """One row of ``REJECTED``."""

    SourcePartition: str
    Position: int
    Reason: str
    Detail: str | None
    Column: str | None
    Expected: str | None
    Value: str | None
    Payload: bytes | None
    PayloadBytes: int
    Header: str | None
    Key: bytes | None
    SourceTime: int | None


def encode_rejected(rows: pa.Table) -> bytes:
    """Rows of schema ``REJECTED`` as a Parquet file, which Spark and we both read."""
    import pyarrow.parquet as pq  # which batches without bad rows do not need

    sink = io.BytesIO()
    pq.write_table(rows.cast(REJECTED), sink, compression="zstd", compression_level=1)
    return sink.getvalue()


def decode_rejected(data: pa.Buffer | bytes) -> pa.Table:
    import pyarrow.parquet as pq

    table: pa.Table = pq.read_table(pa.BufferReader(data))
    return table
