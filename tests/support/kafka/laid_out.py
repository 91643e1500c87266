"""Messages as a reader hands them out: as record batches, read by the compiled core and framed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sparkhaven.ingest.feeds.kafka.blocks import FramedMessages, FramedPart
from sparkhaven.ingest.feeds.kafka.broker.batches import pieces, whole_batches
from sparkhaven.ingest.feeds.kafka.broker.partition import FetchBuffer
from sparkhaven.ingest.feeds.kafka.options import ReadLimits
from tests.support.ingest.messages import Fake
from tests.support.kafka.record_batches import Rec, batch

EVERYTHING = ReadLimits(messages=1 << 40, bytes=1 << 40)


def framed(messages: Sequence[Fake], headers: Sequence[str] = ()) -> FramedMessages:
    """One block of messages, with the headers of these names."""
    if not messages:
        nothing = np.empty(0, np.int64)
        part = FramedPart(b"", np.zeros(1, np.int32), np.empty(0, np.bool_))
        return FramedMessages(nothing, nothing, part, part, dict.fromkeys(headers, part))
    first = messages[0].at
    records = [
        Rec(one.at - first, one.payload, one.name, one.time_ms if one.kind else -1, one.named or ()) for one in messages
    ]
    data = np.frombuffer(batch(first, records, time_ms=0), np.uint8)
    held = FetchBuffer(EVERYTHING, headers)
    for piece in pieces(data, whole_batches(data, checked=True), first, messages[-1].at + 1):
        held.add(piece.octets, piece.records)
    block = held.take(messages[-1].at + 1, whole=True)
    assert block is not None
    return block
