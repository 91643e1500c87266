"""Sums of hashes by the compiled core; None where there is none. ``store.digest.column_digest`` says what is hashed.

To ``hashes``, one word a row, the low word of the hash of each value is added to that of its row; null adds nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sparkhaven.store.native.abi import ENTRY_BOOLEAN
from sparkhaven.store.native.buffers import ENTRY_KINDS, TextBuffers, address
from sparkhaven.store.native.library import core

Hashes = npt.NDArray[np.uint64]
Sum = tuple[int, int]  # of the hashes of all values, below 2^128; number of nulls, which are not in it


@dataclass(frozen=True, slots=True)
class FixedEntries:
    """Little-endian entries as they lie in a file; ``null`` is the entry that means null."""

    prefix: bytes
    null: float
    dtype: np.dtype[Any]
    boolean: bool

    @property
    def prefix_bits(self) -> int:
        return int.from_bytes(self.prefix, "little")

    @property
    def null_bits(self) -> int:
        return int(np.array(self.null, self.dtype).view(f"u{self.dtype.itemsize}"))

    @property
    def kind(self) -> int:
        return ENTRY_BOOLEAN if self.boolean else ENTRY_KINDS[f"{self.dtype.kind}{self.dtype.itemsize}"]


def fixed_sum(
    prefix: bytes, entries: npt.NDArray[Any], null: float, *, boolean: bool, hashes: Hashes | None = None
) -> Sum | None:
    """Of the values of ``FixedEntries``."""
    library = core()
    if library is None:
        return None
    entries = np.ascontiguousarray(entries)
    facts, total = FixedEntries(prefix, null, entries.dtype, boolean), np.zeros(2, np.uint64)
    arguments = facts.prefix_bits, facts.kind, address(entries), len(entries), facts.null_bits
    nulls = library.sh_digest_fixed(*arguments, rows_address(hashes, len(entries)), address(total))
    return whole_sum(total), nulls


def coded_sum(prefix: bytes, entries: npt.NDArray[np.uint8], null: bytes, hashes: Hashes | None = None) -> Sum | None:
    """Of entries of a codec, of shape (rows, width), as they lie in a file; ``null``: the entry for null, or none."""
    library = core()
    if library is None:
        return None
    total, none = np.zeros(2, np.uint64), np.frombuffer(null, np.uint8)
    nulls = library.sh_digest_coded(
        int.from_bytes(prefix, "little"),
        address(entries),
        *entries.shape,
        address(none) if null else None,
        rows_address(hashes, len(entries)),
        address(total),
    )
    return whole_sum(total), nulls


def text_sum(
    prefix: bytes, texts: pa.Array, counts: npt.NDArray[np.int64] | None = None, hashes: Hashes | None = None
) -> Sum | None:
    """Of texts, each as often as ``counts`` says, else once."""
    library = core()
    if library is None or not len(texts):
        return None
    if counts is not None:
        counts = np.ascontiguousarray(counts, np.int64)
        if len(counts) != len(texts):
            raise ValueError(f"{len(counts)} counts for {len(texts)} texts")
    total = np.zeros(2, np.uint64)
    nulls = library.sh_digest_texts(
        int.from_bytes(prefix, "little"),
        *TextBuffers.of(texts).arguments,
        None if counts is None else address(counts),
        rows_address(hashes, len(texts)),
        address(total),
    )
    if nulls < 0:
        raise ValueError("an Arrow array has offsets outside of its data")
    return whole_sum(total), nulls


def value_sum(prefix: bytes, values: pa.Array, hashes: Hashes | None = None) -> Sum | None:
    """Of large binary values as they lie in files, in UTF-8; None also where one is no text."""
    library = core()
    if library is None:
        return None
    buffers, total = TextBuffers.of(values), np.zeros(2, np.uint64)
    arguments = buffers.ends + 8 * buffers.first, buffers.count, buffers.data, buffers.size
    rows = rows_address(hashes, len(values))
    nulls = library.sh_digest_values(int.from_bytes(prefix, "little"), *arguments, rows, address(total))
    return None if nulls < 0 else (whole_sum(total), nulls)


def whole_sum(total: npt.NDArray[np.uint64]) -> int:
    return int(total[1]) << 64 | int(total[0])


def add_symbols(ids: npt.NDArray[np.int32], table: Hashes, hashes: Hashes) -> bool:
    """Adds the hash of each row's symbol, by id; an id that is none of the table is null. False: there is no core."""
    library = core()
    if library is None or not ids.flags.c_contiguous:
        return False
    library.sh_add_symbols(address(ids), len(ids), address(table), len(table), rows_address(hashes, len(ids)))
    return True


def rows_address(hashes: Hashes | None, rows: int) -> int | None:
    """ValueError: it has not one word a row."""
    if hashes is None:
        return None
    if len(hashes) != rows or not hashes.flags.c_contiguous:
        raise ValueError(f"{len(hashes)} hashes for {rows} rows")
    return address(hashes)
