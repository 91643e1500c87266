"""Rows of one leaf as the table stores them, batch by batch.

Columns are those of the table, by name: one that is missing and one that the table does not have are refused. A data
file of a Delta table may write the names of that table in other case. A column that directories give is not in the
file. The partitioning column may be in the file beside its directory; then both must agree.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from sparkhaven.store.conversions.hybrid_calendar import HybridCalendar, hybrid_calendar, in_todays_calendar
from sparkhaven.store.conversions.int96 import old_timestamps
from sparkhaven.store.conversions.logical_types import as_logical, logical_schema
from sparkhaven.store.delta.column_names import own_names
from sparkhaven.store.digest.column_digest import add, digest_array, from_hex
from sparkhaven.store.errors import CorruptFileError, FeedError, SchemaMismatchError, SnapshotMovedError
from sparkhaven.store.format.parquet.manifest import Manifest
from sparkhaven.store.io.fs import Fs, Stat
from sparkhaven.store.layout import check_partition
from sparkhaven.store.suggestions import meant
from sparkhaven.store.types.model import Column, TableSchema
from sparkhaven.writers.imports.directory_values import directory_values
from sparkhaven.writers.imports.foreign_file import damaged, foreign_damage, open_foreign
from sparkhaven.writers.imports.foreign_values import (
    STRICT,
    AllowedConversions,
    Place,
    mapped,
    refused_type,
    takes,
)
from sparkhaven.writers.imports.tree_walk import FoundLeaf

if TYPE_CHECKING:
    from pyarrow.parquet import ParquetFile

BATCH_ROWS = 1 << 16
UTC_MICROS = pa.timestamp("us", "UTC")


@dataclass(frozen=True, slots=True)
class LeafRows:
    """Rows of one partition value: ``columns`` in the order of the table's stored columns, in their Arrow types."""

    value: str
    columns: tuple[pa.Array, ...]
    count: int


