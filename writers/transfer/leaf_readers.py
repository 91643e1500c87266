"""Rows of one leaf of a foreign tree as the table stores them, batch by batch.

A Parquet file is opened without trust in it, errors as ours; it is read, not mapped, since another process may shorten
it meanwhile. Columns are those of the table, by name: one that is missing and one that the table does not have are
refused. A data file of a Delta table has the names of that table. The partitioning column may be in the file beside
its directory; then both must agree. A leaf of column files is read by its own definition, and stored by the table's.

A column that directories give, ``<Column>=<value>``, is not in the file. Spark writes such levels with ``partitionBy``:
the values as texts, with ``%XX`` for what a path cannot have, and ``__HIVE_DEFAULT_PARTITION__`` for null.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sparkhaven.store.conversions.conversion_table import INTEGER_BITS
from sparkhaven.store.delta.snapshot import MappedField
from sparkhaven.store.digest import add, digest_array, from_hex
from sparkhaven.store.errors import CorruptFileError, FeedError, SchemaMismatchError, SnapshotMovedError, meant
from sparkhaven.store.foreign_parquet import ForeignParquet, ParquetBatch
from sparkhaven.store.format.parquet.trees import HIVE_NULL, TreeLeaf, TreeManifest
from sparkhaven.store.format.table import table_size
from sparkhaven.store.instants import parse_instant
from sparkhaven.store.io.fs import Fs, Stat
from sparkhaven.store.io.open_files import Opened, Seekable
from sparkhaven.store.layout import check_partition
from sparkhaven.store.scan.column_file import ColumnFile, open_column, written_column
from sparkhaven.store.scan.location_files import location_schema
from sparkhaven.store.types.committed_columns import FileState
from sparkhaven.store.types.model import Column, TableSchema
from sparkhaven.store.types.null_char import column_with_null
from sparkhaven.writers.foreign_values import (
    STRICT,
    AllowedConversions,
    Place,
    mapped,
    refused_type,
    storable,
    takes,
)
from sparkhaven.writers.merge.sources.merge_source import check_crc


@dataclass(frozen=True, slots=True)
class FoundLeaf:
    """One file, or directory of column files. ``value`` None: dates are in the rows. ``rows``: as the tree says.

    ``columns``: names and texts of columns that directories give. ``absent``: columns that are null in every row where
    the file lacks them. ``logical``: what columns of the file are in its table. ``kept``: which of so many rows there
    still are. ``said``: what its table says of it otherwise than by a path.
    """

    path: Path
    name: str
    value: str | None
    rows: int | None = None
    exported: TreeLeaf | None = None
    columns: tuple[tuple[str, str], ...] = ()
    absent: frozenset[str] = frozenset()
    logical: Callable[[pa.Schema], Sequence[MappedField | None]] | None = None
    kept: Callable[[int], npt.NDArray[np.bool_]] | None = None
    said: str = ""


class ForeignBytes(Seekable):
    """An open file as Arrow takes it."""

    def __init__(self, opened: Opened) -> None:
        super().__init__(opened.size)
        self._opened = opened

    def read_at(self, offset: int, size: int) -> bytes:
        return self._opened.read(offset, size)


def foreign_bytes(fs: Fs, path: Path) -> Callable[[], ForeignBytes]:
    """Streams over the same open file. CorruptFileError: it is missing."""
    try:
        return partial(ForeignBytes, fs.open(path))
    except FileNotFoundError as error:
        raise damaged(path, "the file", "nothing") from error


def open_foreign(fs: Fs, path: Path) -> ForeignParquet:
    """An open file; CorruptFileError: it is missing, or no Parquet file."""
    stream = foreign_bytes(fs, path)
    with foreign_damage(path):
        return ForeignParquet(stream, stream().size, verify_pages=True)


@contextmanager
def foreign_damage(path: Path, part: str = "") -> Iterator[None]:
    """Errors of Arrow's Parquet reader as a CorruptFileError with the path."""
    try:
        yield
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise damaged(path, "a Parquet file", error, part) from error


