"""Statistics of several columns over one range of rows, packed into one row of bytes. Little-endian.

=========  =======================================================================================
bytes      meaning
=========  =======================================================================================
8 + 8      i8 start, i8 stop
1 + 1      widths of a count of nulls and of NaNs: 1, 2, 4 or 8; 0 = none in any column
n          kinds: 0 no bound is known, 1 whole number, 2 float, 3 truth value, 4 text; plus 128: Instants with a part
           below one microsecond
...        counts of nulls, counts of NaNs, each of its width, by column
8 m, 8 m   lower, then upper bounds of the m columns of kinds 1 to 3 (i8, f8, i8)
...        of each column of kind 4: u1 length and UTF-8 of the lower, then of the upper bound
=========  =======================================================================================

The names of the columns are stored elsewhere, once for many rows.

A text above ``MAX_BOUND_BYTES`` of UTF-8 is replaced by a shorter bound: a prefix of it as the lower bound, the least
text after everything with that prefix as the upper one. Bounds are compared by code points, like the bytes of UTF-8.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

from sparkhaven.store.types.committed_columns import RangeStats, Scalar

MAX_BOUND_BYTES = 24
_LAST = 0x10FFFF
_SURROGATES = range(0xD800, 0xE000)


def clipped(stats: RangeStats) -> RangeStats:
    """Statistics with their bounds shortened; without any where no text stands above all values."""
    low, high = stats.low, stats.high
    if not isinstance(low, str) or not isinstance(high, str):
        return stats
    first, last = _beginning(low), _beginning(high)
    above = high if last is high else _after(last)
    if first is low and above is high:
        return stats
    return replace(stats, low=None, high=None) if above is None else replace(stats, low=first, high=above)


def _beginning(text: str) -> str:
    if len(text) * 4 <= MAX_BOUND_BYTES:
        return text
    data = text[: MAX_BOUND_BYTES + 1].encode("utf-8", "surrogatepass")
    if len(data) <= MAX_BOUND_BYTES:
        return text
    end = MAX_BOUND_BYTES
    while data[end] & 0xC0 == 0x80:  # inside a character
        end -= 1
    return data[:end].decode("utf-8", "surrogatepass")


def _after(beginning: str) -> str | None:
    """The least text of that length or less above all that begin so; None if there is none."""
    while beginning:
        following = ord(beginning[-1]) + 1
        if following in _SURROGATES:
            following = _SURROGATES.stop
        if following <= _LAST and len(chr(following).encode()) <= len(beginning[-1].encode("utf-8", "surrogatepass")):
            return beginning[:-1] + chr(following)
        beginning = beginning[:-1]
    return None


def join(left: RangeStats, right: RangeStats) -> RangeStats:
    """Statistics of two neighbouring ranges as one; bounds that one side does not know are unknown."""
    low, high = _join_bounds(left, right)
    exact = left.exact_us and right.exact_us
    counts = left.nulls + right.nulls, left.nans + right.nans
    return RangeStats(left.start, right.stop, *counts, low, high, exact)


def _bare(stats: RangeStats) -> bool:
    return stats.nulls + stats.nans >= stats.stop - stats.start


def _join_bounds(left: RangeStats, right: RangeStats) -> tuple[Scalar | None, Scalar | None]:
    if _bare(left):
        return right.low, right.high
    if _bare(right):
        return left.low, left.high
    if left.low is None or left.high is None or right.low is None or right.high is None:
        return None, None
    return min(left.low, right.low), max(left.high, right.high)


NONE, INT, FLOAT, BOOL, TEXT = range(5)
INEXACT = 0x80
_KINDS: dict[type, int] = {int: INT, float: FLOAT, bool: BOOL, str: TEXT}
_COUNTS = {0: "", 1: "B", 2: "H", 4: "I", 8: "Q"}
_HEAD = struct.Struct("<qqBB")
_SPAN = struct.Struct("<qq")


@lru_cache(1 << 14)
def _numbers(nulls: int, nans: int, kinds: bytes) -> struct.Struct:
    count = len(kinds)
    bounds = "".join("d" if kind == FLOAT else "q" for kind in _plain(kinds) if kind not in (NONE, TEXT))
    counts = "".join(f"{count}{_COUNTS[width]}" for width in (nulls, nans) if width)
    return struct.Struct(f"<{counts}{bounds}{bounds}")


@lru_cache(1 << 14)
def _plain(kinds: bytes) -> bytes:
    return bytes(kind & ~INEXACT for kind in kinds)


def pack_row(given: Sequence[RangeStats]) -> bytes:
    """Statistics of columns over one range; bounds that do not fit are left out."""
    parts = [clipped(stats) for stats in given]
    kinds = bytearray()
    lows: list[Scalar] = []
    highs: list[Scalar] = []
    texts: list[str] = []
    for stats in parts:
        kind = _kind(stats.low, stats.high)
        kinds.append(kind if stats.exact_us else kind | INEXACT)
        if kind == TEXT:
            texts += (str(stats.low), str(stats.high))
        elif kind:
            lows.append(stats.low)  # type: ignore[arg-type]
            highs.append(stats.high)  # type: ignore[arg-type]
    first = parts[0]
    counts = [stats.nulls for stats in parts], [stats.nans for stats in parts]
    return _packed((first.start, first.stop), bytes(kinds), counts, (lows, highs), texts)


def _kind(low: Scalar | None, high: Scalar | None) -> int:
    kind = _KINDS.get(type(low), NONE)
    if kind == NONE or type(low) is not type(high):
        return NONE
    if kind == INT and not (low >= -(1 << 63) and high < 1 << 63):  # type: ignore[operator]
        return NONE
    if kind == FLOAT and (math.isnan(low) or math.isnan(high)):  # type: ignore[arg-type]
        return NONE  # a NaN bounds nothing
    return kind


def _packed(
    rows: tuple[int, int],
    kinds: bytes,
    counts_of: tuple[Sequence[int], Sequence[int]],
    bounds: tuple[Sequence[Scalar], Sequence[Scalar]],
    texts: Sequence[str],
) -> bytes:
    (nulls, nans), (lows, highs) = counts_of, bounds
    most, odd = max(nulls), max(nans)
    first, second = _width(most), _width(odd)
    counts = (*(nulls if first else ()), *(nans if second else ()))
    data = _HEAD.pack(*rows, first, second) + kinds
    data += _numbers(first, second, kinds).pack(*counts, *lows, *highs)
    if texts:
        data += b"".join(bytes([len(t)]) + t for t in (text.encode("utf-8", "surrogatepass") for text in texts))
    return data


def _width(most: int) -> int:
    return 0 if not most else 1 if most < 1 << 8 else 2 if most < 1 << 16 else 4 if most < 1 << 32 else 8


class _Row:
    """A row taken apart, of ``count`` columns."""

    __slots__ = ("highs", "kinds", "lows", "nans", "nulls", "start", "stop", "texts")

    def __init__(self, data: bytes, count: int) -> None:
        self.start, self.stop, nulls, nans = _HEAD.unpack_from(data)
        offset = _HEAD.size + count
        self.kinds = data[_HEAD.size : offset]
        form = _numbers(nulls, nans, self.kinds)
        numbers = form.unpack_from(data, offset)
        offset += form.size
        none = (0,) * count
        first = count if nulls else 0
        second = first + (count if nans else 0)
        self.nulls = numbers[:first] if nulls else none
        self.nans = numbers[first:second] if nans else none
        bounds = (len(numbers) - second) // 2
        self.lows, self.highs = numbers[second : second + bounds], numbers[second + bounds :]
        self.texts: list[str] = []
        for _ in range(2 * _plain(self.kinds).count(TEXT)):
            end = offset + 1 + data[offset]
            self.texts.append(data[offset + 1 : end].decode("utf-8", "surrogatepass"))
            offset = end
        if offset != len(data) or len(self.kinds) != count:
            raise ValueError(f"row of {count} columns ends at byte {offset} of {len(data)}")

    def unpacked(self) -> list[RangeStats]:
        stats, number, text = [], 0, 0
        for kind, nulls, nans in zip(self.kinds, self.nulls, self.nans, strict=True):
            low: Scalar | None = None
            high: Scalar | None = None
            plain = kind & ~INEXACT
            if plain == TEXT:
                low, high = self.texts[text : text + 2]
                text += 2
            elif plain:
                low, high = self.lows[number], self.highs[number]
                number += 1
                if plain == BOOL:
                    low, high = bool(low), bool(high)
            stats.append(RangeStats(self.start, self.stop, nulls, nans, low, high, not kind & INEXACT))
        return stats


@lru_cache(maxsize=64)  # a read asks for one column after the other
def unpack_row(data: bytes, count: int) -> Sequence[RangeStats]:
    """The inverse of ``pack_row``; ValueError, IndexError, KeyError or struct.error where a part is missing."""
    return tuple(_Row(data, count).unpacked())


def join_rows(left: bytes, right: bytes, count: int) -> bytes:
    a, b = _Row(left, count), _Row(right, count)
    if a.kinds != b.kinds:
        return pack_row([join(x, y) for x, y in zip(a.unpacked(), b.unpacked(), strict=True)])
    nulls = [x + y for x, y in zip(a.nulls, b.nulls, strict=True)]
    nans = [x + y for x, y in zip(a.nans, b.nans, strict=True)]
    texts = [max(x, y) if i % 2 else min(x, y) for i, (x, y) in enumerate(zip(a.texts, b.texts, strict=True))]
    lows, highs = list(map(min, a.lows, b.lows)), list(map(max, a.highs, b.highs))
    return _packed((a.start, b.stop), a.kinds, (nulls, nans), (lows, highs), texts)


def span(row: bytes) -> tuple[int, int]:
    start, stop = _SPAN.unpack_from(row)
    return start, stop
