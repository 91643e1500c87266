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
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sparkhaven.store.instants import days_of
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

CODEC = "io.deephaven.util.codec.LocalDateCodec"
YEARS = 10_000
FIRST_DAY, LAST_DAY = -719_528, 2_932_896  # 0000-01-01 and 9999-12-31
FULL = 999_999_999
MILLISECONDS = 86_400_000
_TEXT = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})\Z", re.ASCII)
_NEAR = (1900, 2200)  # years whose days are looked up in a table


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

    def encode(self, array: pa.Array) -> tuple[Octets, Mask | None]:
        """``array``: date32."""
        packed = _packed(plain_numbers(array, np.int32))
        entries = big_endian(packed if self.compact else packed + (FULL << 9), self.width)
        return entries, self.unstorable(array)

    def decode(self, entries: Octets, null: Mask | None) -> tuple[pa.Array, Mask | None]:
        """date32; a month or day that no calendar has is bad, and in three bytes a year above 9999."""
        packed = from_big_endian(entries)
        if not self.compact:
            packed -= FULL << 9
        if null is not None:
            packed = np.where(null, (1970 << 9) + 33, packed)
        days, bad = _days(packed)
        if self.compact:
            bad |= packed >= YEARS << 9
        return numbers_as(days, self.arrow, null), some(bad)

    def java_texts(self, array: pa.Array) -> list[str | None]:
        """ISO 8601. Years have four digits at least."""
        texts: list[str | None] = array.cast(pa.string()).to_pylist()
        return texts

    def java_hashes(self, array: pa.Array) -> npt.NDArray[np.int32]:
        """Of ``java.time.LocalDate``."""
        packed = _packed(plain_numbers(array, np.int32))
        year, month, day = packed >> 9, packed >> 5 & 15, packed & 31
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
        rows, octets, doubt = rows_of_length(texts, 10)
        numbers, digits = digits_of(octets, ((0, 4), (5, 7), (8, 10)))
        year, month, day = numbers
        marks = (octets[:, 4] == 0x2D) & (octets[:, 7] == 0x2D)
        sound = digits & marks & (month >= 1) & (month <= 12) & (day >= 1) & (day <= 31)
        packed = np.where(sound, year << 9 | month << 5 | day, (1970 << 9) + 33)
        days, bad = _days(packed)
        doubt[rows[~sound | bad]] = True
        values = np.zeros(len(texts), np.int32)
        values[rows] = days
        none = doubt | ~np.isin(np.arange(len(texts)), rows) if len(rows) < len(texts) else doubt
        return numbers_as(values, self.arrow, some(none)), some(doubt)

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


def _civil(days: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Days since 1970 as year << 9 | month << 5 | day, in the Gregorian calendar of all times."""
    shifted = days + 719468
    era = shifted // 146097
    of_era = shifted - era * 146097
    year_of_era = (of_era - of_era // 1460 + of_era // 36524 - of_era // 146096) // 365
    of_year = of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    month_index = (5 * of_year + 2) // 153
    day = of_year - (153 * month_index + 2) // 5 + 1
    month = np.where(month_index < 10, month_index + 3, month_index - 9)
    year = year_of_era + era * 400 + (month <= 2)
    packed: npt.NDArray[np.int64] = (year << 9) + (month << 5) + day
    return packed


@lru_cache(maxsize=1)
def _tables() -> tuple[int, npt.NDArray[np.int64], int, npt.NDArray[np.int32]]:
    """First day and what the days from it on are packed as; first packed number and the days from it on."""
    first, last = ((np.datetime64(f"{year}-01-01") - np.datetime64("1970-01-01")).astype(int) for year in _NEAR)
    packed = _civil(np.arange(first, last, dtype=np.int64))
    base = int(packed[0])
    days = np.full(int(packed[-1]) - base + 1, -(2**31), np.int32)
    days[packed - base] = np.arange(first, last)
    return int(first), packed, base, days


def _packed(days: npt.NDArray[np.int32]) -> npt.NDArray[np.int64]:
    first, packed, _, _ = _tables()
    index = days.astype(np.int64) - first
    if len(index) and index.min() >= 0 and index.max() < len(packed):
        return packed[index]
    return _civil(days.astype(np.int64))


def _days(packed: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int32], Mask]:
    """Days since 1970, and which numbers are no date."""
    _, _, base, days = _tables()
    index = packed - base
    if len(index) and index.min() >= 0 and index.max() < len(days):
        looked_up = days[index]
        bad = looked_up == -(2**31)
        return (np.where(bad, 0, looked_up).astype(np.int32), bad) if bad.any() else (looked_up, bad)
    year, month, day = packed >> 9, packed >> 5 & 15, packed & 31
    shifted = year - (month <= 2)
    era = shifted // 400
    of_era = shifted - era * 400
    of_year = (153 * (month + np.where(month > 2, -3, 9)) + 2) // 5 + day - 1
    numbers = era * 146097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719468
    bad = (month < 1) | (month > 12) | (day < 1) | (np.abs(numbers) > 2**31 - 1) | (_civil(numbers) != packed)
    return np.where(bad, 0, numbers).astype(np.int32), bad