class LeafReader:
    """One Parquet file. Raises CorruptFileError and SchemaMismatchError at opening and while reading.

    SnapshotMovedError: the file has changed since it was opened. ``value``: that of rows which have none.
    """

    def __init__(
        self,
        fs: Fs,
        leaf: FoundLeaf,
        schema: TableSchema,
        value: str | None = None,
        options: AllowedConversions = STRICT,
    ) -> None:
        self._fs, self.leaf, self._schema, self._options = fs, leaf, schema, options
        self.value, self._default = leaf.value, value
        self._before = fs.stat(leaf.path)
        self._file: ParquetFile = open_foreign(
            fs, leaf.path, coerce_int96_timestamp_unit="us", arrow_extensions_enabled=False
        )
        self._given = directory_values(leaf.columns, schema, leaf.path.parent, options)
        self._old = old_timestamps(self._file)
        self._declared = logical_schema(self._file, self._old)
        self._own = own_names(self._declared.names, leaf.declared)
        self._written = {own: name for name, own in self._own.items()}
        self._calendar = hybrid_calendar(self._file.metadata.metadata)
        self._columns = self._checked()
        self.rows = self._file.metadata.num_rows
        if leaf.rows is not None and leaf.rows != self.rows:
            raise damaged(leaf.path, f"{leaf.rows} rows, as the tree says", f"{self.rows} rows")

    @property
    def size(self) -> int:
        return self._before.size if self._before else 0

    def _checked(self) -> tuple[Column, ...]:
        """The columns of the file, each of the table; types are looked at before any row is."""
        path, names = self.leaf.path, [self._own[name] for name in self._declared.names]
        partitioning = self._schema.partitioning
        assert partitioning is not None  # noqa: S101
        columns = {column.name: column for column in self._schema.columns}
        twice = [name for name, times in Counter(names).items() if times > 1]
        odd = [name for name in names if name not in columns and name not in self._options.ignored]
        odd += [name for name in names if name in self._given]
        elsewhere = {*names, *self._given, *self.leaf.declared}
        missing = [column.name for column in self._schema.stored if column.name not in elsewhere]
        if self.value is None and partitioning.name not in names:
            self.value = self._default
            if self.value is None:
                missing.append(partitioning.name)
        if twice:  # as feeds refuse it: no table and no option takes such a file
            raise FeedError(
                "file has a column twice",
                where=path,
                expected=f"one column {twice[0]}",
                found=twice[0],
                hint="have the file written with one column of each name",
                column=twice[0],
            )
        if odd or missing:
            violation = "lacks a column" if missing else "has a column that the table lacks"
            name, lacks = (missing or odd)[0], bool(missing)
            hint = meant(name, names if lacks else columns) or "make the columns of file and table equal"
            if not missing and name in self._given:
                violation = "has a column that its directories give too"
                hint = "have the files written without it, or move them out of those directories"
            if missing == [partitioning.name]:
                hint = "name the date of all rows with --dates"
            raise SchemaMismatchError(
                f"file {violation}",
                where=path,
                expected=name if lacks else ", ".join(columns),
                found=", ".join(names) if lacks else name,
                hint=hint,
            )
        for field in self._declared:
            column = columns.get(self._own[field.name])
            if column is not None and not takes(field.type, column, self._options):
                raise refused_type(column, field.type, f"{path}, row group 0")
        return tuple(columns[name] for name in names if name in columns)

    def counts(self) -> dict[str, int]:
        """Rows of each partition value; only the partitioning column is read, where there is no other way."""
        if self.value is not None:
            return {self.value: self.rows} if self.rows else {}
        totals: Counter[str] = Counter()
        for index in range(self._file.num_row_groups):
            for values, _ in self._batches(index, (self._partitioning(),)):
                counted = pc.value_counts(values[self._partitioning().name])
                pairs = zip(counted.field("values").to_pylist(), counted.field("counts").to_pylist(), strict=True)
                totals.update({self._value_of(value, index): count for value, count in pairs})
        return dict(totals)

    def _partitioning(self) -> Column:
        return next(c for c in self._columns if c.name not in {stored.name for stored in self._schema.stored})

    def read(self, date: str) -> Iterator[LeafRows]:
        stored = self._schema.stored
        for index in range(self._file.num_row_groups):
            for values, count in self._batches(index, self._columns):
                values |= {name: pa.repeat(value[0], count) for name, value in self._given.items()}
                absent = [column for column in stored if column.name not in values]
                values |= {column.name: pa.nulls(count, column.type.arrow) for column in absent}
                arrays, rows = tuple(values[column.name] for column in stored), count
                dates = next((values[c.name] for c in self._columns if c not in stored), None)
                if dates is not None and self.value is None:
                    mask = pc.equal(dates, date)
                    arrays = tuple(array.filter(mask) for array in arrays)
                    rows = pc.sum(mask).as_py() or 0
                elif dates is not None:
                    self._agree(dates, index)
                if rows:
                    yield LeafRows(date, arrays, rows)
        self._require_same()

    def _batches(self, index: int, columns: tuple[Column, ...]) -> Iterator[tuple[dict[str, pa.Array], int]]:
        """Columns of a row group in the types of the table, by name, and the number of rows."""
        path, names = self.leaf.path, [self._written[column.name] for column in columns]
        expected = self._file.metadata.row_group(index).num_rows
        first = 0
        batches = self._file.iter_batches(BATCH_ROWS, row_groups=[index], columns=names, use_threads=False)
        while True:
            with foreign_damage(path, f"row group {index}"):
                batch = next(batches, None)
                if batch is not None:
                    batch.validate(full=True)  # texts that are no UTF-8
                    values = [as_logical(batch.column(name), self._declared.field(name).type) for name in names]
                    for name, array in zip(names, values, strict=True):
                        if pa.types.is_string(array.type) and pa.types.is_binary(batch.column(name).type):
                            array.validate(full=True)  # an ENUM
            if batch is None:
                break
            arrays = {}
            for column, array in zip(columns, values, strict=True):
                if self._written[column.name] in self._old.columns:
                    array = array.cast(pa.int64()).cast(UTC_MICROS)
                name_row = self._place(column, index, first)
                if self._calendar is not None:
                    array = self._in_todays_calendar(array, column, self._calendar, name_row)
                arrays[column.name] = mapped(array, column, name_row, self._options)
            first += batch.num_rows
            yield arrays, batch.num_rows
        if first != expected:
            raise damaged(path, f"{expected} rows", f"{first} rows", f"row group {index}")

    def _in_todays_calendar(
        self, array: pa.Array, column: Column, calendar: HybridCalendar, name_row: Place
    ) -> pa.Array:
        moved, doubt = in_todays_calendar(array, calendar, int96=self._written[column.name] in self._old.columns)
        if doubt is not None and doubt.any():
            raise SchemaMismatchError(
                "an instant before 1900 was written in the calendar of Spark before 3.0, and not surely in UTC",
                where=name_row(int(doubt.argmax())),
                expected="an instant of a writer in UTC, or of today's calendar",
                found=f"time zone {calendar.zone}" if calendar.zone else "no time zone in the footer",
                hint="have Spark 3 or later write the tree again",
            )
        return moved

    def _place(self, column: Column, index: int, first: int) -> Place:
        return lambda row: f"{self.leaf.path}, column {column.name}, row group {index}, row {first + row} of it"

    def _value_of(self, value: str | None, index: int) -> str:
        if value is None:
            raise SchemaMismatchError(
                "row has no partition value",
                where=f"{self.leaf.path}, column {self._partitioning().name}, row group {index}",
                expected="a text",
                found="null",
                hint="have these rows written with a date",
            )
        return check_partition("partition value", value)

    def _agree(self, dates: pa.Array, index: int) -> None:
        if not pc.all(pc.fill_null(pc.equal(dates, self.value), False)).as_py():
            raise SchemaMismatchError(
                "rows have another partition value than their directory, or --dates, says",
                where=f"{self.leaf.path}, column {self._partitioning().name}, row group {index}",
                expected=self.value,
                found=", ".join(str(value) for value in pc.unique(dates).to_pylist()[:3]),
                hint="have the tree written again, or import the rows from a flat tree",
            )

    def _require_same(self) -> None:
        now = self._fs.stat(self.leaf.path)
        if _identity(now) != _identity(self._before):
            raise SnapshotMovedError(
                "file was changed while it was read",
                where=self.leaf.path,
                expected=_identity(self._before),
                found=_identity(now),
                hint="import again when nobody writes the tree",
                phase="stage",
            )


