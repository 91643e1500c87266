"""``table.size``: the published size of one location.

A Java stream that holds one map, replaced as a whole after each commit. Lengths are those of each file's data region
(a ``.dat`` without its prefix). Beyond the documented keys, ``checksums`` has the CRC-32 of each region, so that an
append can continue it and a location without a commit log can be verified. A location with withdrawn rows publishes as
``size`` the rows before the first of them, which is what a foreign engine may show; ``committedRows`` has all of its
rows then, ``withdrawnRows`` how many of them are withdrawn, ``withdrawnCrc`` the CRC-32 of their ranges, and
``withdrawnRanges`` the ranges themselves, like ``3-6,9-12``, where they are few. ``schemaVersion`` is that of the last
change; ``begunByVersion`` that by which the files are named, where an earlier one created the location.

``table.size`` of many locations with the same files: a template is encoded once, then filled with numbers, or read.

The 8-byte numbers of a record have fixed offsets, since nothing else in it depends on their values.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import accumulate
from pathlib import Path
from struct import Struct
from typing import Any

from sparkhaven.store.errors import CorruptFileError, UnsupportedVersionError
from sparkhaven.store.format.java.java_values import JInt, JLong, JMap
from sparkhaven.store.format.java.object_reader import FOREIGN, loads
from sparkhaven.store.format.java.object_writer import dumps
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.types.committed_columns import FileState
from sparkhaven.store.types.model import NOW
from sparkhaven.store.types.row_ranges import RowRanges

NAME = "table.size"
VERSION = 1
_PUBLISHED = re.compile(rb"t\x00\x05epochsq\x00~\x00.(.{8})t\x00\x06streamt(..)", re.DOTALL)
TRUNCATED = b"t\x00\ttruncated"  # lies in the bytes of every record that is truncated
WITHDRAWN = b"t\x00\x0cwithdrawnCrc"  # in those of every record with withdrawn rows
MOST_RANGES = 256  # of withdrawn rows that a record has itself
_RANGES = re.compile(r"[0-9]{1,18}-[0-9]{1,18}(,[0-9]{1,18}-[0-9]{1,18})*")
COLUMN_VERSION = 1  # of the column files as ``prefix``, ``symbols``, ``blobs`` and ``fixed`` write them


@dataclass(frozen=True, slots=True)
class TableSize:
    """One record. ``epoch`` and ``stream`` are None where no stream owns the location.

    ``truncated`` means emptied for good. ``checksums`` are unsigned CRC-32 by file name. ``committed``: the rows of a
    location that has ``withdrawn`` ones, None elsewhere. ``withdrawn_crc``: which ones these are, as ``RowRanges.crc``;
    ``withdrawn_rows``: they themselves, None where they are not recorded.
    """

    size: int
    last_modified_ms: int
    data_file_sizes: Mapping[str, int]
    source_state: Mapping[str, str] | None = None
    import_state: str | None = None
    column_version: int = COLUMN_VERSION
    epoch: int | None = None
    stream: str | None = None
    schema_version: int | None = None
    sorted_columns: Mapping[str, str] = field(default_factory=dict)
    data_indexes: Mapping[str, int] = field(default_factory=dict)
    truncated: bool = False
    checksums: Mapping[str, int] = field(default_factory=dict)
    committed: int | None = None
    withdrawn: int = 0
    withdrawn_crc: int = 0
    withdrawn_rows: RowRanges | None = None
    begun_by: int | None = None

    @property
    def named_by(self) -> int:
        """The version of the schema by which its files are named: the one that created the location."""
        return (
            self.begun_by if self.begun_by is not None else NOW if self.schema_version is None else self.schema_version
        )

    def with_withdrawn(self, rows: RowRanges) -> TableSize:
        """The record of a location with these withdrawn rows."""
        return replace(
            self,
            size=rows.start,
            committed=self.rows,
            withdrawn=rows.rows,
            withdrawn_crc=rows.crc,
            withdrawn_rows=rows if len(rows) <= MOST_RANGES else None,
        )

    def withdraws(self, rows: RowRanges) -> bool:
        """Whether these are the withdrawn rows of the location."""
        return (rows.rows, rows.crc) == (self.withdrawn, self.withdrawn_crc)

    @property
    def rows(self) -> int:
        """The rows in the files, withdrawn ones too."""
        return self.size if self.committed is None else self.committed

    @property
    def files(self) -> dict[str, FileState]:
        """The data files; a checksum that is not recorded is 0."""
        return {name: FileState(size, self.checksums.get(name, 0)) for name, size in self.data_file_sizes.items()}


def of_files(rows: int, now_ms: int, files: Mapping[str, FileState], **others: Any) -> TableSize:
    """The record of a location that has these files; ``others``: fields of it by name."""
    sizes = {name: state.size for name, state in files.items()}
    sums = {name: state.crc for name, state in files.items()}
    return TableSize(rows, now_ms, sizes, checksums=sums, **others)


def _longs(values: Mapping[str, int]) -> dict[str, JLong]:
    return {name: JLong(values[name]) for name in sorted(values)}


def encode(record: TableSize) -> bytes:
    """The file's content; file names are sorted, optional keys without content left out."""
    entries: dict[str, Any] = {
        "version": JInt(VERSION),
        "size": JLong(record.size),
        "lastModificationTime": JLong(record.last_modified_ms),
        "dataFileSizes": _longs(record.data_file_sizes),
        "sourceState": None if record.source_state is None else dict(record.source_state),
        "importState": record.import_state,
        "columnVersion": JInt(record.column_version),
    }
    if record.epoch is not None:
        entries["epoch"] = JLong(record.epoch)
    if record.stream is not None:
        entries["stream"] = record.stream
    if record.schema_version is not None:
        entries["schemaVersion"] = JInt(record.schema_version)
    if record.begun_by is not None:
        entries["begunByVersion"] = JInt(record.begun_by)
    if record.sorted_columns:
        entries["sortedColumns"] = dict(record.sorted_columns)
    if record.data_indexes:
        entries["dataIndexes"] = {name: JLong(rows) for name, rows in record.data_indexes.items()}
    if record.truncated:
        entries["truncated"] = True
    if record.checksums:
        entries["checksums"] = _longs(record.checksums)
    if record.committed is not None:
        entries["committedRows"] = JLong(record.committed)
        entries["withdrawnRows"] = JLong(record.withdrawn)
        entries["withdrawnCrc"] = JLong(record.withdrawn_crc)
        if record.withdrawn_rows is not None:
            edges = record.withdrawn_rows.edges
            pairs = zip(edges[::2], edges[1::2], strict=True)
            entries["withdrawnRanges"] = ",".join(f"{start}-{stop}" for start, stop in pairs)
    return dumps(entries)


