"""A TCP connection to one broker: requests are sent at once, answers are taken when they are wanted.

A broker answers in the order of the requests. Answers are received into buffers that are used again.
"""

from __future__ import annotations

import socket
import threading
import time
from collections import deque
from collections.abc import Callable
from struct import Struct

import numpy as np

from sparkhaven.ingest.feeds.kafka.broker.wire.fields import Answer, Writer
from sparkhaven.ingest.feeds.kafka.broker.wire.requests import NAMES, Request
from sparkhaven.ingest.feeds.kafka.broker.wire.settings import Address, WireSettings
from sparkhaven.store.native.record_batches import Octets

_Length, _Head = Struct(">i"), Struct(">ii")
_SPARE, _LARGEST_SPARE = 8, 16 << 20  # buffers that are kept, and bytes of one


class LostError(Exception):
    """A connection that cannot be made, or is of no use any more, and why."""


class Buffers:
    """Memory for answers, which is used again once it is given back; of all connections of a reader, in any thread."""

    def __init__(self) -> None:
        self._spare: list[Octets] = []
        self._lock = threading.Lock()

    def take(self, size: int) -> Octets:
        """A buffer of this size or more."""
        with self._lock:
            for number, buffer in enumerate(self._spare):
                if len(buffer) >= size:
                    return self._spare.pop(number)
        return np.empty(size, np.uint8)

    def give(self, buffer: Octets) -> None:
        with self._lock:
            if len(buffer) <= _LARGEST_SPARE:
                self._spare = [*self._spare, buffer][-_SPARE:]


class Received:
    """An answer as it came: its bytes are the first ``size`` of a buffer."""

    __slots__ = ("buffer", "number", "size")

    def __init__(self, buffer: Octets, number: int, size: int) -> None:
        self.buffer, self.number, self.size = buffer, number, size

    def read(self, request: Request) -> Answer:
        """Its fields."""
        answer = Answer(self.buffer.data[: self.size], flexible=request.flexible)
        answer.tags()
        return answer


class Connection:
    """LostError from every method once the connection is lost; whoever has it closes it then."""

    def __init__(
        self,
        address: Address,
        settings: WireSettings,
        buffers: Buffers,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.address, self._settings, self._buffers, self._clock = address, settings, buffers, clock
        self._due: deque[tuple[int, Request, float]] = deque()  # in the order that they are answered in; until when
        self._arrived: dict[int, Received] = {}
        self._dropped: set[int] = set()
        self._number = 0
        self._head, self._filled = bytearray(_Head.size), 0
        self._coming: Received | None = None
        try:
            self._socket = socket.create_connection(address, settings.connect_seconds)
        except OSError as error:
            raise self._lost(f"cannot connect: {error.strerror or error}") from None
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if settings.keepalive:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)

    @property
    def name(self) -> str:
        host, port = self.address
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    def fileno(self) -> int:
        """For ``poll``."""
        return self._socket.fileno()

    def close(self) -> None:
        self._socket.close()

    def send(self, request: Request) -> int:
        """The number of the request, by which ``answer`` knows it."""
        self._number += 1
        writer = Writer(flexible=False).int16(request.api).int16(request.version).int32(self._number)
        writer.text(self._settings.client_id)
        if request.flexible:
            writer.int8(0)
        head = writer.bytes()
        try:
            self._socket.settimeout(self._settings.request_seconds)
            self._socket.sendall(_Length.pack(len(head) + len(request.body)) + head + request.body)
        except OSError as error:
            raise self._lost(f"cannot send: {error.strerror or error}") from None
        self._due.append((self._number, request, self._clock() + self._settings.request_seconds))
        return self._number

    def answer(self, number: int, seconds: float) -> Received | None:
        """The answer to a request; None if nothing of it comes within the time."""
        while number not in self._arrived:
            if not self._receive(seconds):
                return None
        return self._arrived.pop(number)

    def ask(self, request: Request) -> Answer:
        """Sends a request and waits for its answer."""
        number = self.send(request)
        while (received := self.answer(number, self._settings.request_seconds)) is None:
            pass
        answer = received.read(request)
        copy = Answer(memoryview(bytes(answer.data)), flexible=request.flexible, position=answer.position)
        self._buffers.give(received.buffer)
        return copy

    def drop(self, number: int) -> None:
        """Nobody waits for the answer to a request any more."""
        received = self._arrived.pop(number, None)
        if received is not None:
            self._buffers.give(received.buffer)
        else:
            self._dropped.add(number)

    def _receive(self, seconds: float) -> bool:
        """Receives what there is, one answer at most; False if nothing came within the time."""
        self._socket.settimeout(max(0.0, seconds))
        coming, came = self._coming, False
        while coming is None or self._filled < coming.size:
            whole = memoryview(self._head) if coming is None else coming.buffer.data
            size = _Head.size if coming is None else coming.size
            try:
                count = self._socket.recv_into(whole[self._filled : size])
            except (TimeoutError, BlockingIOError):
                _, request, end = self._due[0]
                if not came and self._clock() > end:
                    raise self._lost(f"no answer to {NAMES[request.api]} came in time") from None
                return came
            except OSError as error:
                raise self._lost(f"lost: {error.strerror or error}") from None
            if not count:
                raise self._lost(self._ended())
            self._filled += count
            came = True
            if coming is None and self._filled == _Head.size:
                coming = self._coming = self._begun()
                self._filled = 0
        self._coming, self._filled = None, 0
        self._due.popleft()
        if coming.number in self._dropped:
            self._dropped.remove(coming.number)
            self._buffers.give(coming.buffer)
        else:
            self._arrived[coming.number] = coming
        return True

    def _begun(self) -> Received:
        """The answer of which length and number are there."""
        length, number = _Head.unpack(self._head)
        size = length - _Head.size + _Length.size
        if not self._due or number != self._due[0][0]:
            raise self._lost(f"an answer to request {number}, which was not asked next")
        request = self._due[0][1]
        if not 0 <= size <= self._settings.answer:
            raise self._lost(f"an answer to {NAMES[request.api]} of {length} bytes: receive.message.max.bytes")
        return Received(self._buffers.take(size), number, size)

    def _ended(self) -> str:
        if self._number == 1:
            return "the broker ended the connection at once. Has this listener another security.protocol?"
        return "the broker ended the connection"

    def _lost(self, words: str) -> LostError:
        return LostError(f"{self.name}: {words}")
