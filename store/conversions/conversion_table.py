"""What a column takes of each source: one row for each group of sources, one cell for each column type.

=========  =====================================================================================================
exact      every value is stored as it is
checked    a value that the column holds exactly is stored; any other is refused (in feeds: a bad row)
by option  as ``checked``, once the option is set; without it nothing of the column is taken
refused    no value is taken, whatever is set
=========  =====================================================================================================

``rule(source, column)`` gives the cell. ``lossy`` in a cell: the option of that name rounds to the nearest value, as
IEEE 754 does, instead of refusing. Digits that a text writes (JSON, CSV, quoted numbers) are no source of this table: a
text is read as the nearest number, since it says no type.

Columns of a Parquet file have logical types, where Arrow's reader knows another or none. Arrow's extension types are
read as their storage (``arrow_extensions_enabled=False``), since that alone can be read as a dictionary: a UUID gets
its type back here. ENUM is text in UTF-8 by the standard, and bytes to Arrow; INTERVAL is bytes to Arrow too, and
nothing that a column takes. INT96 of a writer that stores instants has a zone.

INT96 is Parquet's old type of timestamps: a day and nanoseconds within it, without a word on zones. Who has written the
file decides what they are. Spark writes instants in UTC. Arrow keeps its own schema in the footer, with the zone that
the timestamps had. Of any other writer it is not known.

A decoder maps its own type system to the sources here, and to nothing else. A source has a ``group``, which decides
what a column takes of it, and the bounds that decide whether every value fits: ``low`` and ``high`` of whole numbers,
``digits`` (bits of the significand) of floating numbers.
"""

from __future__ import annotations

import base64
import re
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from sparkhaven.store.types.datatypes import DataType

if TYPE_CHECKING:
    from pyarrow.parquet import ParquetFile


class Group(StrEnum):
    """Kinds of sources; a row of the table of conversions is for one of them."""

    NULL = "null"
    BOOLEAN = "boolean"
    WHOLE = "whole"
    FLOATING = "floating"
    DECIMAL = "decimal"
    TEXT = "text"
    UUID = "uuid"
    BYTES = "bytes"
    TIMESTAMP = "timestamp"
    LOCAL = "local timestamp"
    DATE = "date"
    SPAN = "span"
    NESTED = "nested"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class SourceType:
    """A type of values. ``arrow``, ``spark``, ``avro`` and ``protobuf`` are its names there, for documentation."""

    name: str
    group: Group
    arrow: str
    spark: str = ""
    low: int = 0
    high: int = 0
    digits: int = 0
    avro: str = ""
    protobuf: str = ""


def _whole(name: str, bits: int, spark: str = "", avro: str = "", protobuf: str = "") -> SourceType:
    signed = not name.startswith("u")
    low = -(1 << (bits - 1)) if signed else 0
    high = (1 << (bits - 1)) - 1 if signed else (1 << bits) - 1
    return SourceType(name, Group.WHOLE, name, spark, low, high, avro=avro, protobuf=protobuf)