class _Keys:
    """Takes values out of the map, each with its Java type."""

    def __init__(self, entries: dict[str, Any], where: object) -> None:
        self.entries = entries
        self.where = where

    def error(self, key: str, expected: str, found: object) -> CorruptFileError:
        problem = f"{NAME} has a wrong value for {key!r}"
        return CorruptFileError(problem, where=self.where, expected=expected, found=found)

    def take(self, key: str, kind: type, *, optional: bool = False) -> Any:
        value = self.entries.get(key)
        if type(value) is kind or (value is None and optional):
            return value
        raise self.error(key, kind.__name__, type(value).__name__ if key in self.entries else "no such key")

    def count(self, key: str) -> int:
        value = int(self.take(key, JLong))
        if value < 0:
            raise self.error(key, "0 or more", value)
        return value

    def ranges(self, key: str) -> RowRanges | None:
        text = self.take(key, str, optional=True)
        if text is None:
            return None
        if not _RANGES.fullmatch(text):
            raise self.error(key, "ranges like 3-6,9-12", text[:80])
        rows = RowRanges.of((int(start), int(stop)) for start, stop in (part.split("-") for part in text.split(",")))
        if (rows.rows, rows.crc) != (self.count("withdrawnRows"), self.count("withdrawnCrc")):
            raise self.error(key, "the rows of withdrawnRows and withdrawnCrc", f"{rows.rows} rows, CRC {rows.crc}")
        return rows

    def named(self, key: str, kind: type, *, optional: bool = True) -> dict[str, Any] | None:
        java_map = self.take(key, JMap, optional=optional)
        if java_map is None:
            return None
        named: dict[str, Any] | None = java_map.named()
        if named is None or any(type(value) is not kind for value in named.values()):
            raise self.error(key, f"a map of String to {kind.__name__}", "other keys or values, or a key twice")
        return named

    def counts(self, key: str, *, optional: bool = True) -> dict[str, int]:
        counts = {name: int(value) for name, value in (self.named(key, JLong, optional=optional) or {}).items()}
        for name, value in counts.items():
            if value < 0:
                raise self.error(key, "0 or more", f"{name}: {value}")
            if "/" in name or "\\" in name or name in ("", ".", ".."):
                raise self.error(key, "a plain file name", repr(name))
        return counts


