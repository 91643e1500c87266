"""Withdrawn rows of a stream, as a record of its log names them: packed row ranges behind the record's text.

Rows that are withdrawn stay in their files: later epochs lie behind them. Readers leave them out from the epoch of the
record on, and older epochs still show them. The text has ``locations`` [[internal, value, since, ranges], ...], and
behind the line feed follow the ranges of all of them, each i8 first row and i8 row after the last, little-endian.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sparkhaven.store.layout import LocationKey
from sparkhaven.store.types.row_ranges import RowRanges

RANGE_BYTES = 16


@dataclass(frozen=True, slots=True)
class Withdrawn:
    """Rows of one location, which epoch ``since`` created."""

    key: LocationKey
    since: int
    rows: RowRanges


def encode_withdrawn(locations: Sequence[Withdrawn]) -> tuple[list[list[str | int]], bytes]:
    """What the text says of the locations, and the bytes behind it."""
    named: list[list[str | int]] = [
        [part.key.internal, part.key.value, part.since, len(part.rows)] for part in locations
    ]
    return named, b"".join(pack_ranges(part.rows) for part in locations)


def decode_withdrawn(value: Mapping[str, Any], packed: bytes) -> tuple[Withdrawn, ...]:
    """The inverse. KeyError, TypeError or ValueError: a part is missing, or ranges are not ascending."""
    locations, offset = [], 0
    for internal, date, since, count in value["locations"]:
        end = offset + RANGE_BYTES * int(count)
        rows = unpack_ranges(packed[offset:end], int(count))
        locations.append(Withdrawn(LocationKey(str(internal), str(date)), int(since), rows))
        offset = end
    if offset != len(packed):
        raise ValueError(f"row ranges end at byte {offset} of {len(packed)}")
    return tuple(locations)


def pack_ranges(rows: RowRanges) -> bytes:
    """``RANGE_BYTES`` for each range."""
    return np.stack((rows.starts, rows.stops), axis=1).astype("<i8").tobytes()


def unpack_ranges(data: bytes, count: int) -> RowRanges:
    """The inverse. ValueError: there are other bytes, or the ranges are empty, touch, or do not ascend."""
    if len(data) != RANGE_BYTES * count:
        raise ValueError(f"{len(data)} bytes of {count} row ranges")
    edges = np.frombuffer(data, "<i8").astype(np.int64)
    if len(edges) and (edges[0] < 0 or not bool((np.diff(edges) > 0).all())):
        raise ValueError("row ranges do not ascend")
    return RowRanges(edges[::2].copy(), edges[1::2].copy())
