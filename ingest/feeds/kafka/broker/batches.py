"""The record batches of one answer: which count, and their records, unpacked as they are wanted.

What is unpacked is bounded: the sizes that a batch states are not trusted.
"""

from __future__ import annotations

import zlib
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import kafka.errors as kp
import numpy as np
import pyarrow as pa

from sparkhaven.ingest.values.arrow_columns import Mask
from sparkhaven.store.native.abi import (
    BATCH_ATTRIBUTES,
    BATCH_COUNT,
    BATCH_END_DAMAGED,
    BATCH_END_MAGIC,
    BATCH_FIRST,
    BATCH_LAST,
    BATCH_PRODUCER,
    BATCH_START,
    BATCH_STOP,
)
from sparkhaven.store.native.record_batches import (
    CODEC,
    CONTROL,
    LEAST,
    TRANSACTIONAL,
    Batches,
    DamagedBatchError,
    Octets,
    Records,
    find_batches,
    find_records,
    sound_batches,
)

MOST = 512 << 20  # bytes of one batch
_PIECE = 1 << 20
_XERIAL, _XERIAL_HEAD = b"\x82SNAPPY\x00", 16  # magic, and two versions of four bytes


class CompressionError(ValueError):
    """Bytes that cannot be unpacked."""


def unpacked(codec: int, data: memoryview, most: int = MOST) -> bytes:
    """The records of a batch. CompressionError, also for more than ``most`` bytes and another codec."""
    unpack = _CODECS.get(codec)
    if unpack is None:
        raise CompressionError(f"they have compression {codec}, which is not known here")
    try:
        octets = unpack(data, most)
    except (pa.ArrowException, OSError, zlib.error, EOFError) as error:
        raise CompressionError(f"they cannot be unpacked: {error}") from None
    if len(octets) > most:
        raise CompressionError(f"they are more than {most:,} bytes when unpacked")
    return octets


def _gzip(data: memoryview, most: int) -> bytes:
    unpacker = zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)
    octets = unpacker.decompress(data, most + 1)
    if not unpacker.eof and len(octets) <= most:
        raise EOFError("they are cut short")
    return octets


def _stream(name: str) -> Callable[[memoryview, int], bytes]:
    def unpack(data: memoryview, most: int) -> bytes:
        pieces, size = [], 0
        with pa.CompressedInputStream(pa.BufferReader(pa.py_buffer(data)), name) as stream:
            while size <= most and (piece := stream.read(max(_PIECE, size))):
                pieces.append(piece)
                size += len(piece)
        return b"".join(pieces)

    return unpack


def _snappy(data: memoryview, most: int) -> bytes:
    if data[: len(_XERIAL)] != _XERIAL:
        return _snappy_block(data, most)
    blocks, left = [], most
    for block in _xerial_blocks(data[_XERIAL_HEAD:]):
        blocks.append(_snappy_block(block, left))
        left -= len(blocks[-1])
    return b"".join(blocks)


def _xerial_blocks(data: memoryview) -> Iterator[memoryview]:
    """Blocks of xerial's frames, as Java's clients write them."""
    while data:
        size = int.from_bytes(data[:4], "big", signed=True)
        if len(data) < 4 or not 0 < size <= len(data) - 4:
            raise EOFError("a block of snappy is cut short")
        yield data[4 : 4 + size]
        data = data[4 + size :]


def _snappy_block(data: memoryview, most: int) -> bytes:
    size = 0
    for number, octet in enumerate(data[:5]):
        size |= (octet & 0x7F) << (7 * number)
        if octet < 0x80:
            break
    else:
        raise EOFError("a block of snappy has no size")
    if size > most:
        raise CompressionError(f"they are more than {most:,} bytes when unpacked")
    octets: bytes = _SNAPPY.decompress(data, size, asbytes=True)
    return octets


_SNAPPY = pa.Codec("snappy")
_CODECS: dict[int, Callable[[memoryview, int], bytes]] = {
    1: _gzip,
    2: _snappy,
    3: _stream("lz4"),
    4: _stream("zstd"),
}


UNPACKED = 16 << 20  # bytes


