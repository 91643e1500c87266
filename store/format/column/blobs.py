"""Blob columns of text: the end offset of each row's value in ``.dat``, the values in ``.bytes``."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from sparkhaven.store.format.column.charset import ValuePosition, charset, decode_values, encode_values, row_position
from sparkhaven.store.format.column.prefix import LITTLE, ByteOrder
from sparkhaven.store.format.column.string_ends import WIDTH, decode_ends, encode_ends
from sparkhaven.store.native.checked_columns import check_texts


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
    texts = _plain(ends, data, start_end, encoding) if count and order == LITTLE else None
    if texts is not None:
        return texts
    table = decode_ends(ends, start_end, data.size, order, where, entry=first_row)
    base, stop = int(table[0]), int(table[-1])
    return decode_values(
        data.slice(base, stop - base), table - base, encoding, lambda index: f"{where}, row {first_row + index}"
    )


def _plain(ends: pa.Buffer, data: pa.Buffer, start_end: int, encoding: str) -> pa.Array | None:
    """Texts that lie in the file as Arrow has them, whose bytes are not copied; None: others, or in doubt."""
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
