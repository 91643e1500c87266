"""Columns and indexes of locations as reads of one table open them.

Files of history never change, and their names are never given to others. So what was opened and compared with its
checksums stays open for the next read. It is used again while each file is still the same to the system: device,
inode, size and time of change. Else it is opened and compared again.

The definition beside the files of a location says with which types and codecs the columns were written. A Locations
table, which is a splayed table of column files, is read here too.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa

from sparkhaven.store.errors import CorruptFileError
from sparkhaven.store.format.column.region import BYTES, DAT, SYM, SYM_BYTES
from sparkhaven.store.format.parquet.trees import LOCATIONS_TABLE, LOCATIONS_TABLES
from sparkhaven.store.format.table import table_size
from sparkhaven.store.format.table.locations import FIXED_NAMES, LocationEntry, decode_locations, locations_schema
from sparkhaven.store.format.table.tbl import decode_tbl
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.io.open_files import Identity
from sparkhaven.store.scan.checksums import MEMORY, Checks
from sparkhaven.store.scan.column_file import (
    ColumnFile,
    ParquetColumns,
    open_column,
    open_parquet,
    read_column,
    written_column,
)
from sparkhaven.store.scan.index_file import IndexFile, index_files, open_index
from sparkhaven.store.scan.slices import Slice
from sparkhaven.store.types.model import Column, TableSchema

KEPT = 256  # columns and indexes that stay open
PART = 4  # of so many rows of a location at most one is read, so that its columns stay open
SUFFIXES = (DAT, SYM, SYM_BYTES, BYTES)
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Kept:
    """What was opened, of which files in which state, and what it was opened as."""

    opened: Any
    identities: tuple[Identity, ...]
    request: tuple[object, ...]


class LocationFiles:
    """Opens files of locations below ``fs``; ``checks`` compares them with their checksums, None: only indexes are.

    At most ``kept`` columns and indexes stay open. It may be used by several threads.
    """

    def __init__(self, fs: Fs, checks: Checks | None, kept: int = KEPT) -> None:
        self.fs, self.checks = fs, checks
        self._most = kept if checks is None or checks.remembers else 0
        self._kept: OrderedDict[str, _Kept] = OrderedDict()
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[Any, ...]:
        """In another process nothing is open."""
        return LocationFiles, (self.fs, self.checks, self._most)

    def column(self, slice_: Slice, column: Column, sizes: Mapping[str, int] | None = None) -> ColumnFile:
        """A column of a location that has files of its own; raises what ``open_column`` raises.

        ``sizes``: those of the slice, from who opens many columns.
        """

        column = column.at(slice_.named_by)

        def opened() -> ColumnFile:
            of_files = slice_.sizes if sizes is None else sizes
            return open_column(self.fs, slice_.directory, column, of_files, slice_.rows, check=self._check_of(slice_))

        if slice_.tier != "history" or not self._most or slice_.count * PART > slice_.rows:
            return opened()
        name = column.name
        names = [file for suffix in SUFFIXES if (file := name + suffix) in slice_.files]
        request = column, slice_.rows, slice_.files
        return self._get(slice_.directory, name, names, request, opened, ColumnFile.again)

    def parquet(self, slice_: Slice) -> ParquetColumns:
        """All columns of a location in Parquet, which are not kept: a reading holds a row group."""
        return open_parquet(self.fs, slice_.directory, slice_.sizes, slice_.rows, check=self._check_of(slice_))

    def index(self, slice_: Slice, keys: Sequence[Column]) -> IndexFile | None:
        """The index over these columns of a location; None where there is none to be used."""
        checks = self.checks or MEMORY

        def opened() -> IndexFile | None:
            return open_index(self.fs, slice_.directory, keys, slice_.indexes, slice_.rows, checks)

        if not self._most:
            return opened()
        name, files = index_files(keys, slice_.indexes)
        request = tuple(keys), slice_.rows, slice_.indexes
        return self._get(slice_.directory, name, files, request, opened, lambda index: index)

    def _check_of(self, slice_: Slice) -> Callable[[Path, pa.Buffer], None]:
        def check(path: Path, data: pa.Buffer) -> None:
            if self.checks is not None:
                self.checks.require(self.fs, path, data, slice_.files[path.name].crc)

        return check

    def _get(
        self,
        directory: Path,
        name: str,
        files: Iterable[str],
        request: tuple[object, ...],
        open_: Callable[[], T],
        again: Callable[[T], T],
    ) -> T:
        key = f"{directory}/{name}"
        kept = self._kept.get(key)
        identities = self.fs.identities(directory, files)
        if kept is not None and identities is not None and kept.identities == identities and kept.request == request:
            opened: T = kept.opened
            return again(opened)
        opened = open_()
        with self._lock:
            self._kept.pop(key, None)
            if identities is not None and opened is not None:
                self._kept[key] = _Kept(opened, identities, request)
            while len(self._kept) > self._most:
                self._kept.popitem(last=False)
        return opened


NAME = "table.tbl"


def location_schema(fs: Fs, directory: Path) -> TableSchema | None:
    """The schema of ``table.tbl``, else of ``<directory>.tbl``; None where there is neither.

    Raises what ``decode_tbl`` and ``Definition.schema`` raise.
    """
    for path in (directory / NAME, directory / f"{directory.name}.tbl"):
        try:
            data = fs.read(path)
        except FileNotFoundError:
            continue
        return decode_tbl(data, path).schema()
    return None


TWO_TABLES = f"remove the one that no program writes. Merges here write {LOCATIONS_TABLE}"


def locations_directory(fs: Fs, root: Path, hint: str = TWO_TABLES) -> Path | None:
    """The directory of the Locations table of a tree; None without one. CorruptFileError: there are two."""
    names = [name for name in LOCATIONS_TABLES if fs.stat(root / name) is not None]
    if len(names) > 1:
        raise CorruptFileError(
            "the tree has two Locations tables",
            where=root,
            expected=" or ".join(LOCATIONS_TABLES),
            found=" and ".join(names),
            hint=hint,
        )
    return root / names[0] if names else None


def read_locations(fs: Fs, directory: Path, partitioning: str | None, schema: TableSchema) -> list[LocationEntry]:
    """The leaves that a Locations table names. Raises what ``decode_locations`` and reading columns raise.

    Each column of the table that the Locations table has too is one that directories give. ``partitioning`` None:
    ``schema`` is that of a Locations table without partition values, and those of a leaf are its directory.
    """
    record = table_size.load(fs, directory)
    if record is None:
        raise CorruptFileError(
            "the Locations table has no table.size", where=directory, expected="a record of its rows"
        )
    sizes, rows = record.data_file_sizes, record.size

    def values(column: Column) -> pa.Array:
        array = read_column(fs, directory, written_column(fs, directory, column, sizes), sizes, rows)
        if pa.types.is_dictionary(array.type):
            return array.dictionary_decode()
        return array.cast(pa.int64()) if column.name in FIXED_NAMES and pa.types.is_timestamp(array.type) else array

    given = [column for column in schema.stored if column.name not in FIXED_NAMES]
    if partitioning is not None:
        fixed = locations_schema(partitioning, schema).columns
        given = [column for column in given if f"{column.name}.dat" in sizes]
    else:
        fixed = tuple(column for column in schema.columns if column.name in FIXED_NAMES)
    columns = {column.name: values(column).to_pylist() for column in fixed}
    if partitioning is None:
        columns[""] = [str(name).rpartition("/")[0] or "." for name in columns["Filename"]]
    return decode_locations(columns, partitioning or "", directory, {column.name: values(column) for column in given})
