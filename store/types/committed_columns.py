"""What a commit says of one file, and of one column over a range of rows; both as values and as JSON."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

Scalar = int | float | str | bool


UNKNOWN = -1  # the checksum of a file that another program wrote without one


@dataclass(frozen=True, slots=True)
class FileState:
    """Committed bytes of one file's data region (without a ``.dat`` prefix) and their CRC-32, or ``UNKNOWN``."""

    size: int
    crc: int


@dataclass(frozen=True, slots=True)
class RangeStats:
    """Statistics of one column over rows ``[start, stop)``; ``low``/``high`` None = unknown or no value.

    NaNs are counted apart and never a bound. Instants are nanoseconds. ``exact_us`` is False once an Instant
    has a part below one microsecond.
    """

    start: int
    stop: int
    nulls: int
    nans: int = 0
    low: Scalar | None = None
    high: Scalar | None = None
    exact_us: bool = True


def encode_range(r: RangeStats) -> list[Any]:
    """A range of statistics as a list."""
    return [r.start, r.stop, r.nulls, r.nans, _bound(r.low), _bound(r.high), r.exact_us]


def decode_range(v: Any) -> RangeStats:
    """The inverse of ``encode_range``; TypeError or ValueError where a part is missing."""
    start, stop, nulls, nans, low, high, exact = v
    return RangeStats(
        int(start), int(stop), int(nulls), int(nans), _decode_bound(low), _decode_bound(high), bool(exact)
    )


def _bound(value: Scalar | None) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        if math.isnan(value):
            return None  # a NaN bounds nothing
        return ["inf" if value > 0 else "-inf"]
    return value


def _decode_bound(value: Any) -> Scalar | None:
    if isinstance(value, list):
        return float(value[0])
    if value is None or isinstance(value, int | float | str | bool):
        return value
    raise TypeError(f"bound {value!r}")