def _identity(stat: Stat | None) -> tuple[int, ...] | None:
    return None if stat is None else (stat.size, stat.mtime_ns, stat.inode)


class ExportedDigests:
    """Compares the rows of a leaf of an export with its manifest."""

    def __init__(self, leaf: FoundLeaf, manifest: Manifest, stored: tuple[Column, ...]) -> None:
        assert leaf.exported is not None  # noqa: S101
        ids = {column.name: column.id for column in manifest.columns}
        self._leaf, self._expected = leaf, leaf.exported
        self._columns = [replace(column, id=ids.get(column.name, column.id)) for column in stored]
        self._digests: dict[str, int] = {}

    def add(self, rows: LeafRows) -> None:
        for column, array in zip(self._columns, rows.columns, strict=True):
            self._digests[column.name] = add(self._digests.get(column.name, 0), digest_array(column, array))

    def require(self) -> None:
        """CorruptFileError: the rows are not those that were exported."""
        expected: Mapping[str, str] = self._expected.digests
        for column in self._columns:
            if column.name in expected and from_hex(expected[column.name]) != self._digests.get(column.name, 0):
                raise CorruptFileError(
                    f"column {column.name} of an exported file has other values than its manifest says",
                    where=self._leaf.path,
                    expected=expected[column.name],
                    found=f"{self._digests.get(column.name, 0):032x}",
                    hint="copy the tree again. If it is whole, declare the column as the exported table does",
                )