def damaged(path: Path, expected: object, found: object, part: str = "") -> CorruptFileError:
    return CorruptFileError(
        "file of the tree is damaged",
        where=f"{path}, {part}" if part else path,
        expected=expected,
        found=found,
        hint="copy it again, or have it written again. Nothing of its date was imported",
    )


_WHOLE = re.compile(r"-?[0-9]{1,20}\Z", re.ASCII)
_NUMBER = re.compile(r"-?(?:[0-9]+(?:[.][0-9]*)?(?:[eE][+-]?[0-9]+)?|Infinity|inf)\Z|NaN\Z|nan\Z", re.ASCII)
_TRUTHS = {"true": True, "false": False}


def directory_value(text: str, column: Column, where: object, options: AllowedConversions = STRICT) -> pa.Array:
    """One row with the value of a column that a directory names. SchemaMismatchError: it is none of the column."""
    if text == HIVE_NULL:
        return pa.nulls(1, column.type.arrow)
    try:
        array = _of_text(text, column)
    except (ValueError, OverflowError):
        array = None
    if array is None or not takes(array.type, column, options):
        raise SchemaMismatchError(
            f"the directory names no value of column {column.name}",
            where=where,
            expected=f"a value of type {column.type.name}, or {HIVE_NULL} for null",
            found=repr(text),
            hint="have the tree written again, with the column in the files",
        )
    return mapped(array, column, lambda row: f"{where}, column {column.name}", options)


def directory_values(
    texts: Iterable[tuple[str, str]], schema: TableSchema, where: object, options: AllowedConversions
) -> dict[str, pa.Array]:
    """One row with the values of all columns that directories name, by column."""
    stored = {column.name: column for column in schema.stored}
    return {name: directory_value(text, stored[name], where, options) for name, text in texts}


def _of_text(text: str, column: Column) -> pa.Array | None:
    """In the type of Arrow that has such values; None: a directory cannot name one of this column."""
    name, kind = column.type.name, column.type.arrow
    if column.type.coding is not None:
        if pa.types.is_binary(kind):
            return pa.array([text.encode()])  # as Spark casts a text to bytes
        return None if pa.types.is_nested(kind) else pa.array([text])
    if name in INTEGER_BITS:
        return pa.array([int(text)], pa.int64()) if _WHOLE.match(text) else None
    if name in ("float", "double"):
        return pa.array([float(text)]).cast(kind) if _NUMBER.match(text) else None
    if name == "Boolean":
        return pa.array([_TRUTHS[text.lower()]]) if text.lower() in _TRUTHS else None
    if name == "Instant":
        return pa.array([parse_instant(text)], pa.timestamp("ns", "UTC"))
    return pa.array([text])


