"""Text of a string column as bytes, in the six charsets, one array at a time.

A value is the text in the column's charset; the empty string is the single byte 00; null has no bytes. So
a text whose bytes would be just 00 cannot be stored. Characters are never replaced.
Where the charset is not UTF-8, one call of Python's codec converts all values, and numpy finds the new ends.

An end is an offset of 8 bytes, in a ``.sym`` file or a blob column's ``.dat``. Value *i* is the bytes from end *i* - 1
(0 for the first) up to end *i*: in entry order, without gaps. Blob columns have them in ``.dat``, and the values in
``.bytes``. Texts that have the same bytes in a file as in Arrow are looked at once, and not copied.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sparkhaven.store.errors import CorruptFileError, SchemaMismatchError, UnsupportedVersionError
from sparkhaven.store.format.column.prefix import LITTLE, ByteOrder
from sparkhaven.store.native.checked_columns import check_texts
from sparkhaven.store.types.codings.byte_array import binary_parts
from sparkhaven.store.types.codings.coding import Ends, Mask, Octets, validity

ValuePosition = Callable[[int], str]  # from the index of a value to its position, for errors


def row_position(index: int) -> str:
    """The default position of a value in errors: its row in the array."""
    return f"row {index}"


WIDTH = 8

MAX_SMALL = 2**31 - 1
_BOM_BIG, _BOM_LITTLE = (0xFE, 0xFF), (0xFF, 0xFE)


@dataclass(frozen=True, slots=True)
class Charset:
    """One charset: its code in a ``.tbl``, Python's codec, bytes per unit, and whether values start with a BOM.

    ``lead`` is the first UTF-8 byte that only characters outside the charset contain; 256 = none.
    """

    name: str
    code: int
    codec: str
    unit: int
    lead: int = 256
    bom: bool = False


ROWS = (
    Charset("ISO_8859_1", 1, "latin-1", 1, lead=0xC4),
    Charset("UTF_8", 2, "utf-8", 1),
    Charset("US_ASCII", 4, "ascii", 1, lead=0x80),
    Charset("UTF_16", 8, "utf-16-be", 2, bom=True),
    Charset("UTF_16BE", 16, "utf-16-be", 2),
    Charset("UTF_16LE", 32, "utf-16-le", 2),
)
BY_NAME = {row.name: row for row in ROWS}
BY_CODE = {row.code: row for row in ROWS}


def charset(name: str, where: object = None) -> Charset:
    """The row of a charset; an unknown name is an UnsupportedVersionError."""
    row = BY_NAME.get(name)
    if row is None:
        raise UnsupportedVersionError("unknown charset", where=where, expected=", ".join(BY_NAME), found=name)
    return row


def _sums(flags: npt.NDArray[Any], ends: Ends) -> Ends:
    """Sum of ``flags`` (one per byte or unit from the first end on) up to each end."""
    total = np.zeros(len(flags) + 1, np.int64)
    np.cumsum(flags, out=total[1:])
    sums: Ends = total[ends - ends[0]]
    return sums


def unencodable(array: pa.Array, encoding: str) -> Mask:
    """Mask of the values (string or large_string) that cannot be stored in a charset; nulls are not in it."""
    row = charset(encoding)
    ends, data = binary_parts(array)
    lengths = np.diff(ends)
    bad = np.zeros(len(array), np.bool_)
    if row.unit == 1:
        single = np.flatnonzero(lengths == 1)
        bad[single] = data[ends[:-1][single]] == 0
    if row.lead < 256:
        used = data[ends[0] : ends[-1]]
        outside = used >= row.lead
        if outside.any():
            bad |= np.diff(_sums(outside, ends)) > 0
    if array.null_count:
        bad &= ~np.asarray(array.is_null())
    return bad


def _refuse(array: pa.Array, bad: Mask, encoding: str, locate: ValuePosition) -> SchemaMismatchError:
    row = int(np.flatnonzero(bad)[0])
    text = array[row].as_py()
    return SchemaMismatchError(
        "the charset of the column lacks characters of a text",
        where=locate(row),
        expected=f"text that {encoding} can encode" if text != "\0" else "text other than the single character U+0000",
        found=ascii(text[:80]),
        hint="reject the row, or declare another encoding for the column",
    )


def encode_values(array: pa.Array, encoding: str, locate: ValuePosition) -> tuple[Ends, memoryview]:
    """Ends of the values, counted from 0, and their bytes.

    ``array`` is string or large_string. A value that cannot be stored is a SchemaMismatchError at ``locate(index)``.
    """
    row = charset(encoding)
    ends, data = binary_parts(array)
    if row.unit == 1 and not array.null_count and _is_stored_as_it_is(ends, data, row):
        return ends[1:] - ends[0], data[ends[0] : ends[-1]].data
    bad = unencodable(array, encoding)
    if bad.any():
        raise _refuse(array, bad, encoding, locate)
    lengths = np.diff(ends)
    empty = lengths == 0
    if array.null_count:
        nulls = np.asarray(array.is_null())
        empty &= ~nulls
        if lengths[nulls].any():  # Arrow lets a null cover bytes
            array = pc.fill_null(array, "")
            ends, data = binary_parts(array)
            lengths = np.diff(ends)
    start, stop = int(ends[0]), int(ends[-1])
    if row.codec == "utf-8" or not (data[start:stop] >= 0x80).any():
        text, rel = data[start:stop], ends - start
        if row.unit == 2:
            text, rel = _widen(text, row), rel * 2
    else:
        text, rel = _convert(data[start:stop], ends, row)
    if row.bom:
        text, rel = _insert(text, rel, rel[:-1][np.diff(rel) > 0], _BOM_BIG, np.diff(rel) > 0)
    if empty.any():
        text, rel = _insert(text, rel, rel[:-1][empty], (0,), empty)
    return rel[1:], text.data


def _is_stored_as_it_is(ends: Ends, data: Octets, row: Charset) -> bool:
    """Whether the bytes of texts, none of which is null, are those of the charset, and none is empty or a NUL alone."""
    facts = check_texts(ends[1:], int(ends[0]), data[ends[0] :], ascii_only=row.codec != "utf-8")
    return facts is not None and not facts.empty and not facts.alone


def _widen(ascii_text: Octets, row: Charset) -> Octets:
    wide = np.zeros(2 * len(ascii_text), np.uint8)
    wide[0 if row.codec.endswith("le") else 1 :: 2] = ascii_text
    return wide


def _convert(utf8: Octets, ends: Ends, row: Charset) -> tuple[Octets, Ends]:
    """UTF-8 as another charset, with the ends moved along: each character is found by its first byte."""
    units = (utf8 & 0xC0) != 0x80
    if row.unit == 2:
        units = units.astype(np.int8) + (utf8 >= 0xF0)  # two units above U+FFFF
    text = utf8.tobytes().decode("utf-8").encode(row.codec)
    return np.frombuffer(text, np.uint8), _sums(units, ends) * row.unit


def _insert(text: Octets, rel: Ends, before: Ends, extra: tuple[int, ...], where: Mask) -> tuple[Octets, Ends]:
    """Inserts the bytes ``extra`` at positions ``before``, the starts of the values that ``where`` selects."""
    size = len(extra)
    moved = rel.copy()
    moved[1:] += np.cumsum(where) * size
    out = np.empty(len(text) + size * len(before), np.uint8)
    keep = np.ones(len(out), np.bool_)
    offsets = before + np.arange(len(before)) * size
    for position, byte in enumerate(extra):
        out[offsets + position] = byte
        keep[offsets + position] = False
    out[keep] = text
    return out, moved


def decode_values(data: pa.Buffer, ends: Ends, encoding: str, locate: ValuePosition) -> pa.Array:
    """Values from their bytes: string, or large_string from 2 GiB on; a value without bytes is null.

    ``ends`` has one more entry than there are values and starts with where the first one starts in ``data``; the
    caller has checked that they ascend within ``data``. Bytes that are not text of the charset are a
    CorruptFileError at ``locate(index)``. UTF-8 without empty strings is not copied.
    """
    row = charset(encoding)
    lengths = np.diff(ends)
    nulls = lengths == 0
    octets = np.frombuffer(data, np.uint8) if data.size else np.empty(0, np.uint8)
    single = np.flatnonzero(lengths == 1)
    empty = np.zeros(len(lengths), np.bool_)
    empty[single] = octets[ends[:-1][single]] == 0
    if empty.any() or (row.codec != "utf-8" and (row.unit == 2 or (octets[ends[0] : ends[-1]] >= 0x80).any())):
        text, ends = _drop(octets[ends[0] : ends[-1]], ends - ends[0], ends[:-1][empty] - ends[0], empty, 1)
        if row.unit == 2:
            text, ends = _from_units(text, ends, row, locate)
        elif row.codec != "utf-8":
            text, ends = _from_bytes(text, ends, row, locate)
        data = pa.py_buffer(text)
    return _array(data, ends, nulls, locate, encoding)


def _drop(text: Octets, rel: Ends, offsets: Ends, where: Mask, size: int) -> tuple[Octets, Ends]:
    """Removes the ``size`` bytes at each of ``offsets``, the starts of the values that ``where`` selects."""
    if not len(offsets):
        return text, rel
    keep = np.ones(len(text), np.bool_)
    for position in range(size):
        keep[offsets + position] = False
    moved = rel.copy()
    moved[1:] -= np.cumsum(where) * size
    return text[keep], moved


def _invalid(index: int, encoding: str, locate: ValuePosition, fault: str) -> CorruptFileError:
    where = locate(index)
    return CorruptFileError("bytes are not text in the column's charset", where=where, expected=encoding, found=fault)


def _value_of(position: int, ends: Ends) -> int:
    return int(np.searchsorted(ends, position, side="right")) - 1


def _from_bytes(text: Octets, ends: Ends, row: Charset, locate: ValuePosition) -> tuple[Octets, Ends]:
    high = text >= 0x80
    if row.codec == "ascii" and high.any():
        offset = int(np.argmax(high))
        raise _invalid(_value_of(offset, ends), row.name, locate, f"byte {text[offset]:02x}")
    utf8 = text.tobytes().decode(row.codec).encode("utf-8")
    return np.frombuffer(utf8, np.uint8), _sums(high.astype(np.int8) + 1, ends)


def _from_units(text: Octets, ends: Ends, row: Charset, locate: ValuePosition) -> tuple[Octets, Ends]:
    odd = np.flatnonzero(np.diff(ends) % 2)
    if len(odd):
        raise _invalid(int(odd[0]), row.name, locate, "an odd number of bytes")
    units = text.view(">u2" if row.codec.endswith("be") else "<u2").astype(np.uint16)
    ends = ends // 2
    if row.bom:
        units, ends = _without_bom(units, ends)
    high, low = (units & 0xFC00) == 0xD800, (units & 0xFC00) == 0xDC00
    # a low surrogate follows a high one and nothing else does, and no value ends with a high one
    paired = np.zeros(len(units), np.bool_)
    paired[1:] = high[:-1]
    stray = low != paired
    last = ends[1:][np.diff(ends) > 0] - 1
    stray[last] |= high[last]
    if stray.any():
        index = int(np.argmax(stray))
        raise _invalid(_value_of(index, ends), row.name, locate, f"stray surrogate {units[index]:04x}")
    widths = np.full(len(units), 3, np.int8)
    widths[units < 0x800] = 2
    widths[units < 0x80] = 1
    widths[high | low] = 2
    utf8 = units.tobytes().decode("utf-16-le").encode("utf-8")
    return np.frombuffer(utf8, np.uint8), _sums(widths, ends)


def _without_bom(units: npt.NDArray[np.uint16], ends: Ends) -> tuple[npt.NDArray[np.uint16], Ends]:
    starts, lengths = ends[:-1], np.diff(ends)
    valued = np.flatnonzero(lengths > 0)
    first = np.zeros(len(lengths), np.uint16)
    first[valued] = units[starts[valued]]
    swapped = first == 0xFFFE
    if swapped.any():
        units = np.where(np.repeat(swapped, lengths), units.byteswap(), units)
    marked = swapped | (first == 0xFEFF)
    if not marked.any():
        return units, ends
    keep = np.ones(len(units), np.bool_)
    keep[starts[marked]] = False
    moved = ends.copy()
    moved[1:] -= np.cumsum(marked)
    return units[keep], moved


def _array(data: pa.Buffer, ends: Ends, nulls: Mask, locate: ValuePosition, encoding: str) -> pa.Array:
    count = len(nulls)
    small = int(ends[-1]) <= MAX_SMALL
    offsets = ends.astype(np.int32) if small else ends
    bitmap, missing = validity(nulls)
    kind = pa.string() if small else pa.large_string()
    texts = pa.Array.from_buffers(kind, count, [bitmap, pa.py_buffer(offsets), data], missing)
    try:
        texts.validate(full=True)
    except pa.ArrowInvalid:
        raw = np.frombuffer(data, np.uint8)
        for index in range(count):
            try:
                raw[ends[index] : ends[index + 1]].tobytes().decode("utf-8")
            except UnicodeDecodeError as error:
                raise _invalid(index, encoding, locate, error.reason) from None
        raise
    return texts


def encode_ends(ends: Ends, base: int) -> memoryview:
    """Ends, counted from ``base``, as bytes."""
    return np.ascontiguousarray(ends + base, "<i8").view(np.uint8).data


@dataclass(frozen=True, slots=True)
class StoredEnds:
    """The ends of consecutive values as a file has them. ``before``: the end of the value before the first one.

    ``where`` names the file, ``first`` is the number of the first end in it.
    """

    data: pa.Buffer
    before: int
    order: ByteOrder
    where: object
    first: int = 0

    def decode(self, limit: int) -> Ends:
        """``before`` and the ends after it, in native order.

        One below its predecessor or above ``limit``, the committed bytes of the file pointed into, is a
        CorruptFileError.
        """
        kind = "<i8" if self.order == LITTLE else ">i8"
        stored = np.frombuffer(self.data, kind) if self.data.size else np.empty(0, np.int64)
        ends = np.empty(len(stored) + 1, np.int64)
        ends[0] = self.before
        ends[1:] = stored
        bad = (ends[1:] < ends[:-1]) | (ends[1:] > limit)
        if not 0 <= self.before <= limit or bad.any():
            index = int(np.argmax(bad)) if bad.any() else -1
            number = self.first + index
            raise CorruptFileError(
                "end of a value is negative, before its predecessor or beyond the committed bytes",
                where=f"{self.where}, entry {number}, byte {number * WIDTH} of the data",
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


def decode_blobs(ends: StoredEnds, data: pa.Buffer, encoding: str) -> pa.Array:
    """The texts of consecutive rows: string, or large_string from 2 GiB on. ``data``: the committed ``.bytes``.

    Ends out of order or beyond them, and bytes that are not text in the charset, are a CorruptFileError with the row.
    """
    count = ends.data.size // WIDTH
    texts = plain_texts(ends.data, data, ends.before, encoding) if count and ends.order == LITTLE else None
    if texts is not None:
        return texts
    table = ends.decode(data.size)
    base, stop = int(table[0]), int(table[-1])
    return decode_values(
        data.slice(base, stop - base), table - base, encoding, lambda index: f"{ends.where}, row {ends.first + index}"
    )
