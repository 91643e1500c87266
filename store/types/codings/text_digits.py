"""Texts of one length as a table of bytes, and the numbers that their digits write; without a loop over texts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sparkhaven.store.types.codings.coding import Mask, Octets

Rows = npt.NDArray[np.int64]


def text_ends(texts: pa.StringArray) -> tuple[npt.NDArray[np.int64], Octets]:
    """Offsets of texts, one more than there are, and the bytes that they point into."""
    _, offsets, data = texts.buffers()
    if offsets is None or not len(texts):
        return np.zeros(1, np.int64), np.empty(0, np.uint8)
    kind = np.int64 if pa.types.is_large_string(texts.type) else np.int32
    ends = np.frombuffer(offsets, kind)[texts.offset : texts.offset + len(texts) + 1]
    return ends.astype(np.int64), np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8)


def rows_of_length(texts: pa.StringArray, length: int) -> tuple[Rows, Octets, Mask]:
    """The rows with texts of so many bytes, those bytes as (rows, length), and the rows with other texts."""
    ends, data = text_ends(texts)
    lengths = np.diff(ends)
    fits = lengths == length
    other = ~fits
    if texts.null_count:
        valid = np.asarray(texts.is_valid())
        fits &= valid
        other &= valid
    rows = np.flatnonzero(fits)
    if len(rows) == len(texts) and len(rows):
        return rows, data[ends[0] : ends[-1]].reshape(-1, length), other
    starts = ends[:-1][rows]
    return rows, data[starts[:, None] + np.arange(length)] if len(rows) else np.empty((0, length), np.uint8), other


def digits_of(octets: Octets, spans: Sequence[tuple[int, int]]) -> tuple[list[npt.NDArray[np.int64]], Mask]:
    """The number in each span of columns, and the rows where all of them are digits."""
    sound = np.ones(len(octets), np.bool_)
    numbers = []
    for start, stop in spans:
        number = np.zeros(len(octets), np.int64)
        for position in range(start, stop):
            digit = octets[:, position] - np.uint8(0x30)  # wraps where it is none
            sound &= digit < 10
            number = number * 10 + digit
        numbers.append(number)
    return numbers, sound
