"""Columns whose values a codec makes bytes of (``store.types.codings``): what to append, and what was read.

A value of one width lies in ``.dat`` as the codec wrote it, whatever the byte order of the file. One of any length lies
in ``.bytes``, and ``.dat`` has the end offset of each row, as of texts; no bytes are null.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from sparkhaven.store.errors import CorruptFileError, SchemaMismatchError
from sparkhaven.store.format.column.charset import Mask, ValuePosition, row_position
from sparkhaven.store.format.column.plain_texts import decode_ends, encode_ends
from sparkhaven.store.format.column.prefix import ByteOrder
from sparkhaven.store.native.blobs import decode_blobs, encode_blobs
from sparkhaven.store.native.entries import decode_entries, encode_entries
from sparkhaven.store.types.codings.coding import BlobCoding, Coding, FixedCoding, Octets, null_entries


def encode_coded(array: pa.Array, coding: FixedCoding, *, locate: ValuePosition = row_position) -> memoryview:
    """The ``.dat`` entries of an array. A value that cannot be stored is a SchemaMismatchError at ``locate(index)``."""
    _require_type(array, coding)
    compiled = encode_entries(array, coding)
    if compiled is not None:
        return compiled.reshape(-1).data
    entries, bad = coding.encode(array)
    _refuse(array, coding, bad, locate)
    if array.null_count and coding.null:
        entries[np.asarray(array.is_null())] = np.frombuffer(coding.null, np.uint8)
    return np.ascontiguousarray(entries).reshape(-1).data


def encode_coded_blobs(
    array: pa.Array, coding: BlobCoding, base_end: int, *, locate: ValuePosition = row_position
) -> tuple[memoryview, memoryview]:
    """What to append to ``.dat`` and ``.bytes``, whose committed length is ``base_end``; raises as ``encode_coded``."""
    _require_type(array, coding)
    compiled = encode_blobs(array, coding)
    if compiled is not None:
        return encode_ends(compiled[0], base_end), compiled[1].data
    ends, data, bad = coding.encode(array)
    _refuse(array, coding, bad, locate)
    return encode_ends(ends, base_end), np.ascontiguousarray(data).data


def decode_coded(entries: pa.Buffer, coding: FixedCoding, where: object, *, first_row: int = 0) -> pa.Array:
    """The values of ``.dat`` entries. Bytes that stand for no value are a CorruptFileError with the row."""
    octets = np.frombuffer(entries, np.uint8) if entries.size else np.empty(0, np.uint8)
    octets = octets.reshape(-1, coding.width)
    compiled = decode_entries(octets, coding)
    if compiled is not None:
        return compiled
    null = null_entries(octets, coding)
    array, bad = coding.decode(octets, null if null is not None and null.any() else None)
    if bad is not None:
        _corrupt(coding, int(np.argmax(bad)), first_row, where, octets[int(np.argmax(bad))])
    return array


def decode_coded_blobs(
    ends: pa.Buffer,
    data: pa.Buffer,
    start_end: int,
    coding: BlobCoding,
    order: ByteOrder,
    where: object,
    *,
    first_row: int = 0,
) -> pa.Array:
    """The values of consecutive rows; ``start_end`` is the end of the row before, ``data`` all of ``.bytes``.

    Ends out of order or beyond the bytes, and bytes that stand for no value, are a CorruptFileError with the row.
    """
    table = decode_ends(ends, start_end, data.size, order, where, entry=first_row)
    base, stop = int(table[0]), int(table[-1])
    octets = data.slice(base, stop - base)
    compiled = decode_blobs(table - base, octets, coding)
    if compiled is not None:
        return compiled
    array, bad = coding.decode(table - base, octets)
    if bad is not None:
        index = int(np.argmax(bad))
        value = np.frombuffer(octets, np.uint8)[table[index] - base : table[index + 1] - base]
        _corrupt(coding, index, first_row, where, value)
    return array


def _require_type(array: pa.Array, coding: Coding) -> None:
    kind = array.type
    if kind != coding.arrow and not (pa.types.is_large_binary(kind) and pa.types.is_binary(coding.arrow)):
        raise SchemaMismatchError(
            "type of the array differs from the column's", expected=coding.arrow, found=kind, hint="cast it before"
        )


def _refuse(array: pa.Array, coding: Coding, bad: Mask | None, locate: ValuePosition) -> None:
    if bad is None:
        return
    row = int(np.argmax(bad))
    raise SchemaMismatchError(
        "value cannot be stored in the column",
        where=locate(row),
        expected=coding.domain,
        found=shown(array.slice(row, 1))[:80],
        hint="reject the row, or declare a codec that can hold it",
    )


def shown(one: pa.Array) -> str:
    """The one value of an array, for people: also a date that Python has no value for."""
    kinds = pa.types
    if kinds.is_nested(one.type) or kinds.is_binary(one.type) or kinds.is_large_binary(one.type):
        return str(one[0].as_py())
    return str(one.cast(pa.string())[0].as_py())


def _corrupt(coding: Coding, index: int, first_row: int, where: object, value: Octets) -> None:
    raise CorruptFileError(
        "bytes stand for no value of the column's codec",
        where=f"{where}, row {first_row + index}",
        expected=coding.domain,
        found=value[:40].tobytes().hex(" "),
    )
