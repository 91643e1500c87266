"""Bounds of text columns, short enough for a commit record.

A text above ``MAX_BOUND_BYTES`` of UTF-8 is replaced by a shorter bound: a prefix of it as the lower bound, the least
text after everything with that prefix as the upper one. Bounds are compared by code points, like the bytes of UTF-8.
"""

from __future__ import annotations

from dataclasses import replace

from sparkhaven.store.types.committed_columns import RangeStats

MAX_BOUND_BYTES = 24
_LAST = 0x10FFFF
_SURROGATES = range(0xD800, 0xE000)


def clipped(stats: RangeStats) -> RangeStats:
    """The same statistics with short bounds; without any where no text stands above all values."""
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
