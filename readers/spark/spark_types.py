"""Columns of a table as Spark types, and their Arrow arrays as Spark takes them.

===========================  ==============================================================================
column                       Spark type, and how its values become it
===========================  ==============================================================================
Boolean                      boolean
byte, short, int, long       tinyint, smallint, int, bigint
float, double                float, double
char                         string of one character (``char=string``), or its number (``char=int``)
String, partitioning column  string
Instant                      timestamp in microseconds (``instant=timestamp``), refused if a value has a part below
                             one; timestamp rounded down (``timestamp-truncate``); bigint of nanoseconds (``long``)
LocalDate                    date
LocalTime                    bigint, nanoseconds of the day
BigDecimal, BigInteger       decimal of their precision and scale; string above 38 digits, and without precision
byte[], any other class      binary
array, StringSet             array of the element's type; elements of char[] as ``char`` says, of Instant[] as
                             ``instant`` says, where a value is refused when it is read
Map                          map of string to the type of its values
===========================  ==============================================================================
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from inspect import signature

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import types as spark

from sparkhaven.readers.spark.options import ReadOptions
from sparkhaven.store.errors import SchemaMismatchError
from sparkhaven.store.scan.slices import Slice
from sparkhaven.store.types.codings.coding import list_elements
from sparkhaven.store.types.codings.decimals import decimal_texts
from sparkhaven.store.types.model import Column

MICROSECONDS = pa.timestamp("us", "UTC")
SURROGATES = range(0xD800, 0xE000)


def arrow_schema(schema: spark.StructType) -> pa.Schema:
    """The Arrow types of a Spark frame; Spark 4.2 asks for the zone of timestamps, earlier releases have UTC."""
    from pyspark.sql.pandas.types import to_arrow_schema

    asked = {"timezone": "UTC"} if "timezone" in signature(to_arrow_schema).parameters else {}
    return to_arrow_schema(schema, **asked)


_SPARK: dict[str, tuple[spark.DataType, pa.DataType]] = {
    "Boolean": (spark.BooleanType(), pa.bool_()),
    "byte": (spark.ByteType(), pa.int8()),
    "short": (spark.ShortType(), pa.int16()),
    "int": (spark.IntegerType(), pa.int32()),
    "long": (spark.LongType(), pa.int64()),
    "float": (spark.FloatType(), pa.float32()),
    "double": (spark.DoubleType(), pa.float64()),
    "String": (spark.StringType(), pa.string()),
}
_ELEMENTS: dict[pa.DataType, spark.DataType] = {kind: type_ for type_, kind in _SPARK.values()} | {
    MICROSECONDS: spark.TimestampType()
}
_CHOSEN: dict[tuple[str, str], tuple[spark.DataType, pa.DataType]] = {
    ("char", "string"): (spark.StringType(), pa.string()),
    ("char", "int"): (spark.IntegerType(), pa.int32()),
    ("Instant", "timestamp"): (spark.TimestampType(), MICROSECONDS),
    ("Instant", "timestamp-truncate"): (spark.TimestampType(), MICROSECONDS),
    ("Instant", "long"): (spark.LongType(), pa.int64()),
}


def spark_schema(columns: Iterable[Column], options: ReadOptions) -> spark.StructType:
    """The schema of a data frame; nanoseconds as bigint are named as such in the metadata of their field."""
    schema = spark.StructType()
    for column in columns:
        type_ = _types(column, options)[0]
        element = type_.elementType if isinstance(type_, spark.ArrayType) else type_
        numbers = isinstance(element, spark.LongType) and _has_nanoseconds(column)
        metadata = {"deephaven.type": column.type.name, "deephaven.unit": "ns"} if numbers else None
        schema.add(column.name, type_, True, metadata)
    return schema


def _has_nanoseconds(column: Column) -> bool:
    kind = column.type.arrow
    return bool(pa.types.is_temporal(kind.value_type if pa.types.is_list(kind) else kind))


def require_schema(requested: spark.StructType, offered: spark.StructType, table: str) -> None:
    """SchemaMismatchError: ``spark.read.schema(...)`` asks for other columns or types than there are."""
    kinds = [(field.name, field.dataType.simpleString()) for field in offered.fields]
    types = [(field.name, field.dataType.simpleString()) for field in requested.fields]
    if kinds != types:
        raise SchemaMismatchError(
            "the schema of the data frame is not that of the table",
            where=table,
            expected=", ".join(map(" ".join, kinds)),
            found=", ".join(map(" ".join, types)),
            hint="leave the schema out. The options `columns`, `instant` and `char` choose columns and types",
        )


def require_exact(slices: Iterable[Slice], columns: Iterable[Column], options: ReadOptions) -> None:
    """SchemaMismatchError: by the statistics an Instant has nanoseconds, which a timestamp cannot hold."""
    if options.instant != "timestamp":
        return
    instants = [column for column in columns if column.type.name == "Instant"]
    for slice_ in slices:
        for column in instants:
            if not all(stats.exact_us for stats in slice_.stats.get(column.name, ())):
                raise _inexact(column, slice_.directory)


def spark_batch(batch: pa.RecordBatch, columns: Sequence[Column], options: ReadOptions) -> pa.RecordBatch:
    """A batch of the table with the Arrow types that Spark asks for. SchemaMismatchError: a value has no such form."""
    types = [_types(column, options)[1] for column in columns]
    arrays = [_converted(array, c, t, options) for array, c, t in zip(batch.columns, columns, types, strict=True)]
    fields = [pa.field(column.name, kind) for column, kind in zip(columns, types, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))


def _types(column: Column, options: ReadOptions) -> tuple[spark.DataType, pa.DataType]:
    name, kind = column.type.name, column.type.arrow
    if column.type.coding is None:
        chosen = options.char if name == "char" else options.instant
        return _SPARK[name] if name in _SPARK else _CHOSEN[name, chosen]
    if pa.types.is_list(kind):
        element = kind.value_type
        if pa.types.is_uint16(element):
            element = _CHOSEN["char", options.char][1]
        elif pa.types.is_timestamp(element):
            element = _CHOSEN["Instant", options.instant][1]
        return spark.ArrayType(_ELEMENTS[element]), pa.list_(element)
    if pa.types.is_map(kind):
        return spark.MapType(spark.StringType(), _ELEMENTS[kind.item_type]), kind
    if pa.types.is_decimal128(kind):
        return spark.DecimalType(kind.precision, kind.scale), kind
    if pa.types.is_time(kind):
        return spark.LongType(), pa.int64()
    if pa.types.is_date(kind):
        return spark.DateType(), kind
    return (spark.BinaryType(), pa.binary()) if pa.types.is_binary(kind) else (spark.StringType(), pa.string())


def _converted(array: pa.Array, column: Column, kind: pa.DataType, options: ReadOptions) -> pa.Array:
    if column.type.name == "char" and options.char == "string":
        return _characters(array, column)
    if options.instant == "timestamp-truncate" and kind in (MICROSECONDS, pa.list_(MICROSECONDS)):
        if pa.types.is_timestamp(array.type):
            return _floored(array)
        return _lists_of(array, _floored)
    if array.type == kind:
        return array
    if pa.types.is_time(array.type):
        return array.view(kind)
    if pa.types.is_decimal256(array.type):
        return decimal_texts(array)
    if pa.types.is_list(array.type) and kind.value_type == pa.string():
        return _lists_of(array, lambda elements: _characters(elements, column))
    try:
        return array.cast(kind)
    except pa.ArrowInvalid:
        raise _inexact(column, None) from None


def _characters(array: pa.Array, column: Column) -> pa.Array:
    codes = array.dictionary_encode()
    numbers = codes.dictionary.to_numpy().astype(np.int64).tolist()
    lone = next((number for number in numbers if number in SURROGATES), None)
    if lone is not None:
        raise SchemaMismatchError(
            "a char is half of a character",
            column=column.name,
            expected="a character of one UTF-16 unit",
            found=f"the surrogate U+{lone:04X}",
            hint="read it with option char=int",
        )
    texts = pa.array([chr(number) for number in numbers], pa.string())
    return pa.DictionaryArray.from_arrays(codes.indices, texts).cast(pa.string())


def _floored(instants: pa.Array) -> pa.Array:
    return pc.floor_temporal(instants, unit="microsecond").cast(MICROSECONDS)


def _lists_of(array: pa.ListArray, convert: Callable[[pa.Array], pa.Array]) -> pa.ListArray:
    """The lists with converted elements."""
    starts, elements = list_elements(array)
    return pa.ListArray.from_arrays(pa.array(starts, pa.int32()), convert(elements), mask=array.is_null())


def _inexact(column: Column, where: object) -> SchemaMismatchError:
    return SchemaMismatchError(
        "an Instant has nanoseconds, which Spark's timestamp cannot hold",
        where=where,
        column=column.name,
        expected="whole microseconds",
        found="a part below one microsecond",
        hint="read with option instant=long (nanoseconds as bigint, exact), or instant=timestamp-truncate (rounded)",
    )
