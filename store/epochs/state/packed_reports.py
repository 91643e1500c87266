"""The locations of a commit record, packed behind its JSON. Little-endian.

The JSON names what several locations have in common: ``reports`` = {``count``, ``internals``, ``values``,
``shapes``: [[file names, [column names of a group, ...]], ...]}. After the line feed that ends it come ``count``
entries of 40 bytes: u4 place of the internal partition, u4 place of the value, u4 place of the shape, u4 length,
i8 base epoch, i8 base rows, i8 rows. Then for each as many bytes as its length says: files
(``store.epochs.state.packed_location``), and for each group u4 length and a row of statistics
(``store.epochs.state.statistics``).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, overload

from sparkhaven.store.epochs.state.log_values import LocationReport
from sparkhaven.store.epochs.state.packed_location import AppendedStats, Files, Names, shared
from sparkhaven.store.layout import LocationKey

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
