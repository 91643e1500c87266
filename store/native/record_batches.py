"""Record batches of Kafka, format 2: where they are in a broker's answer, and where their records' values and keys are.

Nothing of the bytes is believed: what cannot be is an error. A batch is a row
of ``BATCH_FIELDS`` numbers, which the constants ``BATCH_…`` of ``abi`` name. The format is documented at
https://kafka.apache.org/documentation/#recordbatch
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt

from sparkhaven.store.native.abi import (
    BATCH_COUNT,
    BATCH_END_FULL,
    BATCH_FIELDS,
    RecordFactsLayout,
)
from sparkhaven.store.native.library import address, core

Octets = npt.NDArray[np.uint8]
Longs = npt.NDArray[np.int64]
Batches = npt.NDArray[np.int64]

CODEC, BY_BROKER, TRANSACTIONAL, CONTROL = 7, 8, 16, 32  # bits of the attributes
LEAST = 7  # bytes of a record
_MOST = np.iinfo(np.int32).max
_new_bytes = ctypes.pythonapi.PyBytes_FromStringAndSize  # without content: whoever asks for the object fills it
_new_bytes.restype, _new_bytes.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_ssize_t]


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
    batches = np.empty((64, BATCH_FIELDS), np.int64)
    stopped = (ctypes.c_int64 * 2)()
    while True:
        count = library.sh_kafka_batches(
            address(data), len(data), address(batches), len(batches), ctypes.addressof(stopped)
        )
        if stopped[1] != BATCH_END_FULL:
            return batches[:count], stopped[1]
        batches = np.empty((8 * len(batches), BATCH_FIELDS), np.int64)


def sound_batches(data: Octets, batches: Batches) -> int:
    """How many of the first batches have the CRC-32C that they say."""
    library = core()
    count: int = library.sh_kafka_check(address(data), address(batches), len(batches))
    return count


def find_records(data: Octets, batches: Batches, start: int) -> Records:
    """The records at or after an offset, of batches that are not compressed. DamagedBatchError."""
    library = core()
    records = Records.room(int(batches[:, BATCH_COUNT].sum()))
    layout = RecordFactsLayout(**{entry.name: address(getattr(records, entry.name)) for entry in fields(records)})
    count: int = library.sh_kafka_records(
        address(data), address(batches), len(batches), start, ctypes.byref(layout), len(records)
    )
    if count < 0:
        raise DamagedBatchError(-1 - count)
    return records if count == len(records) else records.part(slice(count))


def find_headers(data: Octets, records: Records, name: bytes) -> tuple[Longs, Longs]:
    """Where the value of the last header of a name begins in each record, and its length, -1 for none.

    DamagedBatchError where headers are not what they say.
    """
    starts = records.value_starts + np.maximum(records.values, 0)
    value_starts, lengths = np.empty((2, len(starts)), np.int64)
    where = address(data), len(data), address(starts), len(starts), name, len(name)
    done: int = core().sh_kafka_headers(*where, address(value_starts), address(lengths))
    if done < len(starts):
        raise DamagedBatchError(done)
    return value_starts, lengths


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
    data: bytes = _new_bytes(None, size)
    out, used, number = address(np.frombuffer(data, np.uint8)), 0, 1
    for (octets, starts, lengths), some in zip(parts, valid, strict=True):
        where = address(octets), address(starts), address(lengths)
        used = library.sh_kafka_copy(*where, len(lengths), out, used, size, address(ends[number:]))
        if used < 0:
            raise ValueError(f"messages do not have the {size} bytes that they should")
        number += int(np.count_nonzero(some))
    return data, ends
