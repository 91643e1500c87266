"""Brokers on loopback that speak what a reader of one partition asks, from a log in memory, and fail as they are told.

They are written after the protocol's documentation, without the code that they test.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from struct import pack, unpack_from
from typing import Literal

PRODUCE, FETCH, LIST_OFFSETS, METADATA, API_VERSIONS = 0, 1, 2, 3, 18
OUT_OF_RANGE, UNKNOWN_TOPIC, NOT_LEADER, UNSUPPORTED, FENCED, UNKNOWN_ID = 1, 3, 6, 35, 74, 100
KAFKA_21 = {PRODUCE: (0, 7), FETCH: (10, 10), LIST_OFFSETS: (2, 2), METADATA: (7, 7), API_VERSIONS: (0, 0)}
KAFKA_31 = {PRODUCE: (0, 9), FETCH: (13, 13), LIST_OFFSETS: (2, 2), METADATA: (10, 10), API_VERSIONS: (0, 0)}
TOPIC, PARTITION = "ticks", 3
Failure = Literal["end", "half", "silent", "garbage"]


@dataclass
class Partition:
    """Batches by their first and last offset. ``errors`` are answered to the next Fetches, 0 for none.

    ``epoch_ends``: where former epochs end; others but 0 are not known. ``replica``: is named as the
    one to read by whoever asks the leader from this rack; it has messages before ``replica_end``.
    """

    batches: list[tuple[int, int, bytes]] = field(default_factory=list)
    low: int = 0
    end: int = 0
    leader: int = 0
    epoch: int = 5
    aborted: list[tuple[int, int]] = field(default_factory=list)
    errors: list[int] = field(default_factory=list)
    topic_error: int = 0
    topic_id: bytes = b"0123456789abcdef"
    epoch_ends: dict[int, int] = field(default_factory=dict)
    throttle_ms: int = 0
    replica: tuple[str, int] | None = None
    replica_end: int = 0

    def put(self, first: int, last: int, octets: bytes) -> None:
        self.batches.append((first, last, octets))
        self.end = last + 1


@dataclass
class Asked:
    """A Fetch that came."""

    node: int
    version: int
    offset: int
    epoch: int
    size: int
    committed: bool
    topic: bytes
    last_epoch: int = -1
    rack: str = ""


class Brokers:
    """Some brokers of one cluster, which has one partition."""

    def __init__(self, count: int = 1, versions: dict[int, tuple[int, int]] | None = None) -> None:
        self.partition, self.versions = Partition(), versions or KAFKA_31
        self.fetches: list[Asked] = []
        self.failures: list[Failure | None] = []  # what becomes of the next Fetches
        self.listeners = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
        self.connections: list[list[socket.socket]] = [[] for _ in range(count)]
        self._ports: list[int] = [listener.getsockname()[1] for listener in self.listeners]
        self._lock = threading.Lock()
        for node in range(count):
            threading.Thread(target=self._serve, args=(node,), daemon=True).start()

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port(0)}"

    def port(self, node: int) -> int:
        return self._ports[node]

    def kill(self, node: int) -> None:
        """It takes no connections any more, and ends those that it has."""
        self.listeners[node].shutdown(socket.SHUT_RDWR)
        self.listeners[node].close()
        self.disconnect(node)

    def disconnect(self, node: int) -> None:
        for connection in self.connections[node]:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        for node in range(len(self.listeners)):
            with suppress(OSError):
                self.kill(node)

    def _serve(self, node: int) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self.listeners[node].accept()
                self.connections[node].append(connection)
                threading.Thread(target=self._talk, args=(node, connection), daemon=True).start()

    def _talk(self, node: int, connection: socket.socket) -> None:
        with connection, suppress(OSError):
            while (head := _read(connection, 4)) is not None:
                request = _read(connection, unpack_from(">i", head)[0])
                if request is None:
                    return
                api, version, number, client = unpack_from(">hhih", request)
                body = request[10 + client :]
                with self._lock:
                    answer = pack(">i", number) + self._answered(node, api, version, body)
                    failure = self.failures.pop(0) if api == FETCH and self.failures else None
                if failure == "silent":
                    continue
                if failure == "garbage":
                    answer = pack(">i", number) + b"\x7f" * 50
                whole = pack(">i", len(answer)) + answer
                connection.sendall(whole[: len(whole) // 2] if failure == "half" else whole)
                if failure in ("half", "end"):
                    return

    def _answered(self, node: int, api: int, version: int, body: bytes) -> bytes:
        low, high = self.versions.get(api, (0, -1))
        if api == API_VERSIONS:
            parts = [pack(">hhh", key, *bounds) for key, bounds in self.versions.items()]
            return pack(">hi", 0 if version <= high else UNSUPPORTED, len(parts)) + b"".join(parts)
        assert low <= version <= high, f"request {api} in version {version}"
        if api == METADATA:
            return self._metadata(version)
        if api == FETCH:
            return self._fetched(node, version, body)
        assert api == LIST_OFFSETS
        (time,) = unpack_from(">q", body, len(body) - 8)
        offset = self.partition.low if time == -2 else self.partition.end
        return pack(">iih", 0, 1, len(TOPIC)) + TOPIC.encode() + pack(">iihqq", 1, PARTITION, 0, -1, offset)

    def _metadata(self, version: int) -> bytes:
        state, newer = self.partition, version >= 10
        text = _compact_text if newer else _text
        count = (lambda number: bytes([number + 1])) if newer else (lambda number: pack(">i", number))
        tags = b"\0" if newer else b""
        brokers = b"".join(
            pack(">i", node) + text("127.0.0.1") + pack(">i", self.port(node)) + text("") + tags
            for node in range(len(self.listeners))
            if self.listeners[node].fileno() >= 0
        )
        alive = sum(listener.fileno() >= 0 for listener in self.listeners)
        lists = count(1) + pack(">i", state.leader) + count(1) + pack(">i", state.leader) + count(0)
        leader = pack(">hiii", 0, PARTITION, state.leader, state.epoch) + lists + tags
        partitions = count(0) if state.topic_error else count(1) + leader
        topic = pack(">h", state.topic_error) + text(TOPIC) + (state.topic_id if newer else b"") + b"\0" + partitions
        topic += (pack(">i", 0) if newer else b"") + tags
        whole = pack(">i", 0) + count(alive) + brokers + text("cluster") + pack(">i", 0) + count(1) + topic
        return tags + whole + (pack(">i", 0) if newer else b"") + tags

    def _fetched(self, node: int, version: int, body: bytes) -> bytes:
        state, newer = self.partition, version >= 13
        body = body[1:] if newer else body  # the tags of the head
        _, _, _, _, committed = unpack_from(">iiiib", body)
        place, last_epoch, rack = 25, -1, ""
        if newer:
            topic = body[place + 1 : place + 17]
            place += 18
            partition, epoch, offset, last_epoch, _, size = unpack_from(">iiqiqi", body, place)
            place += 32 + 3  # tags of partition and topic, and no forgotten ones
            rack = body[place + 1 : place + body[place]].decode()
        else:
            (length,) = unpack_from(">h", body, place + 4)
            topic = body[place + 6 : place + 6 + length]
            place += 6 + length + 4
            partition, epoch, offset, _, size = unpack_from(">iiqqi", body, place)
        assert partition == PARTITION
        self.fetches.append(Asked(node, version, offset, epoch, size, bool(committed), topic, last_epoch, rack))
        error = state.errors.pop(0) if state.errors else 0
        by_replica = state.replica == (rack, node)
        if node != state.leader and not by_replica:
            error = NOT_LEADER
        elif newer and topic != state.topic_id:
            error = UNKNOWN_ID
        elif epoch not in (-1, state.epoch):
            error = FENCED
        elif not error and not state.low <= offset <= (state.replica_end if by_replica else state.end):
            error = OUT_OF_RANGE
        known = state.end if last_epoch in (-1, 0, state.epoch) else state.epoch_ends.get(last_epoch, -1)
        if not error and known < 0:
            error = OUT_OF_RANGE
        diverging = not error and known < offset
        named = state.replica[1] if state.replica is not None and state.replica[0] == rack and not by_replica else -1
        there = [] if error or diverging or named >= 0 else [one for one in state.batches if one[1] >= offset]
        if by_replica:
            there = [one for one in there if one[1] < state.replica_end]
        records = b"".join(octets for _, _, octets in there)
        records = records[: max(size, len(there[0][2]) if there else 0)]
        head = pack(">ihqqq", PARTITION, error, state.end, state.end, state.low)
        if newer:
            aborted = bytes([len(state.aborted) + 1]) + b"".join(pack(">qq", *one) + b"\0" for one in state.aborted)
            end = b"\1\0\x0d" + pack(">iq", last_epoch, known) + b"\0" if diverging else b"\0"
            told = head + aborted + pack(">i", named) + _compact(len(records)) + records + end
            return b"\0" + pack(">ihi", state.throttle_ms, 0, 0) + b"\2" + topic + b"\2" + told + b"\0\0"
        aborted = pack(">i", len(state.aborted) or -1) + b"".join(pack(">qq", *one) for one in state.aborted)
        told = head + aborted + pack(">i", len(records)) + records
        name = pack(">h", len(topic)) + topic
        return pack(">ihi", state.throttle_ms, 0, 0) + pack(">i", 1) + name + pack(">i", 1) + told


@contextmanager
def brokers(count: int = 1, versions: dict[int, tuple[int, int]] | None = None) -> Iterator[Brokers]:
    opened = Brokers(count, versions)
    try:
        yield opened
    finally:
        opened.close()


def _read(connection: socket.socket, size: int) -> bytes | None:
    octets = b""
    while len(octets) < size:
        piece = connection.recv(size - len(octets))
        if not piece:
            return None
        octets += piece
    return octets


def _text(text: str) -> bytes:
    return pack(">h", len(text)) + text.encode() if text else pack(">h", -1)


def _compact_text(text: str) -> bytes:
    return bytes([len(text) + 1]) + text.encode() if text else b"\0"


def _compact(number: int) -> bytes:
    number, octets = number + 1, bytearray()
    while number >= 0x80:
        octets.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*octets, number])


def offsets(asked: Sequence[Asked]) -> list[int]:
    return [one.offset for one in asked]
