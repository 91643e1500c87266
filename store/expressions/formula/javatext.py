"""Java's text and integers in numpy: strings as UTF-16 units, ``String.hashCode``, wrapping ``/`` and ``%``.

All functions work on whole arrays; an array of one row is a constant.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.signedinteger[Any]]


@dataclass(frozen=True, slots=True)
class Text:
    """Strings as UTF-16 units: row ``r`` is ``units[offsets[r]:offsets[r + 1]]``."""

    units: npt.NDArray[np.uint16]
    offsets: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @staticmethod
    def of(strings: Sequence[str]) -> Text:
        """From Python strings; a lone surrogate is one unit, as in Java."""
        encoded = [s.encode("utf-16-le", "surrogatepass") for s in strings]
        offsets = np.zeros(len(encoded) + 1, np.int64)
        np.cumsum(np.fromiter((len(e) // 2 for e in encoded), np.int64, len(encoded)), out=offsets[1:])
        return Text(np.frombuffer(b"".join(encoded), np.dtype("<u2")).astype(np.uint16), offsets)

    def to_list(self) -> list[str]:
        data, ends = self.units.astype("<u2").tobytes(), (self.offsets * 2).tolist()
        return [data[a:b].decode("utf-16-le", "surrogatepass") for a, b in pairwise(ends)]

    def _repeated(self, rows: int) -> Text:
        if len(self) == rows:
            return self
        return Text(np.tile(self.units, rows), np.arange(rows + 1, dtype=np.int64) * len(self.units))

    def __add__(self, other: Text) -> Text:
        rows = max(len(self), len(other)) if len(self) and len(other) else 0
        left, right = self._repeated(rows), other._repeated(rows)
        first, second = np.diff(left.offsets), np.diff(right.offsets)
        offsets = np.zeros(rows + 1, np.int64)
        np.cumsum(first + second, out=offsets[1:])
        units = np.empty(int(offsets[-1]), np.uint16)
        units[np.repeat(offsets[:-1] - left.offsets[:-1], first) + np.arange(len(left.units))] = left.units
        shift = offsets[:-1] + first - right.offsets[:-1]
        units[np.repeat(shift, second) + np.arange(len(right.units))] = right.units
        return Text(units, offsets)

    def hash_code(self) -> npt.NDArray[np.int32]:
        """``String.hashCode`` of every row: h = 31 * h + unit over UTF-16 units, 32 bits, start 0."""
        lengths = np.diff(self.offsets)
        powers = np.full(int(lengths.max(initial=0)) + 1, 31, np.uint32)
        powers[0] = 1
        np.cumprod(powers, out=powers, dtype=np.uint32)
        from_end = np.repeat(self.offsets[1:], lengths) - 1 - np.arange(len(self.units))
        sums = np.zeros(len(self.units) + 1, np.uint32)
        np.cumsum(self.units * powers[from_end], out=sums[1:], dtype=np.uint32)
        return (sums[self.offsets[1:]] - sums[self.offsets[:-1]]).view(np.int32)


def divide(left: Ints, right: Ints) -> Ints:
    """Java ``/``: toward zero, wrapping; the caller has refused zeros in ``right``."""
    wide, by = left.astype(np.int64), right.astype(np.int64)
    other = np.where(by == -1, 1, by)  # -2^63 / -1 overflows in hardware
    quotient = wide // other
    quotient += (quotient * other != wide) & ((wide ^ other) < 0)
    result = np.where(by == -1, 0 - wide, quotient)
    return result.astype(np.result_type(left, right))


def remainder(left: Ints, right: Ints) -> Ints:
    """Java ``%``: sign of the dividend; the caller has refused zeros in ``right``."""
    other = np.where(right == -1, 1, right).astype(np.int64)
    return np.fmod(left.astype(np.int64), other).astype(np.result_type(left, right))


def absolute(values: Ints) -> Ints:
    """``abs`` with the smallest number taken as 0, so that it is never negative."""
    return np.where(values == np.iinfo(values.dtype).min, 0, np.abs(values)).astype(values.dtype)