@dataclass(frozen=True, slots=True)
class Piece:
    """Records of some batches, and an offset before which no further ones are in the answer."""

    octets: Octets
    records: Records
    stop: int


def whole_batches(octets: Octets, *, checked: bool) -> Batches:
    """The batches of an answer that are whole and, if ``checked``, have their checksum; none where it has none.

    What stands behind the first batch that is damaged is left for the next answer. CorruptRecordError where it is the
    first; UnsupportedForMessageFormatError where it is one of an old format.
    """
    batches, end = find_batches(octets)
    if end == BATCH_END_MAGIC and not len(batches):
        raise kp.UnsupportedForMessageFormatError("messages have a format of before Kafka 0.11, or a later one")
    sound = sound_batches(octets, batches) if checked else len(batches)
    if sound < len(batches):
        end = BATCH_END_DAMAGED
    if end == BATCH_END_DAMAGED and not sound:
        raise damaged("CRC mismatch" if len(batches) else "a record batch whose head cannot be")
    return batches[:sound]


def damaged(words: str) -> kp.CorruptRecordError:
    return kp.CorruptRecordError(f"Fetch: {words}")


def counted(batches: Batches, aborted: Sequence[tuple[int, int]]) -> Mask:
    """Which batches have messages: no markers, and none of transactions that were aborted."""
    attributes = batches[:, BATCH_ATTRIBUTES]
    mask: Mask = attributes & CONTROL == 0
    if not aborted:
        return mask
    waiting, open_aborted = deque(sorted((first, producer) for producer, first in aborted)), set()
    for number in np.flatnonzero(attributes & TRANSACTIONAL).tolist():
        while waiting and waiting[0][0] <= batches[number, BATCH_LAST]:
            open_aborted.add(waiting.popleft()[1])
        producer = int(batches[number, BATCH_PRODUCER])
        if not mask[number]:
            open_aborted.discard(producer)  # the marker of its end
        elif producer in open_aborted:
            mask[number] = False
    return mask


def pieces(
    octets: Octets,
    batches: Batches,
    start: int,
    stop: int,
    *,
    at_once: int = UNPACKED,
) -> Iterator[Piece]:
    """The records at or after ``start``, some batches at a time; ``stop`` is the offset behind the answer.

    ``at_once``: bytes of records that are unpacked for a piece, or one batch. CorruptRecordError where a batch is
    damaged, behind the records of those before it.
    """
    done = 0
    while done < len(batches):
        compressed = batches[done:, BATCH_ATTRIBUTES] & CODEC != 0
        alike = compressed == compressed[0]
        end = done + (len(alike) if alike.all() else int(np.argmin(alike)))
        some = batches[done:end]
        data, some = _unpacked(octets, some, at_once) if compressed[0] else (octets, some)
        end, failed = done + len(some), None
        try:
            records = find_records(data, some, start)
        except DamagedBatchError as error:
            failed = damaged("records that are not as their batch says")
            if not error.batch:
                raise failed from None
            end = done + error.batch
            records = find_records(data, some[: error.batch], start)
        yield Piece(data, records, int(batches[end, BATCH_FIRST]) if end < len(batches) else stop)
        if failed is not None:
            raise failed
        done = end


def _unpacked(octets: Octets, batches: Batches, at_once: int) -> tuple[Octets, Batches]:
    """The records of the first batches, one behind the other, and where they are then."""
    parts: list[bytes] = []
    size, moved = 0, batches.copy()
    for batch in moved:
        if size >= at_once:
            break
        packed = octets.data[batch[BATCH_START] : batch[BATCH_STOP]]
        try:
            part = unpacked(int(batch[BATCH_ATTRIBUTES]) & CODEC, packed)
        except CompressionError as error:
            if parts:
                break  # it is the first the next time
            raise damaged(str(error)) from None
        if batch[BATCH_COUNT] > len(part) // LEAST:
            if parts:
                break
            raise damaged(f"{batch[BATCH_COUNT]} records in {len(part)} bytes")
        batch[BATCH_START], batch[BATCH_STOP] = size, size + len(part)
        parts.append(part)
        size += len(part)
    return np.frombuffer(b"".join(parts), np.uint8), moved[: len(parts)]
