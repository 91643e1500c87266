"""File states and column statistics of a location, packed, in memory as in commit records, checkpoint and head.

*Files* of n names: u1 width of a size (4 or 8), n sizes, n CRC-32 (u4); little-endian. Statistics are rows of
``store.epochs.state.statistics``. Their names are stored once for many locations.

The locations of a commit record, packed behind its JSON. Little-endian.

The JSON names what several locations have in common: ``reports`` = {``count``, ``internals``, ``values``,
``shapes``: [[file names, [column names of a group, ...]], ...]}. After the line feed that ends it come ``count``
entries of 40 bytes: u4 place of the internal partition, u4 place of the value, u4 place of the shape, u4 length,
i8 base epoch, i8 base rows, i8 rows. Then for each as many bytes as its length says: files
(as reports have them, below), and for each group u4 length and a row of statistics
(``store.epochs.state.statistics``).
"""

from __future__ import annotations

import struct
from collections.abc import ItemsView, Iterator, Mapping, Sequence, ValuesView
from functools import lru_cache
from typing import Any, TypeVar, overload

from sparkhaven.store.epochs.state.log_values import LocationReport
from sparkhaven.store.epochs.state.statistics import join_rows, pack_row, span, unpack_row
from sparkhaven.store.layout import LocationKey
from sparkhaven.store.types.committed_columns import FileState, RangeStats

MERGE_ROWS = 65_536
_WIDTHS = {4: "I", 8: "Q"}
Names = tuple[str, ...]


@lru_cache(1 << 12)
def shared(names: Names) -> Names:
    return names


@lru_cache(1 << 12)
def _sizes(width: int, count: int) -> struct.Struct:
    return struct.Struct(f"<{count}{_WIDTHS[width]}{count}I")


class Files(Mapping[str, FileState]):
    __slots__ = ("data", "names")

    def __init__(self, names: Names, data: bytes) -> None:
        self.names, self.data = names, data

    @classmethod
    def of(cls, files: Mapping[str, FileState]) -> Files:
        if isinstance(files, Files):
            return files
        names = shared(tuple(sorted(files)))
        states = [files[name] for name in names]
        sizes = [state.size for state in states]
        width = 4 if max(sizes, default=0) < 1 << 32 else 8
        data = bytes([width]) + _sizes(width, len(names)).pack(*sizes, *[state.crc for state in states])
        return cls(names, data)

    @staticmethod
    def length(count: int, data: bytes, start: int) -> int:
        """Length in bytes of the files of ``count`` names at ``start``. ValueError: the data end earlier."""
        length = 1 + count * (data[start] + 4)
        if data[start] not in (4, 8) or start + length > len(data):
            raise ValueError(f"files of width {data[start]} at {start} of {len(data)} bytes")
        return length

    def __getitem__(self, name: str) -> FileState:
        try:
            index = self.names.index(name)
        except ValueError:
            raise KeyError(name) from None
        numbers = self._numbers()
        return FileState(numbers[index], numbers[index + len(self.names)])

    def __contains__(self, name: object) -> bool:
        return name in self.names

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)

    def items(self) -> ItemsView[str, FileState]:
        return self.unpacked().items()

    def values(self) -> ValuesView[FileState]:
        return self.unpacked().values()

    @property
    def sizes(self) -> tuple[int, ...]:
        """Lengths, in the order of the names."""
        return self._numbers()[: len(self.names)]

    @property
    def checksums(self) -> tuple[int, ...]:
        """CRC-32, in the order of the names."""
        return self._numbers()[len(self.names) :]

    def unpacked(self) -> dict[str, FileState]:
        """All of them, for who asks for most."""
        numbers, count = self._numbers(), len(self.names)
        return {name: FileState(numbers[i], numbers[i + count]) for i, name in enumerate(self.names)}

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Files):
            return (self.names, self._numbers()) == (other.names, other._numbers())
        return self.unpacked() == other if isinstance(other, Mapping) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(self.unpacked())

    def _numbers(self) -> tuple[int, ...]:
        return _sizes(self.data[0], len(self.names)).unpack_from(self.data, 1)


Group = tuple[Names, tuple[bytes, ...]]
"""Columns whose ranges lie at the same rows, and a row for each range."""


S = TypeVar("S")


