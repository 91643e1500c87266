"""Which Spark types a column takes from a data frame.

Plain columns, and those with a codec, take what the table of ``store.conversions`` says. A LocalTime also takes a
bigint as nanoseconds of the day, since readers give it as one. Arrays and maps are looked into: an element of an array,
and a value of a map, is taken where a plain column of its type takes it without an option.
"""

from __future__ import annotations

import pyarrow as pa

from sparkhaven.store.conversions.conversion_table import Take, accepted_by, column_rule, rule
from sparkhaven.store.conversions.source_types import INT64, Group, spark_source
from sparkhaven.store.types.datatypes import DataType


def takes(spark_type: str, kind: DataType, options: frozenset[str]) -> bool:
    """Whether a column takes values of a Spark type, named by its simple string, with these options."""
    source, arrow = spark_source(spark_type), kind.arrow
    if kind.coding is None or source.group is Group.NULL:
        return column_rule(source, kind).takes(options)
    if pa.types.is_nested(arrow):
        start = "map<string," if pa.types.is_map(arrow) else "array<"
        return _takes_elements(_between(start, spark_type), kind.coding.elements or "String")
    return (pa.types.is_time(arrow) and source is INT64) or column_rule(source, kind).takes(options)


def _between(start: str, spark_type: str) -> str | None:
    """What stands behind ``start`` in the brackets; None for a type that does not begin so."""
    return spark_type[len(start) : -1] if spark_type.startswith(start) else None


def _takes_elements(spark_type: str | None, element: str) -> bool:
    return spark_type is not None and rule(spark_source(spark_type), element).take in (Take.EXACT, Take.CHECKED)


def accepted_types(kind: DataType) -> str:
    """What a column takes, for people."""
    expected = accepted_by(kind)
    return f"a bigint of nanoseconds, or {expected}" if pa.types.is_time(kind.arrow) else expected


def with_times(rows: pa.RecordBatch, kinds: dict[str, DataType]) -> pa.RecordBatch:
    """The rows with each bigint of a LocalTime as a time of the day. ``kinds``: types by the column of the frame."""
    for name, kind in kinds.items():
        index = rows.schema.get_field_index(name)
        if index >= 0 and pa.types.is_time(kind.arrow) and pa.types.is_int64(rows.column(index).type):
            rows = rows.set_column(index, name, rows.column(index).view(kind.arrow))
    return rows
