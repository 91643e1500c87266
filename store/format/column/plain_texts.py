"""Ends of values, and texts that have the same bytes in a file as in Arrow: looked at once, and not copied.

An end is an offset of 8 bytes, in a ``.sym`` file or a blob column's ``.dat``. Value *i* is the bytes from end *i* - 1
(0 for the first) up to end *i*: in entry order, without gaps. Blob columns have them in ``.dat``, and the values in
``.bytes``.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from sparkhaven.store.errors import CorruptFileError
from sparkhaven.store.format.column.charset import (
    ValuePosition,
    charset,
    decode_values,
    encode_values,
    row_position,
)
from sparkhaven.store.format.column.prefix import LITTLE, ByteOrder
from sparkhaven.store.native.checked_columns import check_texts
from sparkhaven.store.types.codings.coding import Ends

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
        )
    return ends


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


def encode_blobs(
    array: pa.Array, encoding: str, base_end: int, *, locate: ValuePosition = row_position
) -> tuple[memoryview, memoryview]:
    """What to append to ``.dat`` and ``.bytes`` for a string or large_string array.

    ``base_end`` is the committed length of ``.bytes``. A value that cannot be stored is a SchemaMismatchError at
    ``locate(index)``.
    """
    ends, data = encode_values(array, encoding, locate)
    return encode_ends(ends, base_end), data


def decode_blobs(
    ends: pa.Buffer,
    data: pa.Buffer,
    start_end: int,
    encoding: str,
    order: ByteOrder,
    where: object,
    *,
    first_row: int = 0,
) -> pa.Array:
    """The texts of consecutive rows: string, or large_string from 2 GiB on.

    ``start_end`` is the end of the row before, ``data`` the committed bytes of ``.bytes``. Ends out of order or
    beyond them, and bytes that are not text in the charset, are a CorruptFileError with the row.
    """
    count = ends.size // WIDTH
    texts = plain_texts(ends, data, start_end, encoding) if count and order == LITTLE else None
    if texts is not None:
        return texts
    table = decode_ends(ends, start_end, data.size, order, where, entry=first_row)
    base, stop = int(table[0]), int(table[-1])
    return decode_values(
        data.slice(base, stop - base), table - base, encoding, lambda index: f"{where}, row {first_row + index}"
    )
