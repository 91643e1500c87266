"""Texts that have the same bytes in a file as in Arrow: they are looked at once, and not copied."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from sparkhaven.store.format.column.charset import charset
from sparkhaven.store.format.column.string_ends import WIDTH
from sparkhaven.store.native.checked_columns import check_texts


def plain_texts(ends: pa.Buffer, data: pa.Buffer, start_end: int, encoding: str) -> pa.Array | None:
    """Texts that lie in the file as Arrow has them, whose bytes are not copied; None: others, or in doubt.

    ``ends``: little endian, of each text in ``data``, of which the first begins at ``start_end``. Those without bytes
    are null.
    """
    row = charset(encoding)
    if row.unit > 1 or not 0 <= start_end <= data.size:
        return None
    count, octets = ends.size // WIDTH, data.slice(start_end)
    offsets = pa.allocate_buffer(4 * (count + 1))
    ends_out = np.frombuffer(offsets, np.int32)
    facts = check_texts(
        np.frombuffer(ends, np.int64),
        start_end,
        np.frombuffer(octets, np.uint8) if octets.size else np.empty(0, np.uint8),
        ascii_only=row.codec != "utf-8",
        out=ends_out,
    )
    if facts is None or facts.alone:
        return None
    bitmap = pa.py_buffer(np.packbits(ends_out[1:] != ends_out[:-1], bitorder="little")) if facts.empty else None
    return pa.Array.from_buffers(pa.string(), count, [bitmap, offsets, octets.slice(0, facts.stop)], facts.empty)