class _Columns(Mapping[str, S]):
    """Statistics by column, in groups."""

    __slots__ = ("groups",)

    def __init__(self, groups: tuple[Group, ...] = ()) -> None:
        self.groups = groups

    def unpacked(self) -> dict[str, S]:
        """All of them, for who asks for most."""
        raise NotImplementedError

    def __iter__(self) -> Iterator[str]:
        return (name for names, _ in self.groups for name in names)

    def __len__(self) -> int:
        return sum(len(names) for names, _ in self.groups)

    def __eq__(self, other: object) -> bool:
        if type(other) is type(self) and self.groups == other.groups:
            return True
        return self.unpacked() == dict(other) if isinstance(other, Mapping) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(self.unpacked())


class AppendedStats(_Columns[RangeStats]):
    """Statistics of what one append has added, by column: each group has one row."""

    __slots__ = ()

    @classmethod
    def of(cls, stats: Mapping[str, RangeStats]) -> AppendedStats:
        if isinstance(stats, AppendedStats):
            return stats
        names = sorted(stats)
        spans: dict[tuple[int, int], list[str]] = {}
        for name in names:
            spans.setdefault((stats[name].start, stats[name].stop), []).append(name)
        return cls(tuple((shared(tuple(n)), (pack_row([stats[name] for name in n]),)) for n in spans.values()))

    def __getitem__(self, name: str) -> RangeStats:
        return self.unpacked()[name]

    def unpacked(self) -> dict[str, RangeStats]:
        rows = ((names, unpack_row(row, len(names))) for names, (row,) in self.groups)
        return {name: stats for names, columns in rows for name, stats in zip(names, columns, strict=True)}


class Stats(_Columns[tuple[RangeStats, ...]]):
    """Statistics of a location, the ranges of each column: merged, so that their number follows the rows.

    After each append the last two ranges are merged while together they span at most ``MERGE_ROWS`` rows, so any two
    neighbours span more than that, and a location of n rows has at most about 2 n / ``MERGE_ROWS`` ranges a column.
    """

    __slots__ = ()

    @classmethod
    def of(cls, stats: Mapping[str, tuple[RangeStats, ...]]) -> Stats:
        if isinstance(stats, Stats):
            return stats
        spans: dict[tuple[tuple[int, int], ...], list[str]] = {}
        for name in sorted(stats):
            if stats[name]:
                spans.setdefault(tuple((part.start, part.stop) for part in stats[name]), []).append(name)
        return cls(
            tuple(
                (shared(tuple(names)), tuple(pack_row(part) for part in zip(*(stats[n] for n in names), strict=True)))
                for names in spans.values()
            )
        )

    def extended(self, appended: Mapping[str, RangeStats]) -> Stats:
        """The statistics after an append, which starts where the last range stops, or later."""
        new = AppendedStats.of(appended)
        if len(self.groups) == len(new.groups) == 1 and self.groups[0][0] == new.groups[0][0]:
            names, rows = self.groups[0]
            return Stats(((names, _extended(rows, new.groups[0][1][0], len(names))),))
        left = {name: stats for name, stats in new.unpacked().items() if stats.stop > stats.start}
        groups: list[Group] = []
        for names, rows in self.groups:
            mine = {name: left.pop(name) for name in names if name in left}
            if not mine:
                groups.append((names, rows))
            elif len(mine) == len(names) and len({(part.start, part.stop) for part in mine.values()}) == 1:
                groups.append((names, _extended(rows, pack_row(list(mine.values())), len(names))))
            else:  # from here on each column has its own ranges
                columns = zip(*(unpack_row(row, len(names)) for row in rows), strict=True)
                for name, ranges in zip(names, columns, strict=True):
                    alone = tuple(pack_row([range_stats]) for range_stats in ranges)
                    more = _extended(alone, pack_row([mine[name]]), 1) if name in mine else alone
                    groups.append((shared((name,)), more))
        groups += [(names, rows) for names, rows in AppendedStats.of(left).groups]
        return Stats(tuple(sorted(groups)))

    def __getitem__(self, name: str) -> tuple[RangeStats, ...]:
        for names, rows in self.groups:
            if name in names:
                index = names.index(name)
                return tuple(unpack_row(row, len(names))[index] for row in rows)
        raise KeyError(name)

    def __contains__(self, name: object) -> bool:
        return any(name in names for names, _ in self.groups)

    def unpacked(self) -> dict[str, tuple[RangeStats, ...]]:
        stats: dict[str, tuple[RangeStats, ...]] = {}
        for names, rows in self.groups:
            columns = zip(*(unpack_row(row, len(names)) for row in rows), strict=True)
            stats.update(zip(names, columns, strict=True))
        return stats


def _extended(rows: tuple[bytes, ...], row: bytes, count: int) -> tuple[bytes, ...]:
    start, stop = span(row)
    if stop <= start:
        return rows
    kept = len(rows)
    while kept:
        before, end = span(rows[kept - 1])
        if end != start or stop - before > MERGE_ROWS:
            break
        row, start = join_rows(rows[kept - 1], row, count), before
        kept -= 1
    return (*rows[:kept], row)


