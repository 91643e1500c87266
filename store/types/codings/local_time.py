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
import pyarrow.compute as pc

from sparkhaven.store.types.codings.coding import (
    Coding,
    FixedCoding,
    JavaValues,
    Mask,
    Unfit,
    UnfitError,
    numbers_as,
    of_values,
    plain_numbers,
    some,
)

CODEC = "io.deephaven.util.codec.LocalTimeCodec"
SECOND = 1_000_000_000
DAY = 86_400 * SECOND
_UNITS = {"s": SECOND, "ms": 1_000_000, "us": 1_000, "ns": 1}
_USUAL = r"^([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9](\.[0-9]{1,9})?)?$"
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
        """Of ISO 8601, with at most nine digits below the second."""
        usual = pc.match_substring_regex(texts, _USUAL)
        moments = pc.binary_join_element_wise("1970-01-01", pc.if_else(usual, texts, None), "T")
        times = moments.cast(pa.timestamp("ns")).view(pa.int64())
        finer = plain_numbers(times, np.int64) % self.unit != 0
        doubt = ~np.asarray(usual.fill_null(True)) | (finer & np.asarray(times.is_valid()))
        return numbers_as(plain_numbers(times, np.int64), self.arrow, some(doubt | np.asarray(texts.is_null()))), some(
            doubt
        )

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
