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
from sparkhaven.ingest.feeds.kafka.blocks import FramedMessages
from sparkhaven.ingest.feeds.kafka.options import KafkaOptions, ReadLimits
from sparkhaven.ingest.feeds.kafka.source import message_blocks
from sparkhaven.ingest.router import TableRows
from sparkhaven.ingest.spec import Clock, ColumnSpec, InternalRule, PartitionSpec, StreamSpec, ValueRule
from sparkhaven.store.epochs.state.log_values import OffsetRange
from tests.support.ingest.ingest_cases import PLENTY, schema, values
from tests.support.ingest.messages import Fake
from tests.support.kafka.laid_out import framed

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


def message(offset: int) -> Fake:
    """The newest instant is in the last but one."""
    days = {0: 0, COUNT - 2: 60}.get(offset, 59.5)
    return Fake(offset, json.dumps({"v": offset, "at": round((16_000 + days) * DAY_MS) * 1_000_000}).encode())


class Reader:
    """Makes the blocks of a range each time that it is asked, and knows how many messages are held at most."""

    def __init__(self) -> None:
        self.reads = self.held = self.most = 0

    def read(self, wanted: OffsetRange) -> Iterator[FramedMessages]:
        self.reads += 1
        for start in range(wanted.start, wanted.stop, AT_ONCE):
            block = framed([message(offset) for offset in range(start, min(start + AT_ONCE, wanted.stop))])
            self.held += len(block)
            self.most = max(self.most, self.held)
            weakref.finalize(block.offsets, self._gone, len(block))
            yield block
            del block

    def _gone(self, count: int) -> None:
        self.held -= count


@pytest.mark.parametrize(
    ("held", "reads", "most"), [({}, 1, COUNT), ({"held_bytes": 9_000}, 2, 700), ({"held_messages": 150}, 2, 700)]
)
def test_a_range_that_is_too_large_to_hold_is_read_twice(held: dict[str, int], reads: int, most: int) -> None:
    feed = replace(FEED, limits=ReadLimits(messages=AT_ONCE, **held))
    reader: Any = Reader()
    rejects = Rejects(PLENTY)
    found: list[int] = []
    split = OffsetRange("t", 0, 0, COUNT)
    tables = {0: TableRows(replace(SPEC, feed=feed), schema(v="int", at="Instant"), rejects)}
    blocks = (block for _, block in message_blocks(reader, split, tables, None, time.time))
    for routed in route(blocks, rejects):
        found += values([routed])
    assert sorted(found) == list(range(1, COUNT))
    assert [(row.line, row.explanation.partition(" (")[0]) for row in rejects.rows] == [(0, "instant out of bounds")]
    assert reader.reads == reads and reader.most <= most
