"""Rows of a data frame, typed already, to blocks: types are checked once, values like those of any feed.

``frame_types`` says what a column takes of a Spark type. A bigint is an Instant in nanoseconds since the epoch, or a
LocalTime in nanoseconds of the day. Every stored column must be there, and every other one must be named for routing,
as a position, or as ignored: neither nulls nor losses come from a name that was misspelt.

*Types.* Plain columns, and those with a codec, take what the table of ``store.conversions`` says. A LocalTime also
takes a bigint as nanoseconds of the day, since readers give it as one. Arrays and maps are looked into: an element of
an array, and a value of a map, is taken where a plain column of its type takes it without an option.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sparkhaven.ingest.bad_rows import Rejects
from sparkhaven.ingest.feeds.base import Block, Clock, Feed, ResumeRules
from sparkhaven.ingest.formats.parquet.parquet_rows import ParquetDecoder
from sparkhaven.ingest.formats.parquet.typed_values import row_form, row_text
from sparkhaven.ingest.router import Router
from sparkhaven.ingest.spec import FILE_META, ColumnSpec, StreamSpec, Target, Traits
from sparkhaven.ingest.targets import resolve_targets
from sparkhaven.store.conversions.conversion_table import (
    INT64,
    SIGNIFICANT,
    Group,
    Take,
    accepted_by,
    column_rule,
    rule,
    source_of,
    spark_source,
)
from sparkhaven.store.errors import SchemaMismatchError, SettingsError
from sparkhaven.store.foreign_parquet import ParquetBatch, told_apart
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.types.datatypes import DataType
from sparkhaven.store.types.model import TableSchema

Fields = Sequence[tuple[str, str]]
_HINTS = {
    Group.LOCAL: "a timestamp_ntz names no instant. Make a timestamp of it in the query, with the zone that it is in",
    Group.DATE: "a date names no instant. Make a timestamp of it in the query, with the zone that it is in",
    Group.BYTES: "make a string of it in the query, for instance with decode(column, 'UTF-8')",
}
_UNSIGNED = {pa.uint8(): pa.int16(), pa.uint16(): pa.int32(), pa.uint32(): pa.int64(), pa.uint64(): pa.decimal128(20)}


@dataclass(frozen=True, slots=True, eq=False)
class FrameBatch:
    """A batch of rows of a task: the split of a frame carries its rows.

    ``origin`` and ``numbers`` (in ``unit``) say where they come from; numbers may repeat.
    """

    rows: pa.RecordBatch
    origin: str
    numbers: npt.NDArray[np.int64]
    unit: Literal["row", "offset"]

    @property
    def path(self) -> str:
        return self.origin


@dataclass(frozen=True, slots=True)
class FramesOptions:
    """Rows that a query of the user's hands over. ``allow_gap``: offsets between batches may be missing.

    ``lossy``: columns of the table that take the nearest value of a number; True: every float and double.
    """

    traits: ClassVar[Traits] = Traits("frames", FrameBatch, "rows", FILE_META, ("file",))

    allow_gap: bool = False
    lossy: tuple[str, ...] | bool = ()

    @property
    def path(self) -> str:
        return "a data frame"


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


def frame_columns(fields: Fields, used: Iterable[str]) -> dict[str, str]:
    """Spark's simple types by name; SchemaMismatchError for a name in ``used`` that two columns have, in any case."""
    counts, used = Counter(name for name, _ in fields), list(used)
    if twice := [name for name in dict.fromkeys(used) if counts[name] > 1]:
        raise SchemaMismatchError(
            "the data frame has a column twice",
            expected=f"one column {twice[0]}",
            found=", ".join(name for name, _ in fields),
            hint="rename one of them in the query, or drop it",
            column=twice[0],
        )
    by_case = Counter(name.lower() for name in counts)
    if twins := [name for name in dict.fromkeys(used) if by_case[name.lower()] > 1]:
        raise SchemaMismatchError(
            "the data frame has columns whose names differ in case only, which Spark takes for one",
            expected=f"one column {twins[0]}",
            found=", ".join(name for name in counts if name.lower() == twins[0].lower()),
            hint="give its columns other names, all at once: `frame.toDF(...)`. Then list what is not to be stored"
            " under `ignore`",
            column=twins[0],
        )
    return dict(fields)


def fit_frame(
    spec: StreamSpec, schema: TableSchema, columns: Mapping[str, str], positions: Iterable[str] = ()
) -> StreamSpec:
    """The settings for a frame of these columns (name to Spark's simple type); SchemaMismatchError if it does not fit.

    A bigint is taken for an Instant as nanoseconds. ``positions`` names columns that need not be stored.
    """
    if spec.partition.clock.kind == "batch":
        raise SettingsError(
            "a data frame has no clock of its batch", where=f"stream {spec.stream}", expected="wall, or a fixed time"
        )
    targets = resolve_targets(spec, schema)
    names = {target.source for target in targets} | set(positions) | set(spec.ignore)
    missing = [target.source for target in targets if target.source not in columns]
    further = [name for name in columns if name not in names]
    ignored = [name for name in spec.ignore if name not in columns]
    if missing or further or ignored:
        differences = (("lacks {}", missing), ("has {} too", further), ("lacks {}, to be ignored", ignored))
        raise SchemaMismatchError(
            "the columns of the data frame are not those of the table",
            where=schema.full_name,
            expected=", ".join(target.source for target in targets),
            found="; ".join(text.format(", ".join(columns)) for text, columns in differences if columns),
            hint="select the columns by the names of the table. List what is not to be stored under `ignore`",
        )
    specs = {column_spec.column: column_spec for column_spec in spec.columns}
    lossy = _lossy(spec, targets)
    for target in targets:
        name, source = target.column.name, spark_source(columns[target.source])
        counted = source is INT64 and target.column.type.name == "Instant"
        _check_type(schema, target, columns[target.source], frozenset({"unit"} if counted else ()))
        if counted or name in lossy:
            column_spec = specs.get(name, ColumnSpec(name))
            specs[name] = replace(column_spec, unit="ns" if counted else column_spec.unit, lossy=name in lossy)
    return replace(spec, columns=tuple(specs.values()))


