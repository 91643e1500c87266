"""What a codec makes of values of one width, in numpy: the compiled core makes the same of them.

``encode`` gives the entries and the rows whose values cannot be stored, ``decode`` the values and the rows whose bytes
stand for none.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sparkhaven.store.types.codings.byte_array import FixedBytes, binary_parts
from sparkhaven.store.types.codings.coding import (
    FixedCoding,
    Mask,
    Octets,
    null_entries,
    numbers_as,
    plain_numbers,
    some,
    validity,
)
from sparkhaven.store.types.codings.decimals import FixedDecimals
from sparkhaven.store.types.codings.local_date import FULL, LocalDateCoding
from sparkhaven.store.types.codings.local_time import SECOND, LocalTimeCoding

Decoded = tuple[pa.Array, Mask | None]


def encode(coding: FixedCoding, array: pa.Array) -> tuple[Octets, Mask | None]:
    """Entries of shape (rows, width), with the null of the coding, and the rows whose values cannot be stored."""
    match coding:
        case LocalDateCoding():
            entries = _encode_dates(coding, array)
        case LocalTimeCoding():
            entries = _encode_times(coding, array)
        case FixedDecimals():
            entries = _encode_decimals(coding, array)
        case _:
            assert isinstance(coding, FixedBytes)
            entries = _encode_bytes(coding, array)
    if coding.null and array.null_count:
        entries[np.asarray(array.is_null())] = np.frombuffer(coding.null, np.uint8)
    return entries, coding.unstorable(array)


def decode(coding: FixedCoding, entries: Octets) -> Decoded:
    """Values of entries of shape (rows, width), and the rows whose bytes stand for none."""
    null = null_entries(entries, coding)
    null = null if null is not None and null.any() else None
    match coding:
        case LocalDateCoding():
            return _decode_dates(coding, entries, null)
        case LocalTimeCoding():
            return _decode_times(coding, entries, null)
        case FixedDecimals():
            return _decode_decimals(coding, entries, null)
    assert isinstance(coding, FixedBytes)
    return _decode_bytes(coding, entries, null)


def _encode_dates(coding: LocalDateCoding, array: pa.Array) -> Octets:
    packed = _civil(plain_numbers(array, np.int32).astype(np.int64))
    return big_endian(packed if coding.compact else packed + (FULL << 9), coding.width)


def _decode_dates(coding: LocalDateCoding, entries: Octets, null: Mask | None) -> Decoded:
    packed = from_big_endian(entries)
    if not coding.compact:
        packed -= FULL << 9
    if null is not None:
        packed = np.where(null, (1970 << 9) + 33, packed)
    days, bad = _days(packed)
    if coding.compact:
        bad |= packed >= 10_000 << 9
    return numbers_as(days, coding.arrow, null), some(bad)


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


def _days(packed: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int32], Mask]:
    """Days since 1970, and which numbers are no date."""
    year, month, day = packed >> 9, packed >> 5 & 15, packed & 31
    shifted = year - (month <= 2)
    era = shifted // 400
    of_era = shifted - era * 400
    of_year = (153 * (month + np.where(month > 2, -3, 9)) + 2) // 5 + day - 1
    numbers = era * 146097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719468
    bad = (month < 1) | (month > 12) | (day < 1) | (np.abs(numbers) > 2**31 - 1) | (_civil(numbers) != packed)
    return np.where(bad, 0, numbers).astype(np.int32), bad


def _encode_times(coding: LocalTimeCoding, array: pa.Array) -> Octets:
    seconds, fraction = np.divmod(plain_numbers(array, np.int64), SECOND)
    fraction //= coding.unit
    minutes, second = np.divmod(seconds, 60)
    hour, minute = np.divmod(minutes, 60)
    bits = coding.bits
    packed = (hour << (12 + bits)) | (minute << (6 + bits)) | (second << bits) | fraction
    return big_endian(packed, coding.width)


def _decode_times(coding: LocalTimeCoding, entries: Octets, null: Mask | None) -> Decoded:
    packed, bits = from_big_endian(entries), coding.bits
    if null is not None:
        packed = np.where(null, 0, packed)
    fraction, second = packed & ((1 << bits) - 1), packed >> bits & 63
    minute, hour = packed >> (6 + bits) & 63, packed >> (12 + bits)
    bad = (hour > 23) | (minute > 59) | (second > 59) | (fraction >= 10**coding.digits)
    times = ((hour * 60 + minute) * 60 + second) * SECOND + fraction * coding.unit
    return numbers_as(np.where(bad, 0, times), coding.arrow, null), some(bad)


def _encode_decimals(coding: FixedDecimals, array: pa.Array) -> Octets:
    size, width = coding.arrow.bit_width // 8, coding.width
    words = _words(coding, array)
    below = (words[:, -1] >> np.uint64(63)).astype(np.bool_)
    if below.any():
        words = _added(words, below, -1)
    octets = np.ascontiguousarray(words[:, ::-1]).astype(">u8").view(np.uint8).reshape(-1, size)
    entries = np.empty((len(array), width), np.uint8)
    kept = min(width - 1, size)
    entries[:, 0] = ~below
    entries[:, 1 : width - kept] = np.where(below, 0xFF, 0)[:, None]
    entries[:, width - kept :] = octets[:, size - kept :]
    return entries


def _decode_decimals(coding: FixedDecimals, entries: Octets, null: Mask | None) -> Decoded:
    size, width, count = coding.arrow.bit_width // 8, coding.width, len(entries)
    below = entries[:, 0] == 0
    bad = entries[:, 0] > 1
    kept = min(width - 1, size)
    octets = np.empty((count, size), np.uint8)
    octets[:, : size - kept] = np.where(below, 0xFF, 0)[:, None]
    octets[:, size - kept :] = entries[:, width - kept :]
    words = np.ascontiguousarray(octets.view(">u8").reshape(-1, size // 8)[:, ::-1]).astype("<u8")
    if below.any():
        words = _added(words, below, 1)
    bad |= _beyond(words, coding.precision) | ((words[:, -1] >> np.uint64(63)).astype(np.bool_) != below)
    if null is not None:
        bad &= ~null
    bitmap, missing = validity(null)
    return pa.Array.from_buffers(coding.arrow, count, [bitmap, pa.py_buffer(words)], missing), some(bad)


def _words(coding: FixedDecimals, array: pa.Array) -> npt.NDArray[np.uint64]:
    size = coding.arrow.bit_width // 8
    buffer = array.buffers()[1]
    if buffer is None or not len(array):
        return np.zeros((len(array), size // 8), np.uint64)
    return np.frombuffer(buffer, "<u8", len(array) * size // 8, array.offset * size).reshape(-1, size // 8)


def _added(words: npt.NDArray[np.uint64], rows: Mask, step: int) -> npt.NDArray[np.uint64]:
    """Numbers of little-endian words of shape (rows, words), 1 or -1 added to some of them."""
    result = words.copy()
    carry = rows.copy()
    for index in range(words.shape[1]):
        word = result[:, index]
        word[carry] += np.uint64(1) if step > 0 else np.uint64(2**64 - 1)
        carry &= word == (0 if step > 0 else np.uint64(2**64 - 1))
        if not carry.any():
            break
    return result


def _beyond(words: npt.NDArray[np.uint64], precision: int) -> Mask:
    """Which numbers have more digits than so many."""
    below = (words[:, -1] >> np.uint64(63)).astype(np.bool_)
    magnitudes = np.where(below[:, None], ~words, words)
    if below.any():
        magnitudes = _added(magnitudes, below, 1)
    limit = 10**precision
    more = np.zeros(len(words), np.bool_)
    equal = np.ones(len(words), np.bool_)
    for index in range(words.shape[1] - 1, -1, -1):
        bound = np.uint64(limit >> (64 * index) & (2**64 - 1))
        more |= equal & (magnitudes[:, index] > bound)
        equal &= magnitudes[:, index] == bound
    return more | equal


def _encode_bytes(coding: FixedBytes, array: pa.Array) -> Octets:
    starts, data = binary_parts(array)
    entries = np.zeros((len(array), coding.width), np.uint8)
    stored = np.diff(starts) == coding.length
    rows = np.flatnonzero(stored & ~np.asarray(array.is_null()) if array.null_count else stored)
    if len(rows):
        entries[rows, coding.width - coding.length :] = data[starts[:-1][rows][:, None] + np.arange(coding.length)]
    return entries


def _decode_bytes(coding: FixedBytes, entries: Octets, null: Mask | None) -> Decoded:
    bad = None
    values = entries
    if coding.nullable:
        bad = entries[:, 0] != 0 if null is None else (entries[:, 0] != 0) & ~null
        values = entries[:, 1:]
    fixed = numbers_as(values, pa.binary(coding.length), null)
    return fixed.cast(pa.binary()), None if bad is None else some(bad)


def big_endian(numbers: npt.NDArray[np.int64], width: int) -> Octets:
    """The low ``width`` bytes of numbers, most significant first, as (rows, width)."""
    words = numbers.astype(">i8").view(np.uint8).reshape(-1, 8)
    return np.ascontiguousarray(words[:, 8 - width :])


def from_big_endian(entries: Octets) -> npt.NDArray[np.int64]:
    """Numbers without a sign of bytes of shape (rows, at most 7), most significant first."""
    words = np.zeros((len(entries), 8), np.uint8)
    words[:, 8 - entries.shape[1] :] = entries
    return words.view(">i8").reshape(-1).astype(np.int64)
