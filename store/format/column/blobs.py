"""Blob columns of text: the end offset of each row's value in ``.dat``, the values in ``.bytes``."""

from __future__ import annotations

import pyarrow as pa

from sparkhaven.store.format.column.charset import ValuePosition, decode_values, encode_values, row_position
from sparkhaven.store.format.column.plain_texts import WIDTH, decode_ends, encode_ends, plain_texts
from sparkhaven.store.format.column.prefix import LITTLE, ByteOrder


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
