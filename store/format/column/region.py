"""The committed bytes of a column's files, and those of some of its rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sparkhaven.store.errors import CorruptFileError
from sparkhaven.store.format.column.prefix import LITTLE, ByteOrder
from sparkhaven.store.types.datatypes import INT_NULL
from sparkhaven.store.types.model import Column, Storage
from sparkhaven.store.types.row_ranges import Positions, RowRanges

DAT, SYM, SYM_BYTES, BYTES = ".dat", ".sym", ".sym.bytes", ".bytes"
MANY_SYMBOLS = 1 << 12  # of a larger table, a short read takes only the symbols that its rows have
SHORT = 8  # symbols for each row that make a read short


@dataclass(frozen=True, slots=True)
class Region:
    """The committed bytes of a column's files; ``where`` names the ``.dat`` file, companions are by suffix."""

    column: Column
    where: str
    order: ByteOrder
    rows: int
    dat: pa.Buffer
    companions: Mapping[str, pa.Buffer]

    @property
    def files(self) -> dict[str, pa.Buffer]:
        """The bytes by file name."""
        name = self.column.name
        return {name + DAT: self.dat, **{name + suffix: data for suffix, data in self.companions.items()}}

    def companion_path(self, suffix: str) -> str:
        """Path of a companion file."""
        return self.where.removesuffix(DAT) + suffix

    def entries(self, start: int, stop: int) -> pa.Buffer:
        """The ``.dat`` entries of rows ``[start, stop)``."""
        width = self.column.width
        return self.dat.slice(start * width, (stop - start) * width)

    def many_symbols(self, rows: int) -> bool:
        """Whether the symbols of so many rows are few of the table."""
        count = self.companions[SYM].size // 8 if SYM in self.companions else 0
        return count > MANY_SYMBOLS and count > SHORT * rows

    def chosen(self, rows: RowRanges) -> Region:
        """This column with these rows only; of a large symbol table with no more symbols than they have.

        CorruptFileError, without the row: a value lies outside of the bytes, or a symbol outside of its table.
        """
        count, order = rows.rows, "<" if self.order == LITTLE else ">"
        if self.column.storage is Storage.BLOB:
            ends, data = _values(self.dat, self.companions[BYTES], rows.positions, f"{order}i8", self.where)
            return replace(self, rows=count, dat=ends, companions={BYTES: data})
        width = self.column.width
        entries = self.entries(rows.start, rows.stop)
        if len(rows) > 1:
            kind = f"u{width}" if width in (1, 2, 4, 8) else f"V{width}"
            entries = pa.py_buffer(np.frombuffer(entries, kind)[rows.positions - rows.start])
        if self.column.storage is not Storage.SYMBOL or not self.many_symbols(count):
            return replace(self, rows=count, dat=entries)
        ids, symbols = np.frombuffer(entries, f"{order}i4"), self.companions[SYM]
        used, numbers = np.unique(ids, return_inverse=True)
        null = 1 if used[0] == INT_NULL else 0
        used = used[null:].astype(np.int64)
        if len(used) and not (used[0] >= 0 and used[-1] < symbols.size // 8):
            raise _damaged(self.where)
        picked = _values(symbols, self.companions[SYM_BYTES], used, f"{order}i8", self.companion_path(SYM))
        numbers = np.where(ids == INT_NULL, INT_NULL, numbers - null).astype(f"{order}i4")
        table = dict(zip((SYM, SYM_BYTES), picked, strict=True))
        return replace(self, rows=count, dat=pa.py_buffer(numbers), companions=table)


def _values(ends: pa.Buffer, data: pa.Buffer, numbers: Positions, kind: str, where: str) -> tuple[pa.Buffer, pa.Buffer]:
    """Ends and bytes of the values with these numbers, which ascend."""
    stored: npt.NDArray[np.int64] = np.frombuffer(ends, kind) if ends.size else np.empty(0, kind)
    bounds = np.empty((len(numbers), 2), np.int64)
    bounds[:, 0] = np.where(numbers > 0, stored[np.maximum(numbers - 1, 0)], 0)
    bounds[:, 1] = stored[numbers]
    edges = bounds.reshape(-1)
    if len(edges) and (edges[0] < 0 or edges[-1] > data.size or bool((edges[1:] < edges[:-1]).any())):
        raise _damaged(where)
    if not len(numbers):
        return pa.py_buffer(b""), pa.py_buffer(b"")
    # every other one of these texts is a value, the others lie between them
    texts = pa.Array.from_buffers(pa.large_binary(), len(edges) - 1, [None, pa.py_buffer(edges), data])
    picked = pc.take(texts, pa.array(np.arange(0, len(edges) - 1, 2)))
    _, offsets, octets = picked.buffers()
    table = np.frombuffer(offsets, np.int64, len(picked) + 1, 8 * picked.offset)
    octets = pa.py_buffer(b"") if octets is None else octets.slice(int(table[0]), int(table[-1] - table[0]))
    return pa.py_buffer((table[1:] - table[0]).astype(kind)), octets


def _damaged(where: str) -> CorruptFileError:
    return CorruptFileError(
        "rows point outside of their values", where=where, expected="entries of the column", found="others"
    )
