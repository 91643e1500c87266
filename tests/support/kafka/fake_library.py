"""One partition of a topic without a broker: librdkafka's functions, as the reader of batches calls them."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import cast

from confluent_kafka import KafkaError, KafkaException

from sparkhaven.ingest.feeds.kafka.broker.batches import BatchClient
from sparkhaven.ingest.feeds.kafka.broker.librdkafka import Librdkafka, RefusedError
from sparkhaven.store.native.abi import MessageLayout
from tests.support.ingest.messages import Fake

_TIME = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.POINTER(ctypes.c_int))
_FREE = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
PARTITION = 3


class FakeLibrary:
    """A log that begins at ``low`` and ends at ``end``, and what was asked of it.

    ``alive`` are the messages that were handed out and not given back. ``portion`` is the most that one call brings,
    ``events`` are codes that come before the next message, ``failing`` is the code of a function's error by its name.
    """

    def __init__(self, log: Sequence[Fake] = (), *, low: int = 0, end: int | None = None, portion: int = 1000) -> None:
        self.log, self.low, self.portion = list(log), low, portion
        self.end = end if end is not None else (self.log[-1].at + 1 if self.log else low)
        self.alive: dict[int, tuple[MessageLayout, Fake, list[object]]] = {}
        self.calls: list[tuple[object, ...]] = []
        self.events: list[int] = []
        self.failing: dict[str, int] = {}
        self.refuses: str | None = None
        self.callback = 0
        self.reader: BatchClient | None = None  # whose room must not be left
        self._position: int | None = None
        self._end_told = False
        self._lists: dict[int, list[object]] = {}
        self._functions = _TIME(self._time_of), _FREE(self._free)
        self.time_of, self.free = (ctypes.cast(one, ctypes.c_void_p).value or 0 for one in self._functions)

    def asked(self, name: str) -> list[tuple[object, ...]]:
        """What was given to each call of a function."""
        return [call[1:] for call in self.calls if call[0] == name]

    def names(self) -> list[object]:
        """The functions in the order of their calls."""
        return [call[0] for call in self.calls]

    # what BatchClient calls

    def conf(self, settings: Mapping[str, object]) -> int:
        if self.refuses is not None:
            raise RefusedError(self.refuses)
        self.calls.append(("conf", dict(settings)))
        return 11

    def conf_set_error_cb(self, conf: int, callback: ctypes.c_void_p) -> None:
        assert conf == 11
        self.callback = callback.value or 0

    def client(self, kind: int, conf: int) -> int:
        self.calls.append(("client", kind, conf))
        return 12

    def poll_set_consumer(self, client: int) -> int:
        self.calls.append(("poll_set_consumer", client))
        return 0

    def queue_get_consumer(self, client: int) -> int:
        assert client == 12
        return 13

    def consumer_close(self, client: int) -> int:
        assert not self.alive, "messages are given back before the consumer ends"
        self.calls.append(("consumer_close", client))
        return 0

    def queue_destroy(self, queue: int) -> None:
        self.calls.append(("queue_destroy", queue))

    def destroy(self, client: int) -> None:
        self.calls.append(("destroy", client))

    def topic_partition_list_new(self, count: int) -> int:
        self._lists[14] = [count]
        return 14

    def topic_partition_list_add(self, some: int, topic: bytes, partition: int) -> int:
        self._lists[some] += [topic, partition]
        return 1

    def topic_partition_list_set_offset(self, some: int, topic: bytes, partition: int, offset: int) -> int:
        assert self._lists[some] == [1, topic, partition]
        self._lists[some].append(offset)
        return 0

    def topic_partition_set_leader_epoch(self, entry: int, epoch: int) -> None:
        assert entry == 1 and epoch >= -1

    def topic_partition_list_destroy(self, some: int) -> None:
        del self._lists[some]

    def assign(self, client: int, some: int) -> int:
        _, topic, partition, offset = self._lists[some]
        self.calls.append(("assign", client, topic, partition, offset))
        self._position, self._end_told = cast(int, offset), False
        return self.failing.get("assign", 0)

    def consume_batch_queue(self, queue: int, wait_ms: int, room: int, count: int) -> int:
        self.calls.append(("consume", queue, wait_ms, count))
        if "consume" in self.failing:
            return -1
        found = self._next(min(count, self.portion))
        if self.reader is not None:
            pointers = self.reader._handles.pointers
            start = pointers.__array_interface__["data"][0]
            assert start <= room and room + count * 8 <= start + pointers.nbytes, "less room than was said"
        ctypes.memmove(room, (ctypes.c_uint64 * len(found))(*found), 8 * len(found))
        return len(found)

    def message_leader_epoch(self, pointer: int) -> int:
        assert pointer in self.alive
        return -1

    def last_error(self) -> int:
        return self.failing["consume"]

    def message_errstr(self, pointer: int) -> bytes:
        return f"event at {self.alive[pointer][0].offset}".encode()

    def query_watermark_offsets(
        self, client: int, topic: bytes, partition: int, low: int, high: int, wait_ms: int
    ) -> int:
        self.calls.append(("bounds", client, topic, partition, wait_ms))
        ctypes.c_int64.from_address(low).value, ctypes.c_int64.from_address(high).value = self.low, self.end
        return self.failing.get("bounds", 0)

    def error(self, code: int, text: bytes | None = None) -> KafkaException:
        return KafkaException(KafkaError(code, (text or b"in librdkafka's words").decode()))

    # what it does

    def _next(self, count: int) -> list[int]:
        assert self._position is not None, "asked before it was assigned"
        found: list[int] = []
        while self.events and len(found) < count:
            found.append(self._made(Fake(self._position, b"what is wrong"), self.events.pop(0)))
        if not self.low <= self._position <= self.end:
            return [*found, self._made(Fake(self._position, None), KafkaError._AUTO_OFFSET_RESET)]
        for message in self.log:
            if message.at >= self._position and len(found) < count:
                found.append(self._made(message, 0))
                self._position = message.at + 1
        if len(found) < count and not self._end_told:
            self._end_told, self._position = True, self.end
            found.append(self._made(Fake(self.end, None), KafkaError._PARTITION_EOF))
        return found

    def _made(self, message: Fake, code: int) -> int:
        made = MessageLayout(error=code, partition=PARTITION, offset=message.at)
        kept: list[object] = []
        for payload, at, length in ((message.payload, "payload", "length"), (message.name, "key", "key_length")):
            if payload is not None:
                kept.append(ctypes.create_string_buffer(payload, max(1, len(payload))))
                setattr(made, at, ctypes.addressof(kept[-1]))  # type: ignore[arg-type]
                setattr(made, length, len(payload))
        pointer = ctypes.addressof(made)
        self.alive[pointer] = made, message, kept
        return pointer

    def _time_of(self, pointer: int, kind: ctypes._Pointer[ctypes.c_int]) -> int:
        kind[0], at = self.alive[pointer][1].timestamp()
        return at

    def _free(self, pointer: int) -> None:
        assert pointer in self.alive, "given back twice"  # in a callback: pytest reports it as unraisable
        del self.alive[pointer]

    @property
    def library(self) -> Librdkafka:
        """This, as what is asked for."""
        return cast(Librdkafka, self)


@contextmanager
def all_given_back(library: FakeLibrary) -> Iterator[None]:
    """No message of the library is left in the end."""
    yield
    assert not library.alive, f"{len(library.alive)} messages were not given back"


def numbered(count: int, start: int = 0, step: int = 1) -> list[Fake]:
    """Messages with their offset as value, and a key in every second."""
    return [
        Fake(at, b"%d" % at, b"k%d" % at if at % 2 else None, 1000 + at)
        for at in range(start, start + count * step, step)
    ]