BATCH_ROWS = 1 << 16


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
        self._file = open_foreign(fs, leaf.path)
        if leaf.logical is not None:
            self._file.rename(leaf.logical)
        self._given = directory_values(leaf.columns, schema, leaf.path.parent, options)
        self._columns = self._checked()
        self.rows = self._file.rows
        if leaf.rows is not None and leaf.rows != self.rows:
            raise damaged(leaf.path, f"{leaf.rows} rows, as the tree says", f"{self.rows} rows")
        self._kept = None if leaf.kept is None else leaf.kept(self.rows)
        if self._kept is not None:
            self.rows = int(self._kept.sum())

    @property
    def size(self) -> int:
        return self._before.size if self._before else 0

    def _checked(self) -> tuple[Column, ...]:
        """The columns of the file, each of the table; types are looked at before any row is."""
        schema, path = self._file.declared, self.leaf.path
        partitioning = self._schema.partitioning
        assert partitioning is not None  # noqa: S101
        columns = {column.name: column for column in self._schema.columns}
        odd = [name for name in schema.names if name not in columns and name not in self._options.ignored]
        odd += [name for name in schema.names if name in self._given]
        elsewhere = {*schema.names, *self._given, *self.leaf.absent}
        missing = [column.name for column in self._schema.stored if column.name not in elsewhere]
        if self.value is None and partitioning.name not in schema.names:
            self.value = self._default
            if self.value is None:
                missing.append(partitioning.name)
        if twice := self._file.twice:  # as feeds refuse it: no table and no option takes such a file
            raise FeedError(
                "file has a column twice",
                where=path,
                expected=f"one column {twice[0]}",
                found=twice[0],
                hint="have the file written with one column of each name",
                column=twice[0],
            )
        if odd or missing:
            error = _other_columns("file", self.leaf, missing, odd, schema.names, columns)
            if missing == [partitioning.name]:
                error.hint = "name the date of all rows with --dates"
            raise error
        for field in schema:
            if field.name in columns and not takes(field.type, columns[field.name], self._options):
                raise refused_type(columns[field.name], field.type, f"{path}, row group 0")
        return tuple(columns[name] for name in schema.names if name in columns)

    def counts(self) -> dict[str, int]:
        """Rows of each partition value; only the partitioning column is read, where there is no other way."""
        if self.value is not None:
            return {self.value: self.rows} if self.rows else {}
        totals: Counter[str] = Counter()
        for index, values, _ in self._batches((self._partitioning(),)):
            counted = pc.value_counts(values[self._partitioning().name])
            pairs = zip(counted.field("values").to_pylist(), counted.field("counts").to_pylist(), strict=True)
            totals.update({self._value_of(value, index): count for value, count in pairs})
        return dict(totals)

    def _partitioning(self) -> Column:
        return next(c for c in self._columns if c.name not in {stored.name for stored in self._schema.stored})

    def read(self, date: str) -> Iterator[LeafRows]:
        stored = self._schema.stored
        for index, values, count in self._batches(self._columns):
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

    def _batches(self, columns: Sequence[Column]) -> Iterator[tuple[int, dict[str, pa.Array], int]]:
        """Of each batch its row group, columns in the types of the table, by name, and the number of rows."""
        path, names, before = self.leaf.path, [column.name for column in columns], 0
        for index, group in enumerate(self._file.groups()):
            first, batches = 0, group.batches(names)
            while True:
                with foreign_damage(path, f"row group {index}"):
                    batch = next(batches, None)
                    if batch is not None:
                        batch.rows.validate(full=True)  # texts that are no UTF-8
                if batch is None:
                    break
                there = np.arange(first, first + batch.rows.num_rows)
                first += len(there)
                if self._kept is not None:
                    kept = self._kept[before + there]
                    batch, there = batch.where(kept), there[kept]
                yield index, {c.name: self._values(batch, c, self._place(c, index, there)) for c in columns}, len(there)
            if first != group.rows:
                raise damaged(path, f"{group.rows} rows", f"{first} rows", f"row group {index}")
            before += first

    def _values(self, batch: ParquetBatch, column: Column, name_row: Place) -> pa.Array:
        unsure, far = batch.unsure.get(column.name), batch.far.get(column.name)
        if unsure is not None and (row := pc.index(unsure.rows, True).as_py()) >= 0:
            raise SchemaMismatchError(
                "an instant before 1900 was written in the calendar of Spark before 3.0, and not surely in UTC",
                where=name_row(row),
                expected="an instant of a writer in UTC, or of today's calendar",
                found=f"time zone {unsure.zone}" if unsure.zone else "no time zone in the footer",
                hint="have Spark 3 or later write the tree again",
            )
        if far is not None:
            mapped(far, column, name_row, self._options)  # raises: an Instant does not reach them
        return mapped(batch.rows.column(column.name), column, name_row, self._options)

    def _place(self, column: Column, index: int, rows: npt.NDArray[np.int64]) -> Place:
        return lambda row: f"{self.leaf.path}, column {column.name}, row group {index}, row {rows[row]} of it"

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


def _other_columns(
    what: str,
    leaf: FoundLeaf,
    missing: Sequence[str],
    odd: Sequence[str],
    names: Sequence[str],
    columns: Collection[str],
) -> SchemaMismatchError:
    """The error for a leaf that lacks columns of the table, or has others; ``names`` are all that it has."""
    name, lacks = (missing or odd)[0], bool(missing)
    violation = "lacks a column" if lacks else "has a column that the table lacks"
    hint = meant(name, names if lacks else columns) or f"make the columns of {what} and table equal"
    if not lacks and name in dict(leaf.columns):
        violation = "has a column that its directories give too"
        hint = "have the files written without it, or move them out of those directories"
    return SchemaMismatchError(
        f"{what} {violation}",
        where=leaf.path,
        expected=name if lacks else ", ".join(columns),
        found=", ".join(names) if lacks else name,
        hint=hint,
    )


