"""What an export writes: the rows of each date of a pinned snapshot, the columns, and an id of all of it.

Directories ``<Column>=<value>`` may give columns beside the date. Values are written as they are. One that readers
would take for another one, null, and an empty text are refused, and so is a type whose values programs write in several
ways.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from itertools import groupby
from pathlib import PurePosixPath
from typing import Any, Literal, get_args

import pyarrow as pa

from sparkhaven.readers.arrow.pinned_table import PinnedTable
from sparkhaven.store.errors import (
    InvalidNameError,
    SchemaMismatchError,
    SettingsError,
    SnapshotMovedError,
    TableNotFoundError,
)
from sparkhaven.store.expressions.duckdb_engine import quoted
from sparkhaven.store.format.parquet.trees import TreeLayout, check_value
from sparkhaven.store.framing import dump
from sparkhaven.store.layout import LocationKey
from sparkhaven.store.merges.merge_records import MergeRecord
from sparkhaven.store.scan.column_file import with_checksum
from sparkhaven.store.scan.selection import refuse_case_twins
from sparkhaven.store.scan.slices import Slice
from sparkhaven.store.types.model import Column, Kind, Storage
from sparkhaven.store.types.null_char import as_written, has_other_null, other_null
from sparkhaven.writers.merge.sources.merge_source import SIZES
from sparkhaven.writers.merge.write.parquet_check import DEFAULT_CODEC

LeafFormat = Literal["parquet", "deephaven"]
LEAVES: tuple[LeafFormat, ...] = get_args(LeafFormat)
MOST_PARTS = 1_000  # of a date: each is a file, and a read of the rows that have its values
TYPES = ("String", "byte", "short", "int", "long", "Boolean", "LocalDate")
LAYOUTS: tuple[TreeLayout, ...] = ("kv", "metadata", "hive")


@dataclass(frozen=True, slots=True)
class ExportOptions:
    """Which rows and columns (None: all), and in which form; ``codec`` None is that of the schema.

    ``by``: columns that directories give below those of the date.
    A row group of Parquet has at least ``group_rows`` rows, or ``GROUP_BYTES`` bytes, but for the last one.
    """

    layout: TreeLayout = "kv"
    leaf: LeafFormat = "parquet"
    codec: str | None = None
    columns: tuple[str, ...] | None = None
    dates: tuple[str, ...] | None = None
    tier: str = "all"
    group_rows: int = SIZES.group_rows
    by: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ExportPlan:
    """``dates`` has the slices of each partition value, in order; ``columns`` are those in the files.

    ``by``: those that directories give. ``records``: the merge records that the rows of history are of. ``unvouched``:
    locations of history that no record names.
    """

    options: ExportOptions
    codec: str
    partitioning: Column
    columns: tuple[Column, ...]
    dates: tuple[tuple[str, tuple[Slice, ...]], ...]
    id: str
    by: tuple[Column, ...] = ()
    records: tuple[MergeRecord, ...] = ()
    unvouched: frozenset[LocationKey] = frozenset()

    @property
    def rows(self) -> int:
        return sum(rows_of(slices) for _, slices in self.dates)


def rows_of(slices: Sequence[Slice]) -> int:
    return sum(slice_.count for slice_ in slices)


def plan_export(table: PinnedTable, options: ExportOptions, *, allow_empty: bool = False) -> ExportPlan:
    """Plans an export of a snapshot.

    TableNotFoundError: there are no rows, unless ``allow_empty``, or no such date. SchemaMismatchError: no such column,
    or the table has no partitioning column. InvalidNameError: a date that other readers would read as another one.
    """
    partitioning = table.schema.partitioning
    if partitioning is None:
        raise SchemaMismatchError(
            "table is not partitioned",
            where=table.name,
            expected="a Partitioning column",
            hint=f"write it to one file with `sparkhaven read {table.name} --out FILE.parquet`",
        )
    if options.leaf == "deephaven" and options.layout != "hive":
        raise SettingsError(
            f"layout {options.layout} has Parquet files",
            expected="--leaf deephaven with --layout hive",
            found=f"--layout {options.layout}",
            hint="leave --leaf out, or choose --layout hive",
        )
    by = tuple(as_written(column) for column in directory_columns(table, options.by, options.layout))
    columns = _columns(table, options, partitioning)
    read = table.plan(dates=options.dates, tier=options.tier)
    if not read.slices and not allow_empty:
        raise TableNotFoundError(
            "there are no rows to export",
            where=table.name,
            expected=f"rows of tier {options.tier}" + (f" in {', '.join(options.dates)}" if options.dates else ""),
            found="none",
            hint=f"`sparkhaven stats {table.name}` lists dates and rows",
        )
    dates = tuple((value, tuple(run)) for value, run in groupby(read.slices, lambda run: run.key.value))
    for value, _ in dates:
        check_value(options.layout, value)
    codec = options.codec or table.schema.merge_codec or DEFAULT_CODEC
    unvouched = frozenset(location.key for seen in read.differing for location in seen.unvouched)
    plan = ExportPlan(options, codec, partitioning, columns, dates, "", by, read.records, unvouched)
    return replace(plan, id=_id(table, plan))


def _columns(table: PinnedTable, options: ExportOptions, partitioning: Column) -> tuple[Column, ...]:
    """Those of the files, in the order of the definition; in a flat tree the partitioning column is one of them."""
    requested = table.columns(options.columns)
    choose = "leave one out with --columns"
    refuse_case_twins(table.name, (partitioning, *requested), "readers of Parquet trees", choose)
    flat = options.layout == "flat"
    if flat and partitioning not in requested:
        requested = (partitioning, *requested)
    inside = [column for column in requested if column.name not in options.by]
    shown = [column for column in inside if flat or column.kind is not Kind.PARTITIONING]
    if not any(column.kind is not Kind.PARTITIONING for column in shown):
        raise SchemaMismatchError(
            "no column of the files is chosen",
            where=table.name,
            expected=f"a column other than {', '.join((partitioning.name, *options.by))}, which the path has",
            found=", ".join(options.columns or ()),
            hint="name more columns, or export with --layout flat",
        )
    return tuple(
        replace(c, kind=Kind.NORMAL, storage=Storage.SYMBOL) if c.kind is Kind.PARTITIONING else as_written(c)
        for c in shown
    )


def _state(table: PinnedTable, slice_: Slice, name: str) -> list[int]:
    """Size and checksum of a file; that of one that no record vouches for is taken of its bytes."""
    state = with_checksum(table.place.fs, slice_.directory / name, slice_.files[name])
    return [state.size, state.crc]


def _id(table: PinnedTable, plan: ExportPlan) -> str:
    """Twelve hex digits that differ where a file of the tree would."""
    options = plan.options
    rows = [
        [
            s.tier,
            s.stream,
            s.key.internal,
            s.key.value,
            s.start,
            s.stop,
            s.selected.edges if s.selected is not None else None,
            {n: _state(table, s, n) for n in s.files},
        ]
        for _, slices in plan.dates
        for s in slices
    ]
    columns = [[c.name, c.type.name, c.id, c.storage.value] for c in plan.columns]
    form: list[object] = [options.layout, options.leaf, plan.codec, table.name, table.schema.version]
    form += [["by", *(column.name for column in plan.by)]] if plan.by else []
    form += sorted({str(other_null(c.type)) for c in table.schema.readable.columns if has_other_null(c)})
    return sha256(dump({"form": form, "columns": columns, "rows": rows})).hexdigest()[:12]


# --- columns that directories give


@dataclass(frozen=True, slots=True)
class DatePart:
    """The rows of a date with the same values in these columns."""

    values: tuple[tuple[Column, Any], ...]
    slices: tuple[Slice, ...]
    where: str

    @property
    def directories(self) -> PurePosixPath:
        """The levels below that of the date."""
        return PurePosixPath(*(f"{column.name}={text_of(value)}" for column, value in self.values))

    def arrays(self, rows: int) -> list[pa.Array]:
        """The columns, as so many rows have them."""
        return [pa.repeat(pa.scalar(value, column.type.arrow), rows) for column, value in self.values]


def directory_columns(table: PinnedTable, names: Sequence[str], layout: TreeLayout) -> tuple[Column, ...]:
    """Columns that directories can give. SettingsError: the layout has no such directories, or a name comes twice.

    SchemaMismatchError: there is no such column, or it has another type.
    """
    if not names:
        return ()
    if layout not in LAYOUTS or len({*names}) < len(names):
        raise SettingsError(
            "columns cannot be directories",
            expected=f"different columns, and --layout {', '.join(LAYOUTS)}",
            found=f"--by {','.join(names)} --layout {layout}",
            hint="leave --by out, or choose another layout",
        )
    columns = table.columns(names)
    for column in columns:
        if column.type.name not in TYPES or column == table.schema.partitioning:
            raise SchemaMismatchError(
                "a column cannot be directories",
                where=f"{table.name}, column {column.name}",
                expected=f"a column of type {', '.join(TYPES)}, other than the partitioning column",
                found=column.type.name,
                hint="leave it in the files",
            )
    return columns


def parts_of(
    table: PinnedTable, columns: Sequence[Column], date: str, slices: Sequence[Slice], layout: TreeLayout, tier: str
) -> list[DatePart]:
    """The parts of a date in the order of their values. InvalidNameError: a value cannot be a directory.

    SettingsError: there are too many. SnapshotMovedError: the rows are not those of ``slices`` any more.
    """
    parts = []
    for row in _distinct(table, columns, slices):
        values = tuple(zip(columns, row, strict=True))
        for column, value in values:
            if value is None or value == "":
                raise InvalidNameError(
                    "null and the empty text cannot be directories",
                    where=f"{table.name} {date}, column {column.name}",
                    expected="a value in every row",
                    found=repr(value),
                    hint=f"leave {column.name} in the files",
                )
            check_value(layout, text_of(value))
        where = " AND ".join(f'"{column.name}" = {_literal(value)}' for column, value in values)
        parts.append(DatePart(values, tuple(table.plan(dates=[date], where=where, tier=tier).slices), where))
    return parts


def require_all(date: str, rows: int, parts: int) -> None:
    """SnapshotMovedError: the parts of a date do not have its rows together."""
    if rows != parts:
        raise SnapshotMovedError(
            "rows of a date have changed while it was exported",
            where=date,
            expected=f"{rows} rows",
            found=f"{parts} rows",
            hint="export again",
        )


def text_of(value: Any) -> str:
    """A value as directories write it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _literal(value: Any) -> str:
    """A value as a condition writes it."""
    return text_of(value) if isinstance(value, bool | int) else quoted(str(value))


def _distinct(table: PinnedTable, columns: Sequence[Column], slices: Sequence[Slice]) -> Iterator[tuple[Any, ...]]:
    names, rows = [column.name for column in columns], set[tuple[Any, ...]]()
    for batch in table.read(slices, names):
        plain = [array.dictionary_decode() if pa.types.is_dictionary(array.type) else array for array in batch.columns]
        groups = pa.table(plain, names).group_by(names, use_threads=False).aggregate([])
        rows.update(zip(*(groups[name].to_pylist() for name in names), strict=True))
        if len(rows) > MOST_PARTS:
            raise SettingsError(
                "a date has too many directories",
                where=table.name,
                expected=f"at most {MOST_PARTS} different values of {', '.join(names)}",
                found=f"{len(rows)} and more",
                hint="choose columns with fewer values for --by",
            )
    yield from sorted(rows, key=lambda row: [(value is not None, value) for value in row])
