"""Columns that directories of a tree give beside the date, ``<Column>=<value>`` below it: which may be, and their rows.

Values are written as they are. One that readers would take for another one, null, and an empty text are refused, and
so is a type whose values programs write in several ways.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

import pyarrow as pa

from sparkhaven.readers.arrow.pinned_table import PinnedTable
from sparkhaven.store.errors import InvalidNameError, SchemaMismatchError, SettingsError, SnapshotMovedError
from sparkhaven.store.format.parquet.trees import TreeLayout, check_value
from sparkhaven.store.scan.slices import Slice
from sparkhaven.store.types.model import Column

MOST_PARTS = 1_000  # of a date: each is a file, and a read of the rows that have its values
TYPES = ("String", "byte", "short", "int", "long", "Boolean", "LocalDate")
LAYOUTS: tuple[TreeLayout, ...] = ("kv", "metadata", "hive")


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
    return text_of(value) if isinstance(value, bool | int) else "'" + str(value).replace("'", "''") + "'"


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
