"""The record batches of one answer: which count, and their records, unpacked as they are wanted."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import kafka.errors as kp
import numpy as np

from sparkhaven.ingest.feeds.kafka.broker.codecs import CompressionError, unpacked
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
