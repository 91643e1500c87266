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
===========================  ==============================================================================
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import types as spark

from sparkhaven.readers.spark.options import ReadOptions
from sparkhaven.store.errors import SchemaMismatchError
from sparkhaven.store.scan.slices import Slice
from sparkhaven.store.types.model import Column

MICROSECONDS = pa.timestamp("us", "UTC")
SURROGATES = range(0xD800, 0xE000)
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
        numbers = column.type.name == "Instant" and options.instant == "long"
        metadata = {"deephaven.type": "Instant", "deephaven.unit": "ns"} if numbers else None
        schema.add(column.name, _types(column, options)[0], True, metadata)
    return schema


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
    name = column.type.name
    chosen = options.char if name == "char" else options.instant
    return _SPARK[name] if name in _SPARK else _CHOSEN[name, chosen]


def _converted(array: pa.Array, column: Column, kind: pa.DataType, options: ReadOptions) -> pa.Array:
    if column.type.name == "char" and options.char == "string":
        return _characters(array, column)
    if kind == MICROSECONDS and options.instant == "timestamp-truncate":
        return pc.floor_temporal(array, unit="microsecond").cast(kind)
    try:
        return array if array.type == kind else array.cast(kind)
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


def _inexact(column: Column, where: object) -> SchemaMismatchError:
    return SchemaMismatchError(
        "an Instant has nanoseconds, which Spark's timestamp cannot hold",
        where=where,
        column=column.name,
        expected="whole microseconds",
        found="a part below one microsecond",
        hint="read with option instant=long (nanoseconds as bigint, exact), or instant=timestamp-truncate (rounded)",
    )