_ENTRY = struct.Struct("<IIIIqqq")
_LENGTH = struct.Struct("<I")
Shape = tuple[Names, tuple[Names, ...]]
"""Names of the files, and of the columns of each group."""


class Numbering(dict[Any, int]):
    """Numbers things in the order of their first use."""

    def __missing__(self, key: Any) -> int:
        self[key] = number = len(self)
        return number


def encode_shapes(shapes: Mapping[Shape, int]) -> list[Any]:
    """Shapes in the order of their places, for JSON."""
    return [[list(files), [list(names) for names in groups]] for files, groups in shapes]


def decode_shapes(value: Any) -> tuple[Shape, ...]:
    """The inverse of ``encode_shapes``; TypeError or ValueError for anything else."""
    shapes = []
    for files, groups in value:
        columns = tuple(shared(tuple(str(name) for name in names)) for names in groups)
        shapes.append((shared(tuple(str(name) for name in files)), columns))
    return tuple(shapes)


def encode_reports(reports: Sequence[LocationReport]) -> tuple[dict[str, Any], bytes]:
    if isinstance(reports, Reports):
        return reports.header, reports.data[reports.start :]
    internals, values, shapes = Numbering(), Numbering(), Numbering()
    entries, blobs = [], []
    for report in reports:
        files, stats = Files.of(report.files), AppendedStats.of(report.stats)
        parts = [files.data]
        for _, (row,) in stats.groups:
            parts += (_LENGTH.pack(len(row)), row)
        blob = b"".join(parts)
        shape = shapes[files.names, tuple(names for names, _ in stats.groups)]
        key = report.key
        numbers = report.base_epoch, report.base_rows, report.rows
        entries.append(_ENTRY.pack(internals[key.internal], values[key.value], shape, len(blob), *numbers))
        blobs.append(blob)
    header = {
        "count": len(entries),
        "internals": list(internals),
        "values": list(values),
        "shapes": encode_shapes(shapes),
    }
    return header, b"".join((*entries, *blobs))


class Reports(Sequence[LocationReport]):
    """The locations of a record, decoded lazily. IndexError, TypeError, ValueError, struct.error: data is missing."""

    __slots__ = ("_entries", "_keys", "_shapes", "_starts", "data", "header", "start")

    def __init__(self, header: Mapping[str, Any], data: bytes, start: int) -> None:
        self.header, self.data, self.start = dict(header), data, start
        count = int(header["count"])
        offset = start + count * _ENTRY.size
        if count < 0 or offset > len(data):
            raise ValueError(f"{count} entries do not fit into {len(data) - start} bytes")
        self._entries = list(_ENTRY.iter_unpack(data[start:offset]))
        self._shapes = decode_shapes(header["shapes"])
        internals, values = header["internals"], header["values"]
        self._keys = [LocationKey(internals[entry[0]], values[entry[1]]) for entry in self._entries]
        self._starts = [offset]
        for entry in self._entries:
            offset += entry[3]
            self._starts.append(offset)
        if offset != len(data):
            raise ValueError(f"locations end at byte {offset} of {len(data)}")

    @property
    def keys(self) -> Sequence[LocationKey]:
        return self._keys

    def __len__(self) -> int:
        return len(self._entries)

    @overload
    def __getitem__(self, index: int) -> LocationReport: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[LocationReport]: ...
    def __getitem__(self, index: int | slice) -> LocationReport | Sequence[LocationReport]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        _, _, shape, _, base_epoch, base_rows, rows = self._entries[index]
        index %= len(self)
        names, columns = self._shapes[shape]
        data, offset, end = self.data, self._starts[index], self._starts[index + 1]
        length = Files.length(len(names), data, offset)
        files = Files(names, data[offset : offset + length])
        offset += length
        groups = []
        for group in columns:
            (length,) = _LENGTH.unpack_from(data, offset)
            offset += _LENGTH.size + length
            groups.append((group, (data[offset - length : offset],)))
        if offset != end:
            raise ValueError(f"location ends at byte {offset}, not {end}")
        return LocationReport(self._keys[index], base_epoch, base_rows, rows, files, AppendedStats(tuple(groups)))

    def __iter__(self) -> Iterator[LocationReport]:
        return (self[index] for index in range(len(self)))

    def __eq__(self, other: object) -> bool:
        return list(self) == list(other) if isinstance(other, Sequence) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(list(self))
