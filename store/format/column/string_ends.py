"""End offsets: 8 bytes per value, in a ``.sym`` file or a blob column's ``.dat``.

Value *i* is the bytes from end *i* - 1 (0 for the first) up to end *i*: in entry order, without gaps.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from sparkhaven.store.errors import CorruptFileError
from sparkhaven.store.format.column.charset import Ends
from sparkhaven.store.format.column.prefix import LITTLE, ByteOrder
from sparkhaven.store.format.java.object_reader import HINT

WIDTH = 8


def encode_ends(ends: Ends, base: int) -> memoryview:
    """Ends, counted from ``base``, as bytes."""
    return np.ascontiguousarray(ends + base, "<i8").view(np.uint8).data


def decode_ends(data: pa.Buffer, first: int, limit: int, order: ByteOrder, where: object, *, entry: int = 0) -> Ends:
    """``first`` and the ends after it, in native order.

    ``entry`` is the number of the first end in its file. One below its predecessor or above ``limit``, the
    committed bytes of the file pointed into, is a CorruptFileError.
    """
    stored = np.frombuffer(data, "<i8" if order == LITTLE else ">i8") if data.size else np.empty(0, np.int64)
    ends = np.empty(len(stored) + 1, np.int64)
    ends[0] = first
    ends[1:] = stored
    bad = (ends[1:] < ends[:-1]) | (ends[1:] > limit)
    if first < 0 or first > limit or bad.any():
        index = int(np.argmax(bad)) if bad.any() else -1
        raise CorruptFileError(
            "end of a value is negative, before its predecessor or beyond the committed bytes",
            where=f"{where}, entry {entry + index}, byte {(entry + index) * WIDTH} of the data",
            expected=f"{ends[index] if index >= 0 else 0} to {limit}",
            found=int(ends[index + 1]),
            hint=HINT,
        )
    return ends
