"""A clock that is the newest instant of a range: known when all of it was seen, without all of it being held."""

from __future__ import annotations

import json
import time
import weakref
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from sparkhaven.ingest.bad_rows import Rejects
from sparkhaven.ingest.feeds.base import route
from sparkhaven.ingest.feeds.kafka.decode import message_blocks
from sparkhaven.ingest.feeds.kafka.options import KafkaOptions, ReadLimits
from sparkhaven.ingest.spec.stream_spec import Clock, ColumnSpec, InternalRule, PartitionSpec, StreamSpec, ValueRule
from sparkhaven.store.epochs.state.log_values import OffsetRange
from tests.support.ingest.ingest_cases import PLENTY, schema, values

DAY_MS = 86_400_000
COUNT, AT_ONCE = 3000, 100
FEED = KafkaOptions("h", ("t",))
SPEC = StreamSpec(
    "s",
    "Test.Rows",
    FEED,
    PartitionSpec(InternalRule("fixed", "0"), ValueRule("at"), Clock("batch"), max_past_s=86_400, max_future_s=0),
    (ColumnSpec("at", unit="ns"),),
    bad_rows=PLENTY,
)


class Message:
    """A message as the client hands it out; the newest instant is in the last but one."""

    def __init__(self, offset: int) -> None:
        self._offset = offset
        days = {0: 0, COUNT - 2: 60}.get(offset, 59.5)
        self._value = json.dumps({"v": offset, "at": round((16_000 + days) * DAY_MS) * 1_000_000}).encode()

    def __len__(self) -> int:
        return len(self._value)

    def value(self) -> bytes:
        return self._value

    def key(self) -> None:
        return None

    def offset(self) -> int:
        return self._offset

    def timestamp(self) -> tuple[int, int]:
        return 1, 0


class Reader:
    """Makes the messages of a range each time that it is asked, and knows how many are held at most."""

    def __init__(self) -> None:
        self.reads = self.held = self.most = 0

    def read(self, wanted: OffsetRange) -> Iterator[list[Message]]:
        self.reads += 1
        for start in range(wanted.start, wanted.stop, AT_ONCE):
            some = [Message(offset) for offset in range(start, min(start + AT_ONCE, wanted.stop))]
            self.held += len(some)
            self.most = max(self.most, self.held)
            for message in some:
                weakref.finalize(message, self._gone)
            yield some

    def _gone(self) -> None:
        self.held -= 1


@pytest.mark.parametrize(
    ("held", "reads", "most"), [({}, 1, COUNT), ({"held_bytes": 9_000}, 2, 700), ({"held_messages": 150}, 2, 700)]
)
def test_a_range_that_is_too_large_to_hold_is_read_twice(held: dict[str, int], reads: int, most: int) -> None:
    feed = replace(FEED, limits=ReadLimits(messages=AT_ONCE, **held))
    reader: Any = Reader()
    rejects = Rejects(PLENTY)
    found: list[int] = []
    split = OffsetRange("t", 0, 0, COUNT)
    blocks = message_blocks(reader, split, SPEC, feed, schema(v="int", at="Instant"), rejects, time.time)
    for routed in route(blocks, rejects):
        found += values([routed])
    assert sorted(found) == list(range(1, COUNT))
    assert [(row.line, row.explanation.partition(" (")[0]) for row in rejects.rows] == [(0, "instant out of bounds")]
    assert reader.reads == reads and reader.most <= most