def _lossy(spec: StreamSpec, targets: Iterable[Target]) -> frozenset[str]:
    """Columns that take the nearest value; SettingsError for a name that is none of a float or double."""
    chosen = spec.feed.lossy if isinstance(spec.feed, FramesOptions) else ()
    floating = frozenset(target.column.name for target in targets if target.column.type.name in SIGNIFICANT)
    if chosen is True:
        return floating
    names = frozenset(chosen or ())
    if odd := sorted(names - floating):
        raise SettingsError(
            "lossy names a column that is not a float or double of the table",
            where=f"stream {spec.stream}",
            expected=", ".join(sorted(floating)) or "no column: the table has no float or double",
            found=", ".join(odd),
        )
    return names


def _check_type(schema: TableSchema, target: Target, spark_type: str, options: frozenset[str]) -> None:
    kind, source = target.column.type, spark_source(spark_type)
    if not takes(spark_type, kind, options):
        plain = "cast it in the query, for instance with to_timestamp or cast('bigint')"
        hint = _HINTS.get(source.group, plain) if kind.coding is None else "make another type of it in the query"
        raise SchemaMismatchError(
            f"column {target.source} of the data frame cannot be stored as {kind.name}",
            where=schema.full_name,
            column=target.column.name,
            expected=f"{accepted_types(kind)}, for {kind.name}",
            found=spark_type,
            hint=hint,
        )


def frame_blocks(
    split: FrameBatch, spec: StreamSpec, schema: TableSchema, rejects: Rejects, clock: Clock
) -> Iterator[Block]:
    """Typed rows of one batch, with settings that ``fit_frame`` has made; bad rows go to ``rejects``."""
    targets = resolve_targets(spec, schema)
    rejects.source.count(split.rows.num_rows)
    origin, unit = split.origin, split.unit
    batch = pa.RecordBatch.from_arrays(split.rows.columns, told_apart(split.rows.schema.names))
    indices = np.arange(batch.num_rows, dtype=np.int64)  # numbers may repeat: a query can make two rows of one
    decoder = ParquetDecoder(targets, (), alias=spec.allow_null_alias, unit=unit)
    times = with_times(batch, {target.source: target.column.type for target in targets})
    router = Router(targets, spec.partition, origin, spec.partition.clock.now_ns(clock), unit)
    form = row_form(targets)

    def text(index: int) -> bytes:
        return row_text({name: batch.column(name)[index] for name in batch.schema.names}, form)

    with rejects.completing(lambda row: replace(row, line=int(split.numbers[row.line]))):
        yield router, decoder.typed(ParquetBatch(times, written=batch), indices, origin, rejects), text


class FramesFeed(Feed[FramesOptions, FrameBatch]):
    """Batches of a data frame, with settings that ``fit_frame`` has made."""

    @property
    def resume(self) -> ResumeRules:
        return ResumeRules(self.options.allow_gap)

    def decode(self, fs: Fs, split: FrameBatch, schema: TableSchema, rejects: Rejects, clock: Clock) -> Iterator[Block]:
        return frame_blocks(split, self.spec, schema, rejects, clock)


def plain_schema(schema: pa.Schema) -> pa.Schema:
    """The rows in types that Spark has, too: no dictionaries, no unsigned numbers, no large or viewed texts."""
    return pa.schema([field.with_type(_plain(field.type)) for field in schema])


def _plain(kind: pa.DataType) -> pa.DataType:
    kinds = pa.types
    if kinds.is_dictionary(kind):
        return _plain(kind.value_type)
    if kinds.is_large_string(kind) or kinds.is_string_view(kind):
        return pa.string()
    if kinds.is_large_binary(kind) or kinds.is_binary_view(kind) or kinds.is_fixed_size_binary(kind):
        return pa.binary()
    if kinds.is_float16(kind):
        return pa.float32()
    if kinds.is_date64(kind):
        return pa.date32()
    if kinds.is_list(kind) or kinds.is_large_list(kind) or kinds.is_fixed_size_list(kind):
        return pa.list_(_plain(kind.value_type))
    if kinds.is_map(kind):
        return pa.map_(_plain(kind.key_type), _plain(kind.item_type))
    return _UNSIGNED.get(kind, kind)


def simple_type(kind: pa.DataType) -> str:
    """The name that Spark has for the type of a column of ``plain_schema``; for others that of Arrow."""
    kinds = pa.types
    if kinds.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    if kinds.is_list(kind):
        return f"array<{simple_type(kind.value_type)}>"
    if kinds.is_map(kind):
        return f"map<{simple_type(kind.key_type)},{simple_type(kind.item_type)}>"
    return source_of(kind).spark.partition(",")[0] or str(kind)