def decode(data: bytes, where: object) -> TableSize:
    """The record of a file's content.

    Damage, a missing key or one of another type is a CorruptFileError, another version an UnsupportedVersionError.
    """
    if not data:
        raise CorruptFileError(f"{NAME} is empty", where=where, expected="a Java stream", found="0 bytes")
    decoded = loads(data, where)
    entries = decoded.named() if type(decoded) is JMap else None
    if entries is None:
        raise UnsupportedVersionError(
            f"{NAME} of another writer",
            where=f"{where}, byte 4",
            expected="a map by name",
            found=type(decoded).__name__,
            hint=FOREIGN,
        )
    keys = _Keys(entries, where)
    version = keys.take("version", JInt)
    if version != VERSION:
        raise UnsupportedVersionError(
            f"{NAME} has an unknown version",
            where=f"{where}, byte 4",
            expected=VERSION,
            found=int(version),
            hint=FOREIGN,
        )
    for key in ("sourceState", "importState"):
        if key not in entries:
            raise keys.error(key, "a value or null", "no such key")
    withdrawn = "committedRows" in entries
    withdrawn_rows = keys.ranges("withdrawnRanges")
    epoch, schema = keys.take("epoch", JLong, optional=True), keys.take("schemaVersion", JInt, optional=True)
    begun_by = keys.take("begunByVersion", JInt, optional=True)
    return TableSize(
        size=keys.count("size"),
        last_modified_ms=int(keys.take("lastModificationTime", JLong)),
        data_file_sizes=keys.counts("dataFileSizes", optional=False),
        source_state=keys.named("sourceState", str),
        import_state=keys.take("importState", str, optional=True),
        column_version=int(keys.take("columnVersion", JInt)),
        epoch=None if epoch is None else int(epoch),
        stream=keys.take("stream", str, optional=True),
        schema_version=None if schema is None else int(schema),
        sorted_columns=keys.named("sortedColumns", str) or {},
        data_indexes=keys.counts("dataIndexes"),
        truncated=bool(keys.take("truncated", bool, optional=True)),
        checksums=keys.counts("checksums"),
        committed=keys.count("committedRows") if withdrawn else None,
        withdrawn=keys.count("withdrawnRows") if withdrawn else 0,
        withdrawn_crc=keys.count("withdrawnCrc") if withdrawn else 0,
        withdrawn_rows=withdrawn_rows,
        begun_by=None if begun_by is None else int(begun_by),
    )


def published(data: bytes, where: object) -> tuple[str | None, int]:
    """Stream and epoch of a record, (None, 0) of a location that no stream owns; raises what ``decode`` raises.

    In records of our writer the two entries are adjacent and are searched for: decoding takes a hundred times as long.
    Damage elsewhere in the record is not detected.
    """
    match = _PUBLISHED.search(data)
    if match is not None:
        name = data[match.end() : match.end() + int.from_bytes(match[2], "big")]
        try:
            return name.decode("ascii"), int.from_bytes(match[1], "big", signed=True)
        except UnicodeDecodeError:
            pass
    record = decode(data, where)
    return record.stream, record.epoch or 0