NULL = SourceType("null", Group.NULL, "null", "void", avro="null")
BOOLEAN = SourceType("boolean", Group.BOOLEAN, "bool, bool8", "boolean", avro="boolean", protobuf="bool")
INT8, INT16 = _whole("int8", 8, "tinyint"), _whole("int16", 16, "smallint")
INT32 = _whole("int32", 32, "int", "int", "int32, sint32, sfixed32")
INT64 = _whole("int64", 64, "bigint", "long", "int64, sint64, sfixed64")
UINT8, UINT16 = _whole("uint8", 8), _whole("uint16", 16)
UINT32 = _whole("uint32", 32, protobuf="uint32, fixed32")
UINT64 = _whole("uint64", 64, protobuf="uint64, fixed64")
FLOAT16 = SourceType("float16", Group.FLOATING, "halffloat", digits=11)
FLOAT32 = SourceType("float32", Group.FLOATING, "float", "float", digits=24, avro="float", protobuf="float")
FLOAT64 = SourceType("float64", Group.FLOATING, "double", "double", digits=53, avro="double", protobuf="double")
DECIMAL = SourceType("decimal", Group.DECIMAL, "decimal32 to decimal256", "decimal", avro="decimal")
TEXT = SourceType(
    "text",
    Group.TEXT,
    "string, large_string, string_view, arrow.json",
    "string, varchar, char",
    avro="string, enum",
    protobuf="string, enum",
)
UUID = SourceType("uuid", Group.UUID, "arrow.uuid", avro="uuid")
BYTES = SourceType(
    "bytes",
    Group.BYTES,
    "binary, large_binary, binary_view, fixed_size_binary",
    "binary",
    avro="bytes, fixed",
    protobuf="bytes",
)
TIMESTAMP = SourceType(
    "timestamp",
    Group.TIMESTAMP,
    "timestamp with a zone, INT96 of Spark",
    "timestamp",
    avro="timestamp-millis, -micros, -nanos",
    protobuf="google.protobuf.Timestamp",
)
LOCAL = SourceType(
    "local timestamp",
    Group.LOCAL,
    "timestamp without a zone, other INT96",
    "timestamp_ntz",
    avro="local-timestamp-millis, -micros, -nanos",
)
DATE = SourceType("date", Group.DATE, "date32, date64", "date", avro="date")
TIME = SourceType("time", Group.SPAN, "time32, time64", "time", avro="time-millis, time-micros")
DURATION = SourceType("duration", Group.SPAN, "duration", "interval day to second")
NESTED = SourceType(
    "nested",
    Group.NESTED,
    "list, struct, map, union",
    "array, struct, map, variant",
    avro="record, array, map",
    protobuf="message, repeated, map, other well-known types",
)
INTERVAL = SourceType(
    "interval", Group.OTHER, "month_day_nano_interval, Parquet INTERVAL", "interval year to month", avro="duration"
)

SOURCES = (
    NULL, BOOLEAN, INT8, INT16, INT32, INT64, UINT8, UINT16, UINT32, UINT64, FLOAT16, FLOAT32, FLOAT64, DECIMAL, TEXT,
    UUID, BYTES, TIMESTAMP, LOCAL, DATE, TIME, DURATION, NESTED, INTERVAL,
)  # fmt: skip
_BY_NAME = {source.name: source for source in SOURCES}
_FLOATING = {16: FLOAT16, 32: FLOAT32, 64: FLOAT64}
_SPARK = {word.strip(): source for source in SOURCES for word in source.spark.split(",") if word.strip()}


def source_of(kind: Any) -> SourceType:
    """The source of an Arrow type, whatever its encoding. A type that is not known is ``INTERVAL``, which no column
    takes."""
    kinds = pa.types
    if kinds.is_dictionary(kind) or kinds.is_run_end_encoded(kind):
        return source_of(kind.value_type)
    if isinstance(kind, pa.BaseExtensionType):
        extension = {"arrow.uuid": UUID, "arrow.bool8": BOOLEAN}.get(kind.extension_name)
        return extension or source_of(kind.storage_type)
    if kinds.is_integer(kind):
        return _BY_NAME[str(kind)]
    if kinds.is_floating(kind):
        return _FLOATING[kind.bit_width]
    if kinds.is_timestamp(kind):
        return LOCAL if kind.tz is None else TIMESTAMP
    return next((source for fits, source in _KINDS if fits(kind)), INTERVAL)


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _is_bytes(kind: pa.DataType) -> bool:
    kinds = pa.types
    plain = kinds.is_binary(kind) or kinds.is_large_binary(kind)
    return bool(plain or kinds.is_binary_view(kind) or kinds.is_fixed_size_binary(kind))


_KINDS = (
    (_is_text, TEXT),
    (_is_bytes, BYTES),
    (pa.types.is_null, NULL),
    (pa.types.is_boolean, BOOLEAN),
    (pa.types.is_decimal, DECIMAL),
    (pa.types.is_date, DATE),
    (pa.types.is_time, TIME),
    (pa.types.is_duration, DURATION),
    (pa.types.is_nested, NESTED),
)


def spark_source(simple: str) -> SourceType:
    """The source of a Spark type by its simple string, like ``decimal(10,2)``."""
    word = re.split(r"[^a-z_]", simple, maxsplit=1)[0]
    if word.startswith("interval"):
        return INTERVAL if "month" in simple or "year" in simple else DURATION
    return _SPARK.get(word, INTERVAL)


INTEGER_BITS = {"byte": 8, "short": 16, "int": 32, "long": 64}
SIGNIFICANT = {"float": 24, "double": 53}
PARTITION = "partition value"
COLUMNS = ("Boolean", *INTEGER_BITS, "char", *SIGNIFICANT, "Instant", "String", PARTITION)


