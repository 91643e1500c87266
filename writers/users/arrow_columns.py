"""The columns of a user table by the Arrow types of its data; a type without an exact one is refused by name.

What may be saved as a user table, as a stream of Arrow batches; and its values as those of the columns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from sparkhaven.store.errors import SchemaMismatchError, SettingsError
from sparkhaven.store.layout import check_identifier
from sparkhaven.store.source_rows import SourceRows
from sparkhaven.store.types.datatypes import data_type
from sparkhaven.store.types.model import Column, Kind, Storage, case_twins
from sparkhaven.writers.foreign_values import mapped, partition_values

CHARSET = "UTF_8"
DECIMALS = "io.deephaven.util.codec.BigDecimalCodec"
INTEGERS = "io.deephaven.util.codec.BigIntegerCodec"
UINT64_DIGITS = "20"
Spelling = tuple[str, str | None, str | None]  # data type, codec, its arguments

_PLAIN = {
    "bool": "Boolean",
    "int8": "byte",
    "int16": "short",
    "int32": "int",
    "int64": "long",
    "uint8": "short",
    "uint16": "int",
    "uint32": "long",
    "halffloat": "float",
    "float": "float",
    "double": "double",
    "string": "String",
    "large_string": "String",
    "string_view": "String",
    "binary": "byte[]",
    "large_binary": "byte[]",
    "binary_view": "byte[]",
}
_EXTENSIONS = {"arrow.uuid": "String", "arrow.json": "String", "arrow.bool8": "Boolean"}
_ELEMENTS = {  # of a column type of numbers, texts or Booleans the array that has them; bytes are no elements
    "Boolean": "boolean[]",
    "byte": "short[]",
    "short": "short[]",
    "int": "int[]",
    "long": "long[]",
    "float": "float[]",
    "double": "double[]",
    "String": "String[]",
}


def _is_extension(kind: pa.DataType) -> bool:
    return isinstance(kind, pa.BaseExtensionType)


_REASONS: tuple[tuple[Callable[[pa.DataType], bool], str], ...] = (
    (pa.types.is_null, "no row has a value. Cast the column to a type, or give a schema"),
    (pa.types.is_timestamp, "a time without zone names no instant. Give it a zone, like UTC"),
    (pa.types.is_duration, "cast it to int64, in a unit of your choice"),
    (pa.types.is_struct, "make a column of each field"),
    (pa.types.is_map, "give a schema that names a codec of java.util.Map"),
    (_is_extension, "it has a meaning of its own. Save its storage: array.storage, or cast the column"),
    (pa.types.is_nested, "lists have numbers, booleans, texts or instants as elements. Cast the elements"),
    (pa.types.is_decimal, "cast it to a decimal with a scale from 0 to its precision"),
)


def columns_of(schema: pa.Schema, partition_by: str | None) -> tuple[Column, ...]:
    """Columns in the order of the data, that of the partition values first.

    SchemaMismatchError: a type that cannot be stored exactly, or names that cannot stand beside each other.
    InvalidNameError: a name that cannot be one of a column.
    """
    if not len(schema):
        raise SchemaMismatchError("the data have no column", expected="one or more", found="none")
    names = [check_identifier("column name", name) for name in schema.names]
    if (twins := case_twins(names)) is not None or len(set(names)) < len(names):
        shown = twins or next((name, name) for name in names if names.count(name) > 1)
        raise SchemaMismatchError(
            "the data have two columns of one name, or of names that differ in case only",
            expected="names that differ by more than case",
            found=" and ".join(shown),
            hint="rename one of the two",
        )
    if partition_by is not None and partition_by not in names:
        raise SchemaMismatchError(
            "the data lack the column of the partition values",
            expected=f"column {partition_by}",
            found=", ".join(names),
            hint="name one of the columns as partition_by",
        )
    if partition_by is not None and len(names) == 1:
        raise SchemaMismatchError(
            "no column is stored beside the partition values", expected="another column", found=partition_by
        )
    ordered = sorted(schema, key=lambda field: field.name != partition_by)
    return tuple(_column(field, number, field.name == partition_by) for number, field in enumerate(ordered))


def _column(field: pa.Field, number: int, partitioning: bool) -> Column:
    if partitioning:
        return Column(field.name, data_type("String"), Kind.PARTITIONING, Storage.NONE, number, CHARSET)
    spelling, codec, arguments = _spelling(field)
    kind = data_type(spelling, codec, arguments)
    if kind.name == "String":
        return Column(field.name, kind, Kind.NORMAL, Storage.SYMBOL, number, CHARSET)
    origin, coding = kind.origin, kind.coding
    return Column(
        field.name,
        kind,
        Kind.NORMAL,
        Storage.FIXED if kind.width else Storage.BLOB,
        number,
        codec=None if origin is None else origin.codec,
        codec_args=None if origin is None else origin.arguments,
        codec_width=None if coding is None else coding.width,
        component=data_type(spelling[:-2]) if spelling.endswith("[]") else None,
    )


def _spelling(field: pa.Field) -> Spelling:
    kind, types = _values_of(field.type), pa.types
    plain = _plain(kind)
    if plain is not None:
        return plain, None, None
    if types.is_fixed_size_binary(kind):
        return "byte[]", None, None
    if types.is_uint64(kind):
        return "BigInteger", INTEGERS, UINT64_DIGITS
    if types.is_timestamp(kind) and kind.tz is not None:
        return "Instant", None, None
    if types.is_date(kind):
        return "LocalDate", None, None
    if types.is_time(kind):
        return "LocalTime", None, None
    if types.is_decimal(kind) and 0 <= kind.scale <= kind.precision:
        return "BigDecimal", DECIMALS, f"{kind.precision},{kind.scale}"
    if any(fits(kind) for fits in _LISTS):
        element = _values_of(kind.value_type)
        if _plain(element) in _ELEMENTS:
            return _ELEMENTS[str(_plain(element))], None, None
        if types.is_timestamp(element) and element.tz is not None:
            return "Instant[]", None, None
    reason = next((text for fits, text in _REASONS if fits(kind)), "cast the column to another type, or leave it out")
    raise SchemaMismatchError(
        f"column {field.name} has an Arrow type that no column type holds exactly",
        where=f"column {field.name}",
        expected="numbers, booleans, texts, bytes, dates, times, instants with a zone, decimals, or lists of those",
        found=field.type,
        hint=reason,
    )


_LISTS = (
    pa.types.is_list,
    pa.types.is_large_list,
    pa.types.is_fixed_size_list,
    pa.types.is_list_view,
    pa.types.is_large_list_view,
)


def _values_of(kind: pa.DataType) -> pa.DataType:
    """The type of the values, however they are encoded."""
    while pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind):
        kind = kind.value_type
    return kind


def _plain(kind: pa.DataType) -> str | None:
    """The column type of numbers, Booleans, texts or bytes; None for another type."""
    if isinstance(kind, pa.BaseExtensionType):
        return _EXTENSIONS.get(kind.extension_name)
    return _PLAIN.get(str(kind))


def require_same_columns(table: str, columns: Sequence[Column], names: Sequence[str]) -> None:
    """SchemaMismatchError unless data have exactly the columns of the table, in any order."""
    wanted = [column.name for column in columns]
    missing = [name for name in wanted if name not in names]
    foreign = [name for name in names if name not in wanted]
    twice = [name for name in names if names.count(name) > 1]
    if missing or foreign or twice:
        odd = f"no {missing[0]}" if missing else f"also {foreign[0]}" if foreign else f"{twice[0]} twice"
        raise SchemaMismatchError(
            f"the data have other columns than {table}",
            expected=", ".join(wanted),
            found=odd,
            hint="give the data the columns of the table, or save the table with mode replace",
        )


KINDS = "a pyarrow Table, RecordBatch or RecordBatchReader, pandas or polars data frame, Arrow stream, or Spark frame"
BATCH_ROWS = 1 << 17
_FRAMES = ("pandas", "polars")
_FRAMES_OF = {"Series": "data.to_frame()", "LazyFrame": "data.collect()"}


def arrow_stream(data: Any) -> pa.RecordBatchReader:
    """The rows of anything that gives Arrow; SettingsError for what does not.

    An index of pandas is kept if it has a name; one without is refused, unless it counts the rows.
    """
    if isinstance(data, pa.RecordBatchReader):
        return data
    if isinstance(data, pa.RecordBatch):
        data = pa.Table.from_batches([data])
    if not isinstance(data, pa.Table):
        package, name = type(data).__module__.partition(".")[0], type(data).__name__
        if package in _FRAMES and name in _FRAMES_OF:
            raise SettingsError(
                "the data are no table", expected=KINDS, found=f"a {name} of {package}", hint=f"pass {_FRAMES_OF[name]}"
            )
        try:
            if package == "pandas" and name == "DataFrame":
                data = pa.Table.from_pandas(data, preserve_index=_keeps_index(data))
            elif package == "pyspark" and hasattr(data, "toArrow"):
                data = data.toArrow()
            elif hasattr(data, "__arrow_c_stream__"):
                if package == "polars":
                    _refuse_objects(data)
                return pa.RecordBatchReader.from_stream(data)
            else:
                raise SettingsError("the data cannot be read as Arrow", expected=KINDS, found=type(data).__name__)
        except (pa.ArrowException, TypeError, ValueError) as error:
            if isinstance(error, SettingsError):
                raise
            raise SettingsError(
                "the data have a column that Arrow cannot hold",
                expected=KINDS,
                found=" ".join(map(str, error.args))[:300],
                hint="give the column one type that Arrow has, or leave it out",
            ) from error
    return data.to_reader(BATCH_ROWS)


def _keeps_index(frame: Any) -> bool:
    """Whether the index of a pandas frame becomes columns. SettingsError: it has values, and no name of its own."""
    index, names = frame.index, list(frame.index.names)
    if names == [None] and type(index).__name__ == "RangeIndex":
        return False
    bad = [name for name in names if not isinstance(name, str) or name in frame.columns]
    if bad:
        raise SettingsError(
            "the index of the data frame lacks a name of its own",
            expected="a name for each level of the index, which no column has",
            found=", ".join("no name" if name is None else repr(name) for name in bad),
            hint='frame.rename_axis(["Name"]) names it, and it is saved as a column.'
            " frame.reset_index(drop=True) leaves it out",
        )
    return True


def _refuse_objects(frame: Any) -> None:
    """SettingsError for a column of Python objects: polars gives their addresses."""
    objects = [name for name, kind in getattr(frame, "schema", {}).items() if str(kind).startswith("Object")]
    if objects:
        raise SettingsError(
            f"column {objects[0]} has Python objects, which Arrow cannot hold",
            expected=KINDS,
            found="Object",
            hint="give the column one type that Arrow has, or leave it out",
        )


class IncomingRows:
    """Batches with the columns of a table, in their types; columns are found by name. They are read once.

    SchemaMismatchError while they are read: a value that its column does not hold exactly, by its row.
    """

    def __init__(self, batches: pa.RecordBatchReader, columns: Sequence[Column], table: str) -> None:
        self._batches, self._columns, self._table = batches, columns, table
        self._source = SourceRows(0)

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        names, first = [column.name for column in self._columns], 0
        for batch in self._batches:
            self._source.count(batch.num_rows)
            if batch.num_rows:
                arrays = [_values(batch, column, first) for column in self._columns]
                yield pa.RecordBatch.from_arrays(arrays, names)
                first += batch.num_rows

    def require(self, written: int) -> None:
        """FeedError unless all rows that were given were written."""
        self._source.require(written, 0, self._table)


def _values(batch: pa.RecordBatch, column: Column, first: int) -> pa.Array:
    array = batch.column(batch.schema.get_field_index(column.name))

    def place(row: int) -> str:
        return f"column {column.name}, row {first + row}"

    if column.kind is not Kind.PARTITIONING:
        return mapped(array, column, place)
    return partition_values(array, column, place)
