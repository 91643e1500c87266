"""LocalTime: a time of the day, by ``LocalTimeCodec``.

The argument is the number of digits of the fraction of a second, 0, 3, 6 or 9 (nothing: 9). A value is
hour << (12 + f) | minute << (6 + f) | second << f | fraction, where f bits hold the fraction: 3, 4, 5 or 6 bytes.
Null is a byte 80, then zeros. Arrow has nanoseconds of the day.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sparkhaven.store.types.codings.coding import (
    Coding,
    FixedCoding,
    JavaValues,
    Mask,
    Octets,
    Unfit,
    UnfitError,
    big_endian,
    from_big_endian,
    numbers_as,
    of_values,
    plain_numbers,
    some,
)
from sparkhaven.store.types.codings.decimals import digits_of, rows_of_length

CODEC = "io.deephaven.util.codec.LocalTimeCodec"
SECOND = 1_000_000_000
DAY = 86_400 * SECOND
_UNITS = {"s": SECOND, "ms": 1_000_000, "us": 1_000, "ns": 1}
_TEXT = re.compile(r"([0-9]{2}):([0-9]{2})(?::([0-9]{2})(?:\.([0-9]{1,}))?)?\Z", re.ASCII)


def coding(codec: str, arguments: str, width: int | None) -> LocalTimeCoding:
    """By the codec's simple name and arguments; ValueError says what is expected instead."""
    if codec != "LocalTimeCodec" or arguments not in ("", "0", "3", "6", "9"):
        raise ValueError("LocalTimeCodec with 0, 3, 6 or 9 digits, or nothing")
    return LocalTimeCoding(int(arguments or "9"))