class Take(StrEnum):
    """Whether a column takes values of a source."""

    EXACT = "exact"
    CHECKED = "checked"
    OPTION = "by option"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class ConversionRule:
    """A cell. ``options`` must all be set for ``Take.OPTION``; ``as_what`` says what becomes of a value."""

    take: Take
    options: tuple[str, ...] = ()
    as_what: str = ""
    lossy: bool = False

    def takes(self, options: frozenset[str] = frozenset()) -> bool:
        """Whether values are taken with these options set."""
        if self.take is Take.OPTION:
            return options.issuperset(self.options)
        return self.take is not Take.REFUSED


EXACT, CHECKED, REFUSED = ConversionRule(Take.EXACT), ConversionRule(Take.CHECKED), ConversionRule(Take.REFUSED)
LOSSY = ConversionRule(Take.CHECKED, lossy=True)


def _by(*options: str, as_what: str = "") -> ConversionRule:
    return ConversionRule(Take.OPTION, options, as_what)


_INTEGERS, _FLOATS = tuple(INTEGER_BITS), tuple(SIGNIFICANT)
_AS_TEXT = {"String": _by("as_text", as_what="its canonical text")}
_COUNT = {"int": CHECKED, "long": CHECKED}


def _cells(**cells: ConversionRule) -> dict[str, ConversionRule]:
    """Cells by column type; ``integers`` and ``floats`` stand for several."""
    groups = {"integers": _INTEGERS, "floats": _FLOATS}
    return {name: rule for key, rule in cells.items() for name in groups.get(key, (key,))}


_TEXTS = _cells(
    Boolean=_by("quoted or true, false"),
    integers=_by("quoted"),
    floats=_by("quoted"),
    char=CHECKED,
    Instant=ConversionRule(Take.CHECKED, as_what="ISO text, or as `format` says"),
    String=CHECKED,
) | {PARTITION: CHECKED}
_NUMBER = _cells(integers=CHECKED, floats=LOSSY, Instant=_by("unit")) | _AS_TEXT
TABLE: dict[Group, dict[str, ConversionRule]] = {
    Group.NULL: dict.fromkeys(COLUMNS, EXACT),
    Group.BOOLEAN: {"Boolean": EXACT} | _AS_TEXT,
    Group.WHOLE: _NUMBER
    | {
        "Boolean": ConversionRule(Take.CHECKED, as_what="0 and 1, or as `true`, `false` say"),
        "char": ConversionRule(Take.CHECKED, as_what="the UTF-16 unit"),
    },
    Group.FLOATING: _NUMBER,
    Group.DECIMAL: _NUMBER,
    Group.TEXT: _TEXTS,
    Group.UUID: {"String": ConversionRule(Take.EXACT, as_what="8-4-4-4-12 hexadecimal digits"), PARTITION: EXACT},
    Group.BYTES: {
        name: replace(cell, take=Take.OPTION, options=("binary_as_text", *cell.options))
        for name, cell in _TEXTS.items()
        if name != PARTITION
    },
    Group.TIMESTAMP: {"Instant": CHECKED} | _AS_TEXT,
    Group.LOCAL: {"Instant": _by("zone")} | _AS_TEXT,
    Group.DATE: {name: replace(cell, as_what="days since 1970") for name, cell in _COUNT.items()}
    | {"Instant": _by("zone"), PARTITION: ConversionRule(Take.EXACT, as_what="YYYY-MM-DD")}
    | _AS_TEXT,
    Group.SPAN: {name: replace(cell, as_what="the count of its unit") for name, cell in _COUNT.items()} | _AS_TEXT,
    Group.NESTED: dict(_AS_TEXT),
    Group.OTHER: {},
}


def accepted(column: str) -> str:
    """What a column of this type takes without an option, for people."""
    cells = {word: TABLE[group].get(column, REFUSED) for group, word in _WORDS.items()}
    kinds = [word for word, cell in cells.items() if cell.take in (Take.EXACT, Take.CHECKED)]
    *first, last = kinds
    return f"{', '.join(first)} or {last}" if first else last


_WORDS = {
    Group.BOOLEAN: "a boolean",
    Group.WHOLE: "a number",
    Group.FLOATING: "a number",
    Group.DECIMAL: "a number",
    Group.TEXT: "a string",
    Group.UUID: "a UUID",
    Group.TIMESTAMP: "a timestamp with a zone",
    Group.DATE: "a date",
    Group.SPAN: "a time",
}


