"""Record batches of Kafka byte by byte, as its documentation has them, also such as no client writes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from struct import pack

CODECS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
BY_BROKER, TRANSACTIONAL, CONTROL = 8, 16, 32
ABORT, COMMIT = 0, 1


@dataclass
class Rec:
    """A record; its offset and time are those of its batch and so much more."""

    behind: int
    value: bytes | None
    key: bytes | None = None
    later_ms: int = 0
    headers: Sequence[tuple[str, bytes | None]] = ()


def number(value: int) -> bytes:
    """With its sign in the lowest bit, seven bits a byte."""
    word = (value << 1) ^ (value >> 63)
    octets = bytearray()
    while word >= 0x80:
        octets.append(word & 0x7F | 0x80)
        word >>= 7
    return bytes([*octets, word])


def record(rec: Rec) -> bytes:
    """One of them, with its length."""

    def part(octets: bytes | None) -> bytes:
        return number(-1) if octets is None else number(len(octets)) + octets

    headers = b"".join(part(name.encode()) + part(value) for name, value in rec.headers)
    body = b"\0" + number(rec.later_ms) + number(rec.behind) + part(rec.key) + part(rec.value)
    body += number(len(rec.headers)) + headers
    return number(len(body)) + body


def batch(
    first: int,
    records: Sequence[Rec],
    *,
    attributes: int = 0,
    last: int | None = None,
    time_ms: int = 1_795_255_200_000,
    max_time_ms: int = 1_795_255_209_999,
    producer: int = -1,
    epoch: int = 0,
    count: int | None = None,
    packed: Callable[[bytes], bytes] = bytes,
) -> bytes:
    """A batch whose records are ``packed`` by the codec that the attributes name; ``last`` is its last offset."""
    behind = (last - first) if last is not None else max((rec.behind for rec in records), default=0)
    head = pack(">hiqqqhi", attributes, behind, time_ms, max_time_ms, producer, 0, 0)
    body = head + pack(">i", len(records) if count is None else count) + packed(b"".join(map(record, records)))
    return pack(">qi", first, len(body) + 9) + pack(">ibI", epoch, 2, crc_castagnoli(body)) + body


def marker(first: int, kind: int, producer: int) -> bytes:
    """The end of a transaction."""
    rec = Rec(0, pack(">hi", 0, 0), pack(">hh", 0, kind))
    return batch(first, [rec], attributes=TRANSACTIONAL | CONTROL, producer=producer)


def xerial(octets: bytes, pack_block: Callable[[bytes], bytes], size: int = 100) -> bytes:
    """Frames as Java's clients write them, of blocks of so many bytes."""
    blocks = [pack_block(octets[start : start + size]) for start in range(0, len(octets), size)]
    return b"\x82SNAPPY\x00" + pack(">ii", 1, 1) + b"".join(pack(">i", len(block)) + block for block in blocks)


def crc_castagnoli(octets: bytes) -> int:
    """CRC-32C by its table."""
    state = 0xFFFFFFFF
    for octet in octets:
        state = state >> 8 ^ _TABLE[(state ^ octet) & 0xFF]
    return state ^ 0xFFFFFFFF


def _entry(octet: int) -> int:
    for _ in range(8):
        octet = octet >> 1 ^ (0x82F63B78 if octet & 1 else 0)
    return octet


_TABLE = [_entry(octet) for octet in range(256)]
