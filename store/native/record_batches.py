"""Record batches of Kafka, format 2: where they are in a broker's answer, and where their records' values and keys are.

By the compiled core, else byte by byte. Nothing of the bytes is believed: what cannot be is an error. A batch is a row
of ``BATCH_FIELDS`` numbers, which the constants ``BATCH_…`` of ``abi`` name. The format is documented at
https://kafka.apache.org/documentation/#recordbatch
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from struct import Struct

import numpy as np
import numpy.typing as npt

from sparkhaven.store.native.abi import (
    BATCH_ATTRIBUTES,
    BATCH_COUNT,
    BATCH_END_CUT,
    BATCH_END_DAMAGED,
    BATCH_END_FULL,
    BATCH_END_MAGIC,
    BATCH_FIELDS,
    BATCH_FIRST,
    BATCH_LAST,
    BATCH_MAX_TIME,
    BATCH_START,
    BATCH_STOP,
    BATCH_TIME,
    RecordFactsLayout,
)
from sparkhaven.store.native.buffers import address
from sparkhaven.store.native.kafka_messages import Longs, new_bytes
from sparkhaven.store.native.library import core

Octets = npt.NDArray[np.uint8]
Batches = npt.NDArray[np.int64]

CODEC, BY_BROKER, TRANSACTIONAL, CONTROL = 7, 8, 16, 32  # bits of the attributes
LEAST = 7  # bytes of a record
_HEAD, _UNCOUNTED, _CHECKED = 61, 12, 21
_Head = Struct(">qiibIhiqqqhii")  # from the first offset to the number of records
_FORMAT = 2
_MOST = np.iinfo(np.int32).max


class DamagedBatchError(ValueError):
    """Records that are not what the head of their batch says; ``batch`` is its number."""

    def __init__(self, batch: int) -> None:
        super().__init__(batch)
        self.batch = batch


@dataclass(frozen=True, slots=True)
class Records:
    """One entry a record: its offset, ms since 1970 or -1, and where value and key begin.

    Both have a length in bytes, -1 for none.
    """

    offsets: Longs
    times: Longs
    value_starts: Longs
    values: Longs
    key_starts: Longs
    keys: Longs

    def __len__(self) -> int:
        return len(self.offsets)

    @classmethod
    def room(cls, count: int) -> Records:
        return cls(*np.empty((len(fields(cls)), count), np.int64))

    def part(self, where: slice) -> Records:
        return Records(*(getattr(self, entry.name)[where] for entry in fields(self)))


def find_batches(data: Octets) -> tuple[Batches, int]:
    """The whole batches of an answer, whose offsets rise, and which ``BATCH_END_…`` is behind them."""
    library = core()
    if library is None:
        return plain_find_batches(data)
    batches = np.empty((64, BATCH_FIELDS), np.int64)
    stopped = (ctypes.c_int64 * 2)()
    while True:
        count = library.sh_kafka_batches(
            address(data), len(data), address(batches), len(batches), ctypes.addressof(stopped)
        )
        if stopped[1] != BATCH_END_FULL:
            return batches[:count], stopped[1]
        batches = np.empty((8 * len(batches), BATCH_FIELDS), np.int64)


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


def sound_batches(data: Octets, batches: Batches) -> int:
    """How many of the first batches have the CRC-32C that they say."""
    library = core()
    if library is None:
        return plain_sound_batches(data, batches)
    count: int = library.sh_kafka_check(address(data), address(batches), len(batches))
    return count


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


def find_records(data: Octets, batches: Batches, start: int) -> Records:
    """The records at or after an offset, of batches that are not compressed. DamagedBatchError."""
    library = core()
    if library is None:
        return plain_find_records(data, batches, start)
    records = Records.room(int(batches[:, BATCH_COUNT].sum()))
    layout = RecordFactsLayout(**{entry.name: address(getattr(records, entry.name)) for entry in fields(records)})
    count: int = library.sh_kafka_records(
        address(data), address(batches), len(batches), start, ctypes.byref(layout), len(records)
    )
    if count < 0:
        raise DamagedBatchError(-1 - count)
    return records if count == len(records) else records.part(slice(count))


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


def framed(parts: Sequence[tuple[Octets, Longs, Longs]]) -> tuple[bytes, npt.NDArray[np.int32]]:
    """Payloads that are there, each followed by a line feed; and where each ends, after a 0.

    A part is the bytes, where payloads begin, and their lengths, -1 for none. ValueError: 2 GiB and more in all.
    """
    valid = [lengths >= 0 for _, _, lengths in parts]
    count = sum(int(np.count_nonzero(some)) for some in valid)
    size = sum(int(lengths.sum(where=some)) for (_, _, lengths), some in zip(parts, valid, strict=True)) + count
    if size > _MOST:
        raise ValueError(f"{size} bytes of messages are too many for one block")
    ends = np.zeros(count + 1, np.int32)
    library = core()
    if library is None:
        payloads = [payload for part in parts for payload in _payloads(*part)]
        np.cumsum([len(payload) + 1 for payload in payloads], out=ends[1:])
        return b"\n".join([*payloads, b""]), ends
    data: bytes = new_bytes(None, size)
    out, used, number = address(np.frombuffer(data, np.uint8)), 0, 1
    for (octets, starts, lengths), some in zip(parts, valid, strict=True):
        where = address(octets), address(starts), address(lengths)
        used = library.sh_kafka_copy(*where, len(lengths), out, used, size, address(ends[number:]))
        if used < 0:
            raise ValueError(f"messages do not have the {size} bytes that they should")
        number += int(np.count_nonzero(some))
    return data, ends


def _payloads(octets: Octets, starts: Longs, lengths: Longs) -> Iterator[bytes]:
    whole = octets.tobytes()
    for start, length in zip(starts.tolist(), lengths.tolist(), strict=True):
        if length >= 0:
            yield whole[start : start + length]
