"""LocalDate: a day of the calendar, by ``LocalDateCodec``.

=========  =====  ==================================================================
argument   bytes  content
=========  =====  ==================================================================
Compact    3      year << 9 | month << 5 | day, years 0 to 9999
Full       5      the same with year + 999999999
=========  =====  ==================================================================

Null is a byte FF, then zeros. Arrow has days since 1970.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sparkhaven.store.instants import days_of
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

CODEC = "io.deephaven.util.codec.LocalDateCodec"
FIRST_DAY, LAST_DAY = -719_528, 2_932_896  # 0000-01-01 and 9999-12-31
FULL = 999_999_999
MILLISECONDS = 86_400_000
CYCLE_DAYS = 146_097  # of 400 years
_TEXT = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})\Z", re.ASCII)
_USUAL = r"^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])$"


def coding(codec: str, arguments: str, width: int | None) -> LocalDateCoding:
    """By the codec's simple name and arguments; ValueError says what is expected instead."""
    if codec != "LocalDateCodec" or arguments not in ("", "Compact", "Full"):
        raise ValueError("LocalDateCodec with Compact, Full or nothing")
    return LocalDateCoding(arguments == "Compact")


@dataclass(frozen=True, slots=True)
class LocalDateCoding(FixedCoding, JavaValues):
    """Days, in three bytes or in five."""

    compact: bool

    arrow = pa.date32()
    domain = "a date of the years 0000 to 9999, like 2017-08-04"
    sources = {"date": "checked", "text": "checked"}

    @property
    def width(self) -> int:
        """Bytes per row."""
        return 3 if self.compact else 5

    @property
    def null(self) -> bytes:
        """The bytes of null."""
        return b"\xff" + bytes(self.width - 1)

    @property
    def compiled(self) -> tuple[str, int]:
        """As dates of the width."""
        return "dates", 0

    def unstorable(self, array: pa.Array) -> Mask | None:
        """Days beyond the years."""
        days = plain_numbers(array, np.int32)
        return of_values((days < FIRST_DAY) | (days > LAST_DAY), array)

    def rare(self, entry: bytes) -> int:
        """A day beyond the years, which five bytes can hold."""
        packed = int.from_bytes(entry, "big") - (0 if self.compact else FULL << 9)
        year, month, day = packed >> 9, packed >> 5 & 15, packed & 31
        cycles, of_cycle = divmod(year, 400)
        try:
            days = days_of(of_cycle, month, day) + cycles * CYCLE_DAYS
        except ValueError:
            raise UnfitError(Unfit.NO_VALUE, self.domain) from None
        if self.compact or abs(days) > 2**31 - 1:
            raise UnfitError(Unfit.NO_VALUE, self.domain)
        return days

    def java_texts(self, array: pa.Array) -> list[str | None]:
        """ISO 8601. Years have four digits at least."""
        texts: list[str | None] = array.cast(pa.string()).to_pylist()
        return texts

    def java_hashes(self, array: pa.Array) -> npt.NDArray[np.int32]:
        """Of ``java.time.LocalDate``."""
        year, month, day = (part(array).fill_null(0).to_numpy() for part in (pc.year, pc.month, pc.day))
        hashes: npt.NDArray[np.int32] = ((year & ~0x7FF) ^ ((year << 11) + (month << 6) + day)).astype(np.int32)
        return hashes

    def parse(self, text: str) -> int:
        """Days since 1970 of ISO 8601."""
        match = _TEXT.match(text)
        if match is None:
            raise UnfitError(Unfit.NO_VALUE, self.domain)
        try:
            return days_of(*(int(part) for part in match.groups()))
        except ValueError:
            raise UnfitError(Unfit.NO_VALUE, self.domain) from None

    def parse_all(self, texts: pa.StringArray) -> tuple[pa.Array, Mask | None]:
        """Of ISO 8601, ten characters each."""
        usual = pc.match_substring_regex(texts, _USUAL)
        doubt = some(~np.asarray(usual.fill_null(True)))
        try:
            return (texts if doubt is None else pc.if_else(usual, texts, None)).cast(self.arrow), doubt
        except pa.ArrowInvalid:  # a month that has no such day
            return self.by_value(texts)

    def convert(self, array: pa.Array) -> tuple[pa.Array, Mask | None]:
        """Of dates: date64 has milliseconds, which must be whole days."""
        if pa.types.is_date64(array.type):
            stamps = plain_numbers(array, np.int64)
            days, rest = np.divmod(stamps, MILLISECONDS)
            bad = (rest != 0) | (np.abs(days) > 2**31 - 1)
            null = None if not array.null_count else ~np.asarray(array.is_valid())
            if null is not None:
                bad &= ~null
            return numbers_as(np.where(bad, 0, days).astype(np.int32), self.arrow, null), some(bad)
        return Coding.convert(self, array)
