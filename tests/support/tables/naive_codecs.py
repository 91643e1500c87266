"""Decoders of values with a codec, in plain Python: they know the format reference, and nothing of ours.

A decoder takes the bytes of one value, and gives it in the form of Arrow's Python values. Dates are days since 1970,
times nanoseconds of the day, numbers without bounds plain texts.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from datetime import date
from decimal import Context, Decimal
from pathlib import Path
from typing import Any

from tests.support.tables.naive_reader import PREFIX
from tests.support.tables.naive_rowset import naive_ranges

Decoder = Callable[[bytes], Any]
FOUR_CENTURIES = 146_097  # days
SECOND = 1_000_000_000
ELEMENTS: dict[str, tuple[str, Any]] = {  # by the letter of the class: form and null
    "Z": (">?", None),
    "C": (">H", 0xFFFF),
    "S": (">h", -(2**15)),
    "I": (">i", -(2**31)),
    "J": (">q", -(2**63)),
    "F": (">f", -3.4028234663852886e38),
    "D": (">d", -1.7976931348623157e308),
}
SERIALS = {
    "[B": "ACF317F8060854E0",
    "[S": "EF832E06E55DB0FA",
    "[I": "4DBA602676EAB2A5",
    "[J": "782004B512B17593",
    "[F": "0B9C818922E00C42",
    "[D": "3EA68C14AB635A1E",
    "[C": "B02666B0E25D84AC",
    "[Z": "578F203914B85DE2",
    "[Ljava.lang.String;": "ADD256E7E91D7B47",
    "[Ljava.time.Instant;": "7B94DF453B29B54F",
}
MAP_VALUES: dict[str, tuple[str, Any]] = {
    "Boolean": (">b", -1),
    "Double": (">d", ELEMENTS["D"][1]),
    "Float": (">f", ELEMENTS["F"][1]),
    "Int": (">i", -(2**31)),
    "Long": (">q", -(2**63)),
}


def entries(directory: Path, name: str, rows: int, decode: Decoder, width: int, null: bytes) -> list[Any]:
    """A column of one width; ``null`` is the entry that means null."""
    data = (directory / f"{name}.dat").read_bytes()[PREFIX:]
    values = [data[row * width : (row + 1) * width] for row in range(rows)]
    return [None if null and value == null else decode(value) for value in values]


def blobs(directory: Path, name: str, rows: int, decode: Decoder) -> list[Any]:
    """A column of values of any length."""
    ends = struct.unpack_from(f"<{rows}q", (directory / f"{name}.dat").read_bytes(), PREFIX)
    data = (directory / f"{name}.bytes").read_bytes()
    values = [data[start:end] for start, end in zip((0, *ends), ends, strict=False)]
    return [decode(value) if value else None for value in values]


def sets(directory: Path, name: str, rows: int) -> list[list[str]]:
    """A column of sets of texts in UTF-8, each in the order of UTF-16."""
    symbols = (directory / f"{name}.sym").read_bytes()
    ends = struct.unpack(f"<{len(symbols) // 8}q", symbols)
    data = (directory / f"{name}.sym.bytes").read_bytes()
    pieces = [data[start:end] for start, end in zip((0, *ends), ends, strict=False)]
    texts = ["" if piece == b"\0" else piece.decode() for piece in pieces]
    words = struct.unpack_from(f"<{rows}Q", (directory / f"{name}.dat").read_bytes(), PREFIX)
    members = [[text for bit, text in enumerate(texts) if word >> bit & 1] for word in words]
    return [sorted(row, key=lambda text: text.encode("utf-16-be")) for row in members]


def as_bytes(value: bytes) -> bytes:
    """Bytes that nobody looks into."""
    return value


def flagged_bytes(value: bytes) -> bytes:
    """``ByteArrayCodec`` with a length: the first byte is 0."""
    assert value[0] == 0
    return value[1:]


def compact_date(value: bytes) -> int:
    """``LocalDateCodec`` with Compact."""
    return _days(int.from_bytes(value, "big"))


def full_date(value: bytes) -> int:
    """``LocalDateCodec`` with Full."""
    return _days(int.from_bytes(value, "big") - (999_999_999 << 9))


def _days(packed: int) -> int:
    year, month, day = packed >> 9, packed >> 5 & 15, packed & 31
    shift = year == 0  # a date of Python begins with the year 1
    ordinal = date(400 if shift else year, month, day).toordinal() - FOUR_CENTURIES * shift
    return int(ordinal - date(1970, 1, 1).toordinal())


def time_of_day(digits: int) -> Decoder:
    """``LocalTimeCodec`` with so many digits."""
    bits = math.ceil(digits * math.log2(10))

    def decode(value: bytes) -> int:
        packed = int.from_bytes(value, "big")
        fraction, seconds = packed % (1 << bits), packed >> bits
        hour, minute, second = seconds >> 12, seconds >> 6 & 63, seconds & 63
        return int(((hour * 60 + minute) * 60 + second) * SECOND + fraction * 10 ** (9 - digits))

    return decode


def bounded_decimal(scale: int) -> Decoder:
    """``BigDecimalCodec`` with a precision, and ``BigIntegerCodec`` with scale 0."""

    def decode(value: bytes) -> Decimal:
        magnitude = int.from_bytes(value[1:] if value[0] else bytes(byte ^ 0xFF for byte in value[1:]), "big")
        return Decimal(magnitude if value[0] else -magnitude).scaleb(-scale, Context(prec=100))

    return decode


def free_decimal(value: bytes) -> str:
    """``BigDecimalCodec`` and ``BigIntegerCodec`` without arguments."""
    scale, unscaled = struct.unpack(">i", value[:4])[0], int.from_bytes(value[4:], "big", signed=True)
    digits = str(abs(unscaled))
    if scale <= 0:
        digits += "0" * -scale
    else:
        digits = digits.rjust(scale + 1, "0")
        digits = f"{digits[:-scale]}.{digits[-scale:]}"
    return f"-{digits}" if unscaled < 0 else digits


def row_set(value: bytes) -> bytes:
    """``RowSetCodec``: the bytes, which are those of a set."""
    naive_ranges(value)
    return value


def text_map(kind: str) -> Decoder:
    """``String…MapCodec``."""

    def decode(value: bytes) -> list[tuple[str, Any]]:
        (count,), position = struct.unpack_from(">i", value), 4
        pairs: list[tuple[str, Any]] = []
        item: Any
        for _ in range(count):
            key, position = _sized(value, position)
            if kind == "String":
                item, position = _sized(value, position)
            else:
                form, null = MAP_VALUES[kind]
                (item,), position = struct.unpack_from(form, value, position), position + struct.calcsize(form)
                item = None if item == null else bool(item) if kind == "Boolean" else item
            pairs.append((key, item))
        assert position == len(value)
        return pairs

    return decode


def _sized(value: bytes, position: int) -> tuple[str, int]:
    (length,) = struct.unpack_from(">i", value, position)
    return value[position + 4 : position + 4 + length].decode(), position + 4 + length


def array_stream(letter: str) -> Decoder:
    """A Java stream of an array of a primitive."""

    def decode(value: bytes) -> Any:
        count, position = _array_head(value, f"[{letter}")
        if letter == "B":
            assert len(value) - position == count
            return value[position:]
        form, null = ELEMENTS[letter]
        items = [item for (item,) in struct.iter_unpack(form, value[position:])]
        assert len(items) == count
        return [None if null is not None and item == null else item for item in items]

    return decode


def instant_array_stream(value: bytes) -> list[int | None]:
    """A Java stream of ``Instant[]``, as nanoseconds. An element is an object of ``java.time.Ser``."""
    count, position = _array_head(value, "[Ljava.time.Instant;")
    instants: list[int | None] = []
    handles: list[int | None] = [None, None, None]  # the class, the array, the class of elements
    description = b"r\0\x0djava.time.Ser" + bytes.fromhex("955d84ba1b2248b2 0c 0000 78 70")
    for _ in range(count):
        tag, position = value[position], position + 1
        if tag == 0x70:
            instants.append(None)
        elif tag == 0x71:
            (handle,), position = struct.unpack_from(">i", value, position), position + 4
            instants.append(handles[handle - 0x7E0000])
        else:
            assert tag == 0x73
            front = description if len(handles) == 3 else b"q\0\x7e\0\x02"
            assert value[position:].startswith(front + b"w\x0d\x02") and value[position + len(front) + 15] == 0x78
            seconds, below = struct.unpack_from(">qi", value, position + len(front) + 3)
            instants.append(seconds * 10**9 + below)
            handles.append(instants[-1])
            position += len(front) + 16
    assert position == len(value)
    return instants


def text_array_stream(value: bytes) -> list[str | None]:
    """A Java stream of ``String[]``, in which a text that is the same object is a reference."""
    count, position = _array_head(value, "[Ljava.lang.String;")
    texts: list[str | None] = []
    handles: list[str | None] = [None, None]  # the class and the array
    for _ in range(count):
        tag, position = value[position], position + 1
        if tag == 0x70:
            texts.append(None)
            continue
        if tag == 0x71:
            (handle,), position = struct.unpack_from(">i", value, position), position + 4
            texts.append(handles[handle - 0x7E0000])
            continue
        form = {0x74: ">H", 0x7C: ">q"}[tag]
        (length,), position = struct.unpack_from(form, value, position), position + struct.calcsize(form)
        texts.append(_modified(value[position : position + length]))
        handles.append(texts[-1])
        position += length
    assert position == len(value)
    return texts


def _array_head(value: bytes, name: str) -> tuple[int, int]:
    head = b"\xac\xed\x00\x05ur" + struct.pack(">H", len(name)) + name.encode()
    head += bytes.fromhex(SERIALS[name]) + bytes.fromhex("0200007870")
    assert value[: len(head)] == head
    return struct.unpack_from(">i", value, len(head))[0], len(head) + 4


def _modified(data: bytes) -> str:
    """Modified UTF-8: NUL in two bytes, characters above U+FFFF as two surrogates."""
    units = data.replace(b"\xc0\x80", b"\0").decode("utf-8", "surrogatepass")
    return units.encode("utf-16", "surrogatepass").decode("utf-16")