def column_rule(source: SourceType, kind: DataType) -> ConversionRule:
    """What a column of a type takes of a source, also of a type with a codec."""
    if kind.coding is None:
        return rule(source, kind.name)
    take = "exact" if source.group is Group.NULL else kind.coding.sources.get(source.group.value)
    return REFUSED if take is None or source is DURATION else ConversionRule(Take(take))


def accepted_by(kind: DataType) -> str:
    """What a column of a type takes without an option, for people."""
    return accepted(kind.name) if kind.coding is None else kind.coding.domain


def rule(source: SourceType, column: str) -> ConversionRule:
    """What a column of this type takes of a source; ``checked`` becomes ``exact`` where every value fits."""
    cell = TABLE[source.group].get(column, REFUSED)
    if cell.take is Take.CHECKED and _always(source, column):
        return replace(cell, take=Take.EXACT, lossy=False)
    return cell


def _always(source: SourceType, column: str) -> bool:
    """Whether a column holds every value of a source of numbers; its null value is one that it does not."""
    if source.group is Group.WHOLE and column in INTEGER_BITS:
        half = 1 << (INTEGER_BITS[column] - 1)
        return -half < source.low and source.high < half
    if source.group is Group.WHOLE and column in SIGNIFICANT:
        return max(-source.low, source.high) <= 1 << SIGNIFICANT[column]
    if source.group is Group.FLOATING and column in SIGNIFICANT:
        return source.digits < SIGNIFICANT[column]
    return False


SPARK, ARROW = b"org.apache.spark.version", b"ARROW:schema"


@dataclass(frozen=True, slots=True)
class OldTimestamps:
    """Columns of type INT96, and which of them are ``instants``; ``unknown``: those whose writer does not say."""

    columns: frozenset[str]
    instants: frozenset[str]
    unknown: frozenset[str]


def old_timestamps(file: ParquetFile, *, instants: bool = False) -> OldTimestamps:
    """Those of an open file. ``instants``: all are, as in data files of a Delta table, whoever wrote them."""
    leaves = (file.schema.column(index) for index in range(len(file.schema)))
    columns = frozenset(leaf.path for leaf in leaves if leaf.physical_type == "INT96")
    footer = (file.metadata.metadata or {}) if columns else {}
    if instants or SPARK in footer:
        return OldTimestamps(columns, columns, frozenset())
    zones = _zones(footer.get(ARROW))
    return OldTimestamps(columns, frozenset(c for c in columns if zones.get(c)), columns - zones.keys())


def _zones(packed: bytes | None) -> dict[str, str | None]:
    """The zone, or None, of each timestamp of a schema that Arrow has put into a footer; nothing if it is damaged."""
    if packed is None:
        return {}
    try:
        schema = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(packed)))
    except (ValueError, OSError, pa.ArrowException):
        return {}
    return {field.name: field.type.tz for field in schema if pa.types.is_timestamp(field.type)}


_NAMED = {"UUID": pa.uuid(), "ENUM": pa.string(), "INTERVAL": pa.month_day_nano_interval()}


def logical_schema(file: ParquetFile, old: OldTimestamps) -> pa.Schema:
    """Names and types of the columns of an open file, in order; names may repeat."""
    logical = {}
    for leaf in (file.schema.column(index) for index in range(len(file.schema))):
        interval = leaf.converted_type == "INTERVAL"  # which has no logical type of its own
        logical[leaf.path] = "INTERVAL" if interval else leaf.logical_type.type
    fields = []
    for column in file.schema_arrow:
        kind = _NAMED.get(logical.get(column.name, ""), column.type)
        fields.append(pa.field(column.name, pa.timestamp("ns", "UTC") if column.name in old.instants else kind))
    return pa.schema(fields)


def as_logical(array: pa.Array, declared: pa.DataType) -> pa.Array:
    """A column as it was read, as its logical type; without view. An ENUM is not validated."""
    kind, kinds = array.type, pa.types
    if kinds.is_string_view(kind):
        return array.cast(pa.string())
    if kinds.is_binary_view(kind):
        return array.cast(pa.binary())
    if declared == pa.uuid() and kinds.is_fixed_size_binary(kind):
        return pa.ExtensionArray.from_storage(declared, array)
    return array.view(pa.string()) if declared == pa.string() and kinds.is_binary(kind) else array