def _identity(stat: Stat | None) -> tuple[int, ...] | None:
    return None if stat is None else (stat.size, stat.mtime_ns, stat.inode)


class ExportedDigests:
    """Compares the rows of a leaf of an export with its manifest."""

    def __init__(self, leaf: FoundLeaf, manifest: TreeManifest, stored: tuple[Column, ...]) -> None:
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


class ColumnLeafReader:
    """One directory. CorruptFileError: it is damaged. SchemaMismatchError: other columns, or other types."""

    def __init__(self, fs: Fs, leaf: FoundLeaf, schema: TableSchema, options: AllowedConversions = STRICT) -> None:
        self._fs, self._leaf, self._schema = fs, leaf, schema
        self._null_char = options.null_char
        self._given = directory_values(leaf.columns, schema, leaf.path.parent, options)
        record = table_size.load(fs, leaf.path)
        if record is None or (leaf.rows is not None and record.size != leaf.rows):
            raise CorruptFileError(
                "leaf has another number of rows than the tree says",
                where=leaf.path / table_size.NAME,
                expected=leaf.rows,
                found="nothing" if record is None else record.size,
                hint="copy the tree again",
            )
        self._record, self.rows = record, record.size
        self._own = location_schema(fs, leaf.path)
        self.size = sum(record.data_file_sizes.values())
        names = [name.removesuffix(".dat") for name in record.data_file_sizes if name.endswith(".dat")]
        columns = [column.name for column in schema.stored if column.name not in self._given]
        missing = sorted({*columns} - {*names} - options.ignored)
        odd = sorted({*names} - {*columns} - options.ignored)
        if missing or odd:
            raise _other_columns("leaf", leaf, missing, odd, sorted(names), columns)

    def counts(self) -> dict[str, int]:
        return {self._leaf.value: self.rows} if self.rows and self._leaf.value is not None else {}

    def read(self, date: str) -> Iterator[LeafRows]:
        opened = {c.name: self._opened(c) for c in self._schema.stored if c.name not in self._given}
        for first in range(0, self.rows, BATCH_ROWS):
            stop = min(first + BATCH_ROWS, self.rows)
            arrays = tuple(
                self._values(column, opened[column.name], first, stop)
                if column.name in opened
                else pa.repeat(self._given[column.name][0], stop - first)
                for column in self._schema.stored
            )
            yield LeafRows(date, arrays, stop - first)

    def _values(self, column: Column, file: ColumnFile, first: int, stop: int) -> pa.Array:
        """Rows as the table has them: the codec of the leaf may be another one."""
        array = file.read(first, stop)
        if column.type.coding is not None and file.column.type.coding == column.type.coding:
            return array

        def place(row: int) -> str:
            return f"{self._leaf.path}, column {column.name}, row {first + row}"

        return storable(array, column, place) if column.type.coding is None else mapped(array, column, place)

    def _opened(self, column: Column) -> ColumnFile:
        """A column as its own prefix and definition describe it, its files compared with their checksums."""
        directory, sizes, sums = self._leaf.path, self._record.data_file_sizes, self._record.checksums
        own = written_column(self._fs, directory, column, sizes)
        declared = self._own.column(column.name) if self._own and column.type.coding is not None else None
        if declared is not None and declared.type.java == column.type.java:
            own = replace(own, type=declared.type, storage=declared.storage)
        for name in own.files:
            if name in sums and name in sizes:
                check_crc(self._fs, directory / name, FileState(sizes[name], sums[name]), stream="")
        return open_column(self._fs, directory, column_with_null(own, self._null_char), sizes, self.rows)


def open_leaf(
    fs: Fs, leaf: FoundLeaf, schema: TableSchema, value: str | None = None, options: AllowedConversions = STRICT
) -> LeafReader | ColumnLeafReader:
    """The reader of a leaf; ``value``: that of rows which have none."""
    if fs.is_dir(leaf.path):
        return ColumnLeafReader(fs, leaf, schema, options)
    return LeafReader(fs, leaf, schema, value, options)
