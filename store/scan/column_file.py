"""The columns of one location as Arrow arrays, from column files or from ``table.parquet``.

Readers map the committed bytes; nothing beyond them is looked at. Row count and lengths come from ``table.size`` or
a pinned epoch, byte order and width from the prefix, the type from the definition, and all of them must agree:
damage is a CorruptFileError, another writer an UnsupportedVersionError, another declaration a
SchemaMismatchError, each with path and byte, entry or row.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from sparkhaven.store.errors import CorruptFileError, OtherColumnError
from sparkhaven.store.format.column.codecs import Reading, codec_for
from sparkhaven.store.format.column.prefix import DATA_OFFSET, MAX_DATA_OFFSET, Prefix, check_prefix, decode_prefix
from sparkhaven.store.format.column.region import DAT, Region
from sparkhaven.store.format.index.grouping import GroupRanges, decode_ovr
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import PARQUET, in_parquet
from sparkhaven.store.native.checked_columns import checksum
from sparkhaven.store.scan.parquet_file import CommittedParquet
from sparkhaven.store.types.committed_columns import UNKNOWN, FileState, RangeStats
from sparkhaven.store.types.model import Column, Storage, same_form, widened
from sparkhaven.store.types.row_ranges import RowRanges

OVR = ".ovr"
T = TypeVar("T")
Taking = Callable[[RowRanges, bool | None], pa.Array]
SMALL = 1 << 16  # bytes of data that are read along with the prefix


def _missing(path: Path) -> CorruptFileError:
    return CorruptFileError(
        "a committed file is missing",
        where=path,
        expected="the file",
        found="nothing",
    )


def column_header(fs: Fs, path: Path, head: bytes | None = None) -> Prefix:
    """The prefix of a ``.dat`` file, each byte before the data looked at; ``head``: its first bytes, if known."""
    try:
        head = fs.read_range(path, 0, DATA_OFFSET) if head is None else head
    except FileNotFoundError:
        raise _missing(path) from None
    try:
        prefix = decode_prefix(head, path)
        reach = prefix.data_offset
    except CorruptFileError:
        stat = fs.stat(path)
        reach = min(stat.size if stat else 0, MAX_DATA_OFFSET)
        if reach <= DATA_OFFSET:
            raise
        # the object may be longer than the usual prefix
        prefix = decode_prefix(fs.read_range(path, 0, reach), path)
    else:
        if reach > DATA_OFFSET:
            prefix = decode_prefix(fs.read_range(path, 0, reach), path)
    return prefix


def small_column(fs: Fs, path: Path, size: int) -> bytes | None:
    """A ``.dat`` file with ``size`` bytes of data behind the usual prefix, if that is little; None where it is not so.

    One read then takes the place of two.
    """
    return _if_small(size, partial(fs.read_range, path, 0))


def _if_small(size: int, read: Callable[[int], T]) -> T | None:
    if size > SMALL:
        return None
    try:
        return read(DATA_OFFSET + size)
    except (CorruptFileError, FileNotFoundError):  # to be reported by whoever reads the prefix, then the data
        return None


@dataclass(frozen=True, slots=True)
class WrittenColumn:
    """How a committed file has a column: in its newest form or an earlier one, and with which prefix."""

    column: Column
    prefix: Prefix


def committed_column(fs: Fs, path: Path, column: Column, head: bytes | None = None) -> WrittenColumn:
    """How a committed ``.dat`` file has a column; ``head``: its first bytes, if known.

    Raises as ``column_header`` and ``check_prefix``; another column's id is an OtherColumnError: in a location a name
    is of one column, so either this file, or what says which version has named it, or the history of the schema is
    damaged.
    """
    prefix = column_header(fs, path, head)
    if prefix.column_id not in (None, column.id):
        raise OtherColumnError(
            f"file of column {column.name} says that it belongs to another column",
            where=path,
            expected=f"columnId {column.id}",
            found=f"columnId {prefix.column_id}",
            hint="the prefix is damaged, the file is a copy of another one, or another schema wrote it. Restore the"
            " file, or the schema with its history. Reads of other columns are not affected",
        )
    stored = (prefix.data_type, prefix.width)
    form = next((form for form in column.earlier if (form.type.java, form.width) == stored), column)
    check_prefix(prefix, form, path)
    return WrittenColumn(form, prefix)


@dataclass(frozen=True, slots=True)
class ColumnFile:
    """An open column of ``rows`` committed rows; ``prefix`` None: none of them has a value, see ``nulls``."""

    column: Column
    rows: int
    prefix: Prefix | None
    _reading: Reading | None
    _taking: Taking | None = None
    _region: Region | None = None

    @property
    def absent(self) -> bool:
        """Whether the location has rows and no file of the column."""
        return bool(self.rows) and self.prefix is None and self._reading is None

    def again(self) -> ColumnFile:
        """This column, without the symbols of a large table that this one may have decoded."""
        region = self._region
        return self if region is None else _opened(self.column, self.rows, self.prefix, region)

    def read(self, start: int = 0, stop: int | None = None, *, has_nulls: bool | None = None) -> pa.Array:
        """Rows ``[start, stop)``; ``has_nulls`` False promises that there are none in them, and saves looking.

        Symbols come as a dictionary of int32 and text, all others in the Arrow type of their
        ``DataType`` row.
        """
        stop = self.rows if stop is None else stop
        if not 0 <= start <= stop <= self.rows:
            raise IndexError(f"rows [{start}, {stop}) of {self.rows}")
        if self._reading is None or start == stop:
            return nulls(self.column, stop - start)
        return self._reading(start, stop, has_nulls)

    def take(self, rows: RowRanges, *, has_nulls: bool | None = None) -> pa.Array:
        """Some rows, as ``read`` gives them; no other row is looked at where the column has files of its own."""
        if len(rows) < 2:
            return self.read(rows.start, rows.stop, has_nulls=has_nulls) if len(rows) else self.read(0, 0)
        if self._taking is not None:
            try:
                return self._taking(rows, has_nulls)
            except CorruptFileError:  # the plain way names the row
                pass
        return self.read(rows.start, rows.stop).take(pa.array(rows.positions - rows.start))


def nulls(column: Column, count: int) -> pa.Array:
    """Values of rows without a value, as in a location that lacks the column. A set, which has no null, is empty."""
    if column.storage is Storage.SET:
        return pa.ListArray.from_arrays(pa.array(bytes(count + 1), pa.int32()), pa.array([], pa.string()))
    kind = pa.dictionary(pa.int32(), pa.string()) if column.storage is Storage.SYMBOL else column.type.arrow
    return pa.nulls(count, kind)


def _unchecked(path: Path, data: pa.Buffer) -> None:
    """Takes committed bytes as they are."""


def open_column(
    fs: Fs,
    directory: Path,
    column: Column,
    files: Mapping[str, int],
    rows: int,
    *,
    check: Callable[[Path, pa.Buffer], None] = _unchecked,
) -> ColumnFile:
    """Opens a column, under the name that it has in the location (``Column.at``).

    ``files`` has the committed bytes of each file's data region, by file name. A column that has no committed ``.dat``
    has no value. ``check`` is given the committed bytes of each file before they are decoded, and raises if they
    changed.
    """
    if in_parquet(files):
        return open_parquet(fs, directory, files, rows, check=check).column(column)
    codec_for(column)
    named = column.within(files)
    if named.files[0] not in files:
        return ColumnFile(column, rows, None, None)
    path = directory / named.files[0]
    whole = _if_small(files[path.name], partial(fs.map, path))
    written = committed_column(fs, path, named, None if whole is None else whole[:DATA_OFFSET].to_pybytes())
    prefix = written.prefix
    region = map_region(fs, directory, written, files, rows, whole)
    if rows == 0:
        return ColumnFile(column, 0, prefix, None)
    for name, data in region.files.items():
        check(directory / name, data)
    return _opened(column, rows, prefix, region)


def _opened(column: Column, rows: int, prefix: Prefix | None, region: Region) -> ColumnFile:
    reading, take = codec_for(region.column).open(region), taking(region)
    if not same_form(region.column, column):
        reading, take = _widening(reading, column), _widening(take, column)
    return ColumnFile(column, rows, prefix, reading, take, region if region.many_symbols(0) else None)


def _widening(reading: Callable[..., pa.Array], column: Column) -> Callable[..., pa.Array]:
    return lambda *given: widened(reading(*given), column)


def taking(region: Region) -> Taking:
    return lambda rows, has_nulls: codec_for(region.column).open(region.chosen(rows))(0, rows.rows, has_nulls)


def map_region(
    fs: Fs,
    directory: Path,
    written: WrittenColumn,
    files: Mapping[str, int],
    rows: int,
    whole: pa.Buffer | None = None,
) -> Region:
    """Maps the committed bytes of a column that has a ``.dat``, and of its companions; nothing is decoded.

    ``whole``: the file, prefix and data, if it was read. Other arguments as those of ``open_column``.
    CorruptFileError: lengths contradict each other, or a file is missing or shorter.
    """
    column, prefix = written.column, written.prefix
    path = directory / column.files[0]
    size = files[path.name]
    if size != rows * prefix.width:
        raise CorruptFileError(
            "committed bytes are not rows times width",
            where=path,
            expected=f"{rows} x {prefix.width} bytes",
            found=f"{size} bytes",
        )
    if whole is not None and prefix.data_offset == DATA_OFFSET:
        data = whole.slice(DATA_OFFSET)
    else:
        try:
            data = fs.map(path, prefix.data_offset + size).slice(prefix.data_offset) if rows else pa.py_buffer(b"")
        except FileNotFoundError:
            raise _missing(path) from None
    others = column.files[1:] if rows else ()
    companions = {name.removeprefix(column.name): _companion(fs, directory / name, files) for name in others}
    return Region(column, str(path), prefix.byte_order, rows, data, companions)


@dataclass(frozen=True, slots=True)
class ParquetColumns:
    found: CommittedParquet

    def column(self, column: Column) -> ColumnFile:
        """One of them; raises what ``check_field`` raises."""
        codec_for(column)
        reader = self.found.reading(column)
        read, take = (None, None) if reader is None else (reader.read, reader.take)
        return ColumnFile(column, self.found.rows, None, read, take)


def with_checksum(fs: Fs, path: Path, state: FileState) -> FileState:
    """The state of a file of a location; its checksum is computed where another program wrote it without one."""
    if state.crc != UNKNOWN:
        return state
    start = column_header(fs, path).data_offset if path.suffix == DAT else 0
    return FileState(state.size, checksum(fs, path, start, state.size))


def open_parquet(
    fs: Fs,
    directory: Path,
    files: Mapping[str, int],
    rows: int,
    *,
    check: Callable[[Path, pa.Buffer], None] = _unchecked,
) -> ParquetColumns:
    """Opens the ``table.parquet`` of a location; arguments as those of ``open_column``."""
    path = directory / PARQUET
    try:
        data = fs.map(path, files[PARQUET])
    except FileNotFoundError:
        raise _missing(path) from None
    check(path, data)
    return ParquetColumns(CommittedParquet(path, data, rows))


def _companion(fs: Fs, path: Path, files: Mapping[str, int]) -> pa.Buffer:
    if path.name not in files:
        raise CorruptFileError(
            "companion file has no committed length",
            where=path,
            expected="an entry in dataFileSizes",
            found="none",
        )
    try:
        return fs.map(path, files[path.name])
    except FileNotFoundError:
        raise _missing(path) from None


def written_column(fs: Fs, directory: Path, column: Column, files: Collection[str]) -> Column:
    """The column with number, charset and storage of its files, which another program may have chosen."""
    name = f"{column.name}.dat"
    if name not in files:
        return column
    header = column_header(fs, directory / name)
    own = replace(column, id=header.column_id or column.id, encoding=header.encoding)
    if column.storage in (Storage.SYMBOL, Storage.BLOB) and column.type.coding is None:
        own = replace(own, storage=Storage.SYMBOL if f"{column.name}.sym" in files else Storage.BLOB)
    return own


def read_column(fs: Fs, directory: Path, column: Column, files: Mapping[str, int], rows: int) -> pa.Array:
    """All rows of a column: ``open_column`` and ``ColumnFile.read`` in one."""
    return open_column(fs, directory, column, files, rows).read()


def read_grouping(fs: Fs, directory: Path, column: Column, rows: int) -> GroupRanges | None:
    """The grouping of a column, checked against the row count; None if it has none."""
    path = directory / (column.name + DAT)
    prefix = column_header(fs, path)
    if not prefix.overflow:
        inline = prefix.grouping(column, path)
        return None if inline is None else inline.check(rows, path)
    path = directory / (column.name + OVR)
    try:
        data = fs.read(path)
    except FileNotFoundError:
        raise _missing(path) from None
    return decode_ovr(data, column.type, path).check(rows, path)


BLOCK = 1 << 18


def count_values(column: Column, values: pa.Array) -> int:
    """Rows that have a value. An empty set is none: it is what a null one is stored as."""
    if column.storage is Storage.SET:
        return int(pc.sum(pc.greater(pc.list_value_length(values), 0)).as_py() or 0)
    return int(len(values) - values.null_count)


def filled_by_stats(stats: Sequence[RangeStats], start: int, stop: int) -> int | None:
    """Rows of ``[start, stop)`` that are not null; None where the statistics do not tell."""
    reached, count = start, 0
    for part in sorted(stats, key=lambda part: part.start):
        if part.stop <= start or part.start >= stop:
            continue
        whole = start <= part.start and part.stop <= stop
        if part.start > reached or not (whole or part.nulls in (0, part.stop - part.start)):
            return None
        first, last = max(part.start, start), min(part.stop, stop)
        count += last - first if not part.nulls else 0 if not whole else part.stop - part.start - part.nulls
        reached = part.stop
    return count if reached >= stop else None


def filled(
    fs: Fs,
    directory: Path,
    column: Column,
    files: Mapping[str, FileState],
    stats: Sequence[RangeStats],
    rows: tuple[int, int, int],
) -> int:
    """Rows from ``rows[0]`` to ``rows[1]`` of a location of ``rows[2]`` rows in which the column has a value.

    ``column``: under the name that it has there (``Column.at``); ``stats``: of it. Raises what ``open_column`` raises.
    """
    start, stop, all_rows = rows
    stored = column.within(files)
    if not in_parquet(files) and stored.files[0] not in files:
        return 0
    known = None if column.storage is Storage.SET else filled_by_stats(stats, start, stop)
    if known is not None:
        return known
    sizes = {name: state.size for name, state in files.items()}
    opened = open_column(fs, directory, column, sizes, all_rows)
    count = 0
    for first in range(start, stop, BLOCK):
        count += count_values(column, opened.read(first, min(first + BLOCK, stop)))
    return count
