"""Sets of several row ranges as Deephaven writes them, for tests of the reader: a merge writes single ranges."""

from __future__ import annotations

import numpy as np

from sparkhaven.store.format.index.row_set import (
    ALONE,
    BYTES,
    END,
    OFFSET,
    SHORTS,
    Positions,
    encode_command,
    encode_range,
)

BYTE_RUN = 4  # distances of one byte in a row that are worth a command of their own


def encode_rows(starts: Positions, stops: Positions) -> bytes:
    """The bytes of the set of rows ``[starts[i], stops[i])``, ranges that ascend and neither touch nor are empty.

    The narrowest numbers are used. Raises ValueError for other ranges.
    """
    if len(starts) == 1:
        return encode_range(int(starts[0]), int(stops[0]))
    before = np.concatenate((np.full(min(1, len(stops)), -1, np.int64), stops[:-1]))
    if bool((starts <= before).any() or (stops <= starts).any()):
        raise ValueError("ranges of a row set do not ascend")
    distances = _distances(starts, stops)
    parts: list[bytes] = []
    first = 0
    for alone in np.flatnonzero(np.abs(distances) >= ALONE).tolist():
        _queue(distances[first:alone], parts)
        parts.append(encode_command(OFFSET, int(distances[alone])))
        first = alone + 1
    _queue(distances[first:], parts)
    return b"".join([*parts, bytes((END,))])


def _distances(starts: Positions, stops: Positions) -> Positions:
    lasts = stops - 1
    pairs = np.zeros((len(starts), 2), np.int64)
    pairs[:, 0] = starts - np.concatenate((np.zeros(min(1, len(lasts)), np.int64), lasts[:-1]))
    pairs[:, 1] = starts - lasts
    kept = np.ones_like(pairs, np.bool_)
    kept[:, 1] = pairs[:, 1] != 0
    return pairs[kept]


def _queue(distances: Positions, parts: list[bytes]) -> None:
    """Commands for distances below ``ALONE``: long runs of small ones as bytes, others as shorts."""
    narrow = (distances >= -(2**7)) & (distances < 2**7)
    edges = np.flatnonzero(np.diff(narrow.astype(np.int8), prepend=0, append=0))
    first = 0
    for start, stop in edges.reshape(-1, 2).tolist():
        last = stop == len(distances)
        if stop - start >= BYTE_RUN or (last and (stop - start >= 2 or start == first)):
            _array(SHORTS, distances[first:start], parts)
            _array(BYTES, distances[start:stop], parts)
            first = stop
    _array(SHORTS, distances[first:], parts)


def _array(command: int, numbers: Positions, parts: list[bytes]) -> None:
    if len(numbers) == 1:
        parts.append(encode_command(OFFSET, int(numbers[0])))
    elif len(numbers):
        parts.append(
            encode_command(command, len(numbers)) + numbers.astype(">i2" if command == SHORTS else ">i1").tobytes()
        )
