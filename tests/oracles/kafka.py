"""Record batches of Kafka, byte by byte: for property tests to compare with."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields
from struct import Struct

import numpy as np

from sparkhaven.store.native.abi import (
    BATCH_ATTRIBUTES,
    BATCH_COUNT,
    BATCH_END_CUT,
    BATCH_END_DAMAGED,
    BATCH_END_MAGIC,
    BATCH_FIELDS,
    BATCH_FIRST,
    BATCH_LAST,
    BATCH_MAX_TIME,
    BATCH_START,
    BATCH_STOP,
    BATCH_TIME,
)
from sparkhaven.store.native.record_batches import (
    BY_BROKER,
    CODEC,
    LEAST,
    Batches,
    DamagedBatchError,
    Longs,
    Octets,
    Records,
)

_HEAD, _UNCOUNTED, _CHECKED, _FORMAT = 61, 12, 21, 2
_Head = Struct(">qiibIhiqqqhii")  # from the first offset to the number of records


def plain_find_batches(data: Octets) -> tuple[Batches, int]:
    batches: list[list[int]] = []
    octets, start, last = data.tobytes(), 0, -1
    while True:
        end = BATCH_END_CUT
        if len(octets) - start <= 16:
            break
        length = int.from_bytes(octets[start + 8 : start + 12], "big", signed=True)
        if octets[start + 16] != _FORMAT:
            end = BATCH_END_MAGIC
            break
        end = BATCH_END_DAMAGED
        if length < _HEAD - _UNCOUNTED:
            break
        if length > len(octets) - start - _UNCOUNTED:
            end = BATCH_END_CUT
            break
        stop = start + _UNCOUNTED + length
        head = _Head.unpack_from(octets, start)
        first, _, epoch, _, _, attributes, behind, time_ms, max_time_ms, producer, _, _, count = head
        whole = attributes & CODEC or count <= (stop - start - _HEAD) // LEAST
        if first < 0 or behind < 0 or first + behind >= 2**63 - 1 or count < 0 or not whole or first <= last:
            break
        last = first + behind
        batch = [start + _HEAD, stop, first, last, count, attributes & 0xFFFF, time_ms, max_time_ms, producer, epoch]
        batches.append(batch)
        start = stop
    return np.array(batches, np.int64).reshape(-1, BATCH_FIELDS), end


def plain_sound_batches(data: Octets, batches: Batches) -> int:
    for number, batch in enumerate(batches.tolist()):
        start, stop = batch[BATCH_START] - _HEAD, batch[BATCH_STOP]
        if _crc_castagnoli(data[start + _CHECKED : stop].tobytes()) != _Head.unpack_from(data.data, start)[4]:
            return number
    return len(batches)


def _crc_castagnoli(octets: bytes) -> int:
    state = 0xFFFFFFFF
    for octet in octets:
        state ^= octet
        for _ in range(8):
            state = state >> 1 ^ (0x82F63B78 if state & 1 else 0)
    return state ^ 0xFFFFFFFF


def plain_find_records(data: Octets, batches: Batches, start: int) -> Records:
    rows: list[tuple[int, ...]] = []
    for number, batch in enumerate(batches.tolist()):
        try:
            rows += (row for row in _records(data.tobytes(), batch) if row[0] >= start)
        except ValueError:
            raise DamagedBatchError(number) from None
    return Records(*np.array(rows, np.int64).reshape(-1, len(fields(Records))).T)


def _records(octets: bytes, batch: Sequence[int]) -> Iterator[tuple[int, ...]]:
    position, stop, last = batch[BATCH_START], batch[BATCH_STOP], batch[BATCH_FIRST] - 1
    for _ in range(batch[BATCH_COUNT]):
        length, position = _number(octets, position, stop)
        end = position + length
        if length < 1 or end > stop:
            raise ValueError(length)
        later, position = _number(octets, position + 1, end)
        behind, position = _number(octets, position, end)
        payloads = []
        for _ in range(2):  # key, then value
            size, position = _number(octets, position, end)
            if size < -1 or size > end - position:
                raise ValueError(size)
            payloads.append((position, size))
            position += max(size, 0)
        offset = batch[BATCH_FIRST] + behind
        if behind < 0 or offset > batch[BATCH_LAST] or offset <= last:
            raise ValueError(offset)
        last, position = offset, end
        time_ms = batch[BATCH_MAX_TIME]
        if not batch[BATCH_ATTRIBUTES] & BY_BROKER:
            time_ms = (batch[BATCH_TIME] + later + 2**63) % 2**64 - 2**63
        yield offset, max(time_ms, -1), *payloads[1], *payloads[0]
    if position != stop:
        raise ValueError(position)


def _number(octets: bytes, position: int, stop: int) -> tuple[int, int]:
    """A number with the sign in its lowest bit, and where it ends."""
    word = 0
    for shift in range(0, 70, 7):
        if position >= stop:
            break
        octet = octets[position]
        position += 1
        word |= (octet & 0x7F) << shift
        if octet < 0x80:
            if word >= 2**64:
                break
            return (word >> 1) ^ -(word & 1), position
    raise ValueError(word)


def plain_find_headers(data: Octets, starts: Longs, name: bytes) -> tuple[Longs, Longs]:
    octets, values = data.tobytes(), np.zeros((2, len(starts)), np.int64)
    for number, position in enumerate(starts.tolist()):
        values[:, number] = 0, -1
        try:
            count, position = _number(octets, position, len(octets))
            if count < 0:
                raise ValueError(count)
            for _ in range(count):
                size, start = _number(octets, position, len(octets))
                if not 0 <= size <= len(octets) - start:
                    raise ValueError(size)
                length, position = _number(octets, start + size, len(octets))
                if length < -1 or length > len(octets) - position:
                    raise ValueError(length)
                if octets[start : start + size] == name:
                    values[:, number] = position, length
                position += max(length, 0)
        except ValueError:
            raise DamagedBatchError(number) from None
    return values[0], values[1]
