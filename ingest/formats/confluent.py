"""The frame of a schema registry before a payload, as Confluent's serializers write it.

A frame is a zero byte and the id of a schema in four bytes, big-endian. Before a Protobuf message the path of its type
follows: how many indexes there are and each of them, as zigzag numbers. A zero stands for the first message.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Protocol

import numpy as np

from sparkhaven.ingest.bad_rows import BadRow, Rejects, bad_row
from sparkhaven.ingest.content.lines import LineBlock, framed_block
from sparkhaven.ingest.values.refusals import Refusal
from sparkhaven.ingest.values.typed_rows import TypedRows
from sparkhaven.store.quarantine.reasons import Reason

HEAD = struct.Struct(">bI")
LIKELY_IDS = 1 << 24  # a payload whose first bytes say a larger id is something else
NO_FRAME = Refusal(
    Reason.NO_FRAME,
    "a zero byte, the id of a schema in four bytes, and the payload",
    "it does not begin with a zero byte and the id of its schema",
)
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


def likely_frame(payload: bytes) -> int | None:
    """The id of a schema if a payload that cannot be read looks as if it had a frame."""
    number = schema_id(payload)
    return number if number is not None and number < LIKELY_IDS and len(payload) > HEAD.size else None


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
