"""The types that values come in. A decoder maps its own type system to these, and to nothing else.

A source has a ``group``, which decides what a column takes of it, and the bounds that decide whether every value fits:
``low`` and ``high`` of whole numbers, ``digits`` (bits of the significand) of floating numbers.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import pyarrow as pa


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
_FLOATS = {16: FLOAT16, 32: FLOAT32, 64: FLOAT64}
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
        return _FLOATS[kind.bit_width]
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