@dataclass(frozen=True, slots=True)
class LocalTimeCoding(FixedCoding, JavaValues):
    """Times with so many digits below the second."""

    digits: int

    arrow = pa.time64("ns")
    domain = "a time of the day, like 13:30:00.5"
    sources = {"span": "checked", "text": "checked"}

    @property
    def bits(self) -> int:
        """Bits of the fraction."""
        return math.ceil(self.digits * math.log2(10))

    @property
    def width(self) -> int:
        """Bytes per row."""
        return math.ceil((1 + 5 + 6 + 6 + self.bits) / 8)

    @property
    def null(self) -> bytes:
        """The bytes of null."""
        return b"\x80" + bytes(self.width - 1)

    @property
    def unit(self) -> int:
        """Nanoseconds of which values are multiples."""
        return int(10 ** (9 - self.digits))

    @property
    def compiled(self) -> tuple[str, int]:
        """As times with so many digits."""
        return "times", self.digits

    def unstorable(self, array: pa.Array) -> Mask | None:
        """What no day has, and values with more digits than the column has."""
        times = plain_numbers(array, np.int64)
        bad = (times < 0) | (times >= DAY)
        if self.unit > 1:
            bad |= times % self.unit != 0
        return of_values(bad, array)

    def encode(self, array: pa.Array) -> tuple[Octets, Mask | None]:
        """``array``: time64[ns]."""
        seconds, fraction = np.divmod(plain_numbers(array, np.int64), SECOND)
        fraction //= self.unit
        minutes, second = np.divmod(seconds, 60)
        hour, minute = np.divmod(minutes, 60)
        bits = self.bits
        packed = (hour << (12 + bits)) | (minute << (6 + bits)) | (second << bits) | fraction
        return big_endian(packed, self.width), self.unstorable(array)

    def decode(self, entries: Octets, null: Mask | None) -> tuple[pa.Array, Mask | None]:
        """time64[ns]; an hour, minute, second or fraction that no clock shows is bad."""
        packed, bits = from_big_endian(entries), self.bits
        if null is not None:
            packed = np.where(null, 0, packed)
        fraction, second = packed & ((1 << bits) - 1), packed >> bits & 63
        minute, hour = packed >> (6 + bits) & 63, packed >> (12 + bits)
        bad = (hour > 23) | (minute > 59) | (second > 59) | (fraction >= 10**self.digits)
        times = ((hour * 60 + minute) * 60 + second) * SECOND + fraction * self.unit
        return numbers_as(np.where(bad, 0, times), self.arrow, null), some(bad)

    def java_texts(self, array: pa.Array) -> list[str | None]:
        """ISO 8601. Seconds that are 0 are left out; a fraction has 3, 6 or 9 digits, or is left out."""
        return [None if ns is None else _java_text(ns) for ns in array.view(pa.int64()).to_pylist()]

    def java_hashes(self, array: pa.Array) -> npt.NDArray[np.int32]:
        """Of ``java.time.LocalTime``."""
        times = plain_numbers(array, np.int64)
        hashes: npt.NDArray[np.int32] = (times ^ (times >> 32)).astype(np.int32)
        return hashes

    def parse(self, text: str) -> int:
        """Of ISO 8601, as nanoseconds of the day; seconds and fraction may be left out."""
        match = _TEXT.match(text)
        if match is None:
            raise UnfitError(Unfit.NO_VALUE, self.domain)
        hour, minute, second = (int(part or "0") for part in match.groups()[:3])
        fraction = (match[4] or "").rstrip("0")
        if hour > 23 or minute > 59 or second > 59:
            raise UnfitError(Unfit.NO_VALUE, self.domain)
        if len(fraction) > self.digits:
            raise UnfitError(Unfit.NOT_EXACT, f"at most {self.digits} digits of a fraction of a second")
        return ((hour * 60 + minute) * 60 + second) * SECOND + int(fraction.ljust(9, "0") or "0")

    def parse_all(self, texts: pa.StringArray) -> tuple[pa.Array, Mask | None]:
        """Of ISO 8601, with seconds, and with no, 3, 6 or 9 digits below them."""
        times = np.zeros(len(texts), np.int64)
        taken = np.zeros(len(texts), np.bool_)
        for digits in (0, 3, 6, 9):
            rows, octets, _ = rows_of_length(texts, 8 + digits + (digits > 0))
            if not len(rows):
                continue
            spans = [(0, 2), (3, 5), (6, 8)] + ([(9, 9 + digits)] if digits else [])
            (hour, minute, second, *below), sound = digits_of(octets, spans)
            sound &= (octets[:, 2] == 0x3A) & (octets[:, 5] == 0x3A) & (hour < 24) & (minute < 60) & (second < 60)
            values = ((hour * 60 + minute) * 60 + second) * SECOND
            if digits:
                fraction = below[0] * 10 ** (9 - digits)
                sound &= (octets[:, 8] == 0x2E) & (fraction % self.unit == 0)
                values += fraction
            times[rows[sound]], taken[rows[sound]] = values[sound], True
        valid = np.asarray(texts.is_valid()) if texts.null_count else np.ones(len(texts), np.bool_)
        return numbers_as(times, self.arrow, some(~taken)), some(valid & ~taken)

    def convert(self, array: pa.Array) -> tuple[pa.Array, Mask | None]:
        """Of times in any unit."""
        if not pa.types.is_time(array.type):
            return Coding.convert(self, array)
        unit = _UNITS[array.type.unit]
        counts = plain_numbers(array, np.int32 if pa.types.is_time32(array.type) else np.int64).astype(np.int64)
        bad = (counts < 0) | (counts >= DAY // unit)
        times: npt.NDArray[np.int64] = np.where(bad, 0, counts) * unit
        bad |= times % self.unit != 0
        null = ~np.asarray(array.is_valid()) if array.null_count else None
        if null is not None:
            bad &= ~null
        return numbers_as(times, self.arrow, null), some(bad)


def _java_text(ns: int) -> str:
    seconds, below = divmod(ns, SECOND)
    text = f"{seconds // 3600:02}:{seconds // 60 % 60:02}"
    if seconds % 60 or below:
        text += f":{seconds % 60:02}"
    if below:
        digits = next(digits for digits in (3, 6, 9) if below % 10 ** (9 - digits) == 0)
        text += f".{below // 10 ** (9 - digits):0{digits}}"
    return text
