"""Messages of librdkafka, as an array of pointers: what they are, and their payloads as framed records.

Pointers are ``uint64``; none may be null, and each message has to be alive.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt

from sparkhaven.store.native.abi import KafkaFactsLayout
from sparkhaven.store.native.buffers import address
from sparkhaven.store.native.library import core

Pointers = npt.NDArray[np.uint64]
Longs = npt.NDArray[np.int64]

new_bytes = ctypes.pythonapi.PyBytes_FromStringAndSize  # without content: whoever asks for the object fills it
new_bytes.restype, new_bytes.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_ssize_t]


@dataclass(frozen=True, slots=True)
class MessageFacts:
    """One entry a message. ``errors`` are librdkafka's codes, 0 for none; ``values`` and ``keys`` are lengths in bytes,
    -1 for none; ``times`` are ms since 1970, -1 for none.
    """

    errors: npt.NDArray[np.int32]
    offsets: Longs
    values: Longs
    keys: Longs
    times: Longs

    @classmethod
    def room(cls, count: int) -> MessageFacts:
        return cls(np.empty(count, np.int32), *(np.empty(count, np.int64) for _ in range(4)))

    def part(self, where: slice | npt.NDArray[np.bool_]) -> MessageFacts:
        return MessageFacts(*(getattr(self, entry.name)[where] for entry in fields(self)))

    def take(self, other: MessageFacts) -> None:
        """Entries of another, as many as there are here."""
        for entry in fields(self):
            getattr(self, entry.name)[:] = getattr(other, entry.name)


def look(pointers: Pointers, partition: int, time_of: int, facts: MessageFacts) -> int:
    """Fills ``facts``; how many messages have an error. ValueError: a message is of another partition.

    ``time_of`` is the address of ``rd_kafka_message_timestamp``.
    """
    library = core()
    layout = KafkaFactsLayout(**{entry.name: address(getattr(facts, entry.name)) for entry in fields(facts)})
    errors: int = library.sh_kafka_look(address(pointers), len(pointers), partition, time_of, ctypes.byref(layout))
    if errors < 0:
        raise ValueError(f"a message is not of partition {partition}")
    return errors


def frame(pointers: Pointers, lengths: Longs, *, keys: bool) -> tuple[bytes, npt.NDArray[np.int32]]:
    """Values, or keys, of the messages that have one, each followed by a line feed; and where each ends, after a 0.

    ``lengths`` are those that ``look`` found. The payloads are copied once. ValueError: they have other lengths, or
    2 GiB and more in all.
    """
    valid = lengths >= 0
    count = int(np.count_nonzero(valid))
    size = int(lengths.sum(where=valid)) + count
    most = np.iinfo(np.int32).max
    if size > most or (lengths > most).any():  # the sum of lengths of another layout may be negative
        raise ValueError(f"{max(size, int(lengths.max()))} bytes of messages are too many for one block")
    library = core()
    ends = np.empty(len(pointers) + 1, np.int32)  # for all of them: more than `lengths` says may have a payload
    data: bytes = new_bytes(None, size)
    octets = np.frombuffer(data, np.uint8)
    framed = library.sh_kafka_frame(address(pointers), len(pointers), int(keys), address(octets), size, address(ends))
    if framed != count or ends[count] != size:
        raise ValueError(f"messages do not have the {size} bytes that they should")
    return data, ends[: count + 1]


def release(pointers: Pointers, free: int) -> None:
    """Gives messages back to librdkafka; ``free`` is the address of ``rd_kafka_message_destroy``."""
    core().sh_kafka_release(address(pointers), len(pointers), free)
