"""``table.size`` of many locations with the same files: a template is encoded once, then filled with numbers, or read.

The 8-byte numbers of a record have fixed offsets, since nothing else in it depends on their values.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import accumulate
from struct import Struct

from sparkhaven.store.format.table.table_size import TableSize, encode

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