def load(fs: Fs, directory: Path) -> TableSize | None:
    """The published record of a location; None where nothing is published."""
    path = directory / NAME
    try:
        data = fs.read(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    return decode(data, path)


_FIXED = 3  # size, time and epoch, before the lengths and checksums of the files
_MARK = 0x7D00_C700_0000_0000  # no name has these bytes: modified UTF-8 has no zero byte
_MARKED = re.compile(rb"\x7d\x00\xc7\x00(.{4})", re.DOTALL)


@dataclass(frozen=True, slots=True)
class SizeForm:
    """The constant bytes around the numbers, and which number follows each of them.

    ``example`` is a record of the form; ``names``: its files.
    """

    example: TableSize
    names: tuple[str, ...]
    pieces: tuple[bytes, ...]
    order: tuple[int, ...]
    layout: Struct

    def fill(self, rows: int, modified_ms: int, epoch: int, sizes: Sequence[int], checksums: Sequence[int]) -> bytes:
        """The file's content; ``sizes`` and ``checksums`` in the order of the names."""
        numbers = (rows, modified_ms, epoch, *sizes, *checksums)
        parts: list[bytes | int] = [b""] * (2 * len(numbers) + 1)
        parts[::2] = self.pieces
        parts[1::2] = [numbers[index] for index in self.order]
        return self.layout.pack(*parts)

    @property
    def template(self) -> bytes:
        """A record with zeros for all of its numbers."""
        return bytes(8).join(self.pieces)

    @property
    def places(self) -> tuple[int, ...]:
        """Where in a record the numbers stand: rows, time, epoch, lengths, checksums."""
        ends = accumulate(map(len, self.pieces[:-1]))
        offsets = {index: end + 8 * before for before, (index, end) in enumerate(zip(self.order, ends, strict=True))}
        return tuple(offsets[index] for index in sorted(offsets))

    def read(self, data: bytes) -> TableSize | None:
        """The record of a file's content, as ``decode`` gives it; None: the content is not of this form, or damaged."""
        try:
            parts = self.layout.unpack(data)
        except struct.error:
            return None
        if parts[::2] != self.pieces or min(parts[1::2]) < 0:
            return None
        numbers = [0] * len(self.order)
        for index, number in zip(self.order, parts[1::2], strict=True):
            numbers[index] = number
        count = len(self.names)
        sizes, checksums = numbers[_FIXED : _FIXED + count], numbers[_FIXED + count :]
        return replace(
            self.example,
            size=numbers[0],
            last_modified_ms=numbers[1],
            epoch=numbers[2],
            data_file_sizes=dict(zip(self.names, sizes, strict=True)),
            checksums=dict(zip(self.names, checksums, strict=True)),
        )


def form_of(record: TableSize) -> SizeForm | None:
    """The form of a record that our writer has made of a location with files, none of its rows withdrawn; else None."""
    names = tuple(sorted(record.data_file_sizes))
    if record.stream is None or record.schema_version is None or not names or set(names) != set(record.checksums):
        return None
    if record.committed is not None:
        return None
    return size_form(record.stream, names, record.schema_version, record.truncated, record.begun_by)


@lru_cache(256)
def size_form(
    stream: str, names: tuple[str, ...], schema_version: int, truncated: bool, begun_by: int | None = None
) -> SizeForm:
    """The form of the records of a stream's locations that have these files, and no withdrawn rows."""
    count = len(names)
    record = TableSize(
        size=_MARK,
        last_modified_ms=_MARK + 1,
        epoch=_MARK + 2,
        stream=stream,
        schema_version=schema_version,
        begun_by=begun_by,
        truncated=truncated,
        data_file_sizes={name: _MARK + _FIXED + index for index, name in enumerate(names)},
        checksums={name: _MARK + _FIXED + count + index for index, name in enumerate(names)},
    )
    first, *rest = _MARKED.split(encode(record))
    order = tuple(int.from_bytes(number, "big") for number in rest[::2])
    pieces = (first, *rest[1::2])
    if sorted(order) != list(range(_FIXED + 2 * count)):
        raise ValueError(f"{len(order)} numbers in a record of {count} files")
    return SizeForm(record, names, pieces, order, Struct(">" + "q".join(f"{len(piece)}s" for piece in pieces)))
