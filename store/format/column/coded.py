"""Columns whose values a codec makes bytes of (``store.types.codings``): what to append, and what was read.

A value of one width lies in ``.dat`` as the codec wrote it, whatever the byte order of the file. One of any length lies
in ``.bytes``, and ``.dat`` has the end offset of each row, as of texts; no bytes are null.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from sparkhaven.store.errors import CorruptFileError, SchemaMismatchError
from sparkhaven.store.format.column.charset import StoredEnds, ValuePosition, encode_ends, row_position
from sparkhaven.store.native.codings import decode_blobs, decode_entries, encode_blobs, encode_entries
from sparkhaven.store.types.codings.byte_array import ByteArrays
from sparkhaven.store.types.codings.coding import BlobCoding, Coding, Ends, FixedCoding, Octets, UnfitError

FEW = 256  # values that are looked at one by one where the core is in doubt about one of them


def encode_coded(array: pa.Array, coding: FixedCoding, *, locate: ValuePosition = row_position) -> memoryview:
    """The ``.dat`` entries of an array. A value that cannot be stored is a SchemaMismatchError at ``locate(index)``."""
    _require_type(array, coding)
    compiled = encode_entries(array, coding)
    if compiled is not None:
        return compiled.reshape(-1).data
    raise _refusal(array, coding, _first_refused(array, coding), locate)


def encode_coded_blobs(
    array: pa.Array, coding: BlobCoding, base_end: int, *, locate: ValuePosition = row_position
) -> tuple[memoryview, memoryview]:
    """What to append to ``.dat`` and ``.bytes``, whose committed length is ``base_end``; raises as ``encode_coded``."""
    _require_type(array, coding)
    compiled = encode_blobs(array, coding)
    if compiled is not None:
        return encode_ends(compiled[0], base_end), compiled[1].data
    ends, data, bad = coding.encode(array)
    if bad is not None:
        raise _refusal(array, coding, int(np.argmax(bad)), locate)
    return encode_ends(ends, base_end), np.ascontiguousarray(data).data


def decode_coded(entries: pa.Buffer, coding: FixedCoding, where: object, *, first_row: int = 0) -> pa.Array:
    """The values of ``.dat`` entries. Bytes that stand for no value are a CorruptFileError with the row."""
    octets = np.frombuffer(entries, np.uint8) if entries.size else np.empty(0, np.uint8)
    octets = octets.reshape(-1, coding.width)
    array, bad = decoded_entries(octets, coding)
    if bad is not None:
        _corrupt(coding, bad, first_row, where, octets[bad])
    return array


def decoded_entries(octets: Octets, coding: FixedCoding) -> tuple[pa.Array, int | None]:
    """The values of entries of shape (rows, width), and the first one whose bytes stand for none."""
    values = decode_entries(octets, coding)
    if values is not None:
        return values, None
    if len(octets) == 1:
        try:
            return pa.array([coding.rare(octets.tobytes())], pa.int32()).view(coding.arrow), None
        except UnfitError:
            return pa.nulls(1, coding.arrow), 0
    half = len(octets) // 2
    first, bad = decoded_entries(octets[:half], coding)
    if bad is not None:
        return first, bad
    last, bad = decoded_entries(octets[half:], coding)
    return pa.concat_arrays([first, last]), None if bad is None else half + bad


def decode_coded_blobs(ends: StoredEnds, data: pa.Buffer, coding: BlobCoding) -> pa.Array:
    """The values of consecutive rows; ``data``: all of ``.bytes``.

    Ends out of order or beyond the bytes, and bytes that stand for no value, are a CorruptFileError with the row.
    """
    table = ends.decode(data.size)
    base, stop = int(table[0]), int(table[-1])
    octets = data.slice(base, stop - base)
    array, bad = blob_values(table - base, octets, coding)
    if bad is not None:
        value = np.frombuffer(octets, np.uint8)[table[bad] - base : table[bad + 1] - base]
        _corrupt(coding, bad, ends.first, ends.where, value)
    return array


def blob_values(ends: Ends, data: pa.Buffer, coding: BlobCoding) -> tuple[pa.Array, int | None]:
    """The values by their ranges in ``data``, counted from 0, and the first one whose bytes stand for none."""
    compiled = decode_blobs(ends, data, coding)
    if compiled is not None:
        return compiled, None
    rows = len(ends) - 1
    if rows > FEW and data.size < 1 << 31 and type(coding) is not ByteArrays:  # the core takes most of the others
        half = rows // 2
        border = int(ends[half])
        first, bad = blob_values(ends[: half + 1], data.slice(0, border), coding)
        if bad is not None:
            return first, bad
        last, bad = blob_values(ends[half:] - border, data.slice(border), coding)
        return pa.concat_arrays([first, last]), None if bad is None else half + bad
    array, wrong = coding.decode(ends, data)
    return array, None if wrong is None else int(np.argmax(wrong))


def _require_type(array: pa.Array, coding: Coding) -> None:
    kind = array.type
    if kind != coding.arrow and not (pa.types.is_large_binary(kind) and pa.types.is_binary(coding.arrow)):
        raise SchemaMismatchError(
            "type of the array differs from the column's", expected=coding.arrow, found=kind, hint="cast it before"
        )


def _first_refused(array: pa.Array, coding: FixedCoding) -> int:
    """The first row that the core does not take, of an array that has one."""
    low, high = 0, len(array)
    while high - low > 1:
        middle = (low + high) // 2
        if encode_entries(array.slice(low, middle - low), coding) is None:
            high = middle
        else:
            low = middle
    return low


def _refusal(array: pa.Array, coding: Coding, row: int, locate: ValuePosition) -> SchemaMismatchError:
    return SchemaMismatchError(
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
