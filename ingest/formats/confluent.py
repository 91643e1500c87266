"""The frame of a schema registry before a payload, as Confluent's serializers write it.

A frame is a zero byte and the id of a schema in four bytes, big-endian. Before a Protobuf message the path of its type
follows: how many indexes there are and each of them, as zigzag numbers. A zero stands for the first message. Frames of
others are not read, but named in the reason of a bad row.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol
from uuid import RFC_4122, UUID

import numpy as np

from sparkhaven.ingest.bad_rows import BadRow, Rejects, bad_row
from sparkhaven.ingest.content.lines import LineBlock, framed_block
from sparkhaven.ingest.values.refusals import Refusal
from sparkhaven.ingest.values.typed_rows import TypedRows
from sparkhaven.store.quarantine.rejected_rows import Reason

HEAD = struct.Struct(">bI")
LIKELY_IDS = 1 << 24  # a payload whose first bytes say a larger id is something else
NO_FRAME = Refusal(
    Reason.NO_FRAME,
    "a zero byte, the id of a schema in four bytes, and the payload",
    "it does not begin with a zero byte and the id of its schema",
)
SINGLE_OBJECT, _SINGLE_OBJECT_BYTES = b"\xc3\x01", 10
_GUID_FRAMES = {
    b"\x03\x00": "the frame of AWS Glue",
    b"\x03\x05": "the frame of AWS Glue before a packed payload",
    b"\x01": "the frame of a schema registry by GUID",
}
_MOST_INDEXES, _MOST_BYTES = 100, 5
_SHOWN_BYTES = 64


class FramedDecode(Protocol):
    """Framed payloads to typed rows; bad ones are rejected."""

    def __call__(self, block: LineBlock, file: str, rejects: Rejects) -> TypedRows:
        """Good rows in order; ``file`` is topic/partition."""


def schema_id(payload: bytes) -> int | None:
    """The id in the frame of a payload; None if it has no frame."""
    if len(payload) < HEAD.size or payload[0] != 0:
        return None
    return int(HEAD.unpack_from(payload)[1])


def message_indexes(payload: bytes) -> tuple[tuple[int, ...], int]:
    """The path of a Protobuf type in a frame, and where the message begins. ValueError for a path that is none."""
    count, offset = _zigzag(payload, HEAD.size)
    if count == 0:
        return (0,), offset
    if not 0 < count <= _MOST_INDEXES:
        raise ValueError(f"its frame has {count} message indexes")
    indexes = []
    for _ in range(count):
        index, offset = _zigzag(payload, offset)
        indexes.append(index)
    return tuple(indexes), offset


@dataclass(frozen=True, slots=True)
class LikelyFrame:
    """What a payload that cannot be read begins with, and what takes it: a setting, or what to send in its place."""

    words: str
    taken_by: str


def likely_frame(payload: bytes, of: str) -> LikelyFrame | None:
    """The frame that a payload seems to have: of a registry by id or by GUID, of AWS Glue, or Avro's own."""
    table, setting = ("[feed]", "feed") if of == "value" else ("key of [feed]", "feed.key")
    number, guid = schema_id(payload), _guid(payload)
    if number is not None and number < LIKELY_IDS and len(payload) > HEAD.size:
        taken_by = f'a payload without a frame, or frame = "confluent" in {table} (Avro: {setting}.avro.registry)'
        return LikelyFrame(f"the frame of a schema registry: a zero byte and schema id {number}", taken_by)
    if payload.startswith(SINGLE_OBJECT) and len(payload) >= _SINGLE_OBJECT_BYTES:
        fingerprint = payload[len(SINGLE_OBJECT) : _SINGLE_OBJECT_BYTES].hex()
        words = f"Avro's single-object encoding of the schema with fingerprint {fingerprint}"
        return LikelyFrame(words, f"the schema with this fingerprint in {setting}.avro.schema, and Avro as the format")
    if guid is not None:
        taken_by = "a payload without it, or with the frame of a registry by id. No setting takes this one"
        return LikelyFrame(f"{guid[0]}, schema {guid[1]}", taken_by)
    return None


def _guid(payload: bytes) -> tuple[str, UUID] | None:
    """Which frame with a GUID a payload begins with: Glue's (3, compression), or that of a registry (1)."""
    for head, words in _GUID_FRAMES.items():
        guid = payload[len(head) : len(head) + 16]
        if payload.startswith(head) and len(guid) == 16 and UUID(bytes=guid).variant == RFC_4122:
            return words, UUID(bytes=guid)
    return None


def without_frames(decode: FramedDecode, text: Callable[[bytes], bytes]) -> FramedDecode:
    """A decoder of what is behind frames, which ``text`` turns into UTF-8. A payload without a frame is a bad row."""

    def unframed(block: LineBlock, file: str, rejects: Rejects) -> TypedRows:
        payloads = [block.line(index) for index in range(len(block))]
        good = np.fromiter((schema_id(payload) is not None for payload in payloads), np.bool_, len(payloads))
        rejects.add_all(
            _no_frame(payloads[index], file, int(block.numbers[index])) for index in np.flatnonzero(~good).tolist()
        )
        bodies = [text(payloads[index][HEAD.size :]) for index in np.flatnonzero(good).tolist()]
        return decode(framed_block(bodies, block.numbers[good]), file, rejects)

    return unframed


def _no_frame(payload: bytes, file: str, number: int) -> BadRow:
    return bad_row(file, number, None, NO_FRAME, payload[:_SHOWN_BYTES].hex(" "), payload)


def _zigzag(payload: bytes, offset: int) -> tuple[int, int]:
    """A zigzag number of at most 32 bits, and where it ends."""
    number = 0
    for shift in range(_MOST_BYTES):
        if offset >= len(payload):
            raise ValueError("its frame ends too early")
        byte = payload[offset]
        offset += 1
        number |= (byte & 0x7F) << (7 * shift)
        if byte < 0x80:
            return (number >> 1) ^ -(number & 1), offset
    raise ValueError("its frame has a message index of more than 32 bits")
