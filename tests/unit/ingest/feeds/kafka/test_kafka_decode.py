"""Blocks of a range, decoded while the garbage collector is paused."""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from sparkhaven.ingest.bad_rows import Rejects
from sparkhaven.ingest.feeds.kafka.blocks import FramedMessages
from sparkhaven.ingest.feeds.kafka.options import KafkaOptions, ReadLimits
from sparkhaven.ingest.feeds.kafka.source import message_blocks
from sparkhaven.ingest.router import TableRows
from sparkhaven.ingest.spec import ColumnSpec, InternalRule, PartitionSpec, StreamSpec, ValueRule
from sparkhaven.store.epochs.state.log_values import OffsetRange
from tests.support.ingest.ingest_cases import PLENTY, schema
from tests.support.ingest.messages import Fake
from tests.support.kafka.laid_out import framed

COUNT = 50
FEED = KafkaOptions("h", ("t",))
SPEC = StreamSpec(
    "s", "Test.Rows", FEED, PartitionSpec(InternalRule("fixed", "0"), ValueRule(fixed="d")), (ColumnSpec("v"),)
)


class Watched:
    """A block that notes whether the collector runs while its payloads are read."""

    collecting: set[bool] = set()

    def __init__(self, block: FramedMessages) -> None:
        self._block = block

    def __getattr__(self, name: str) -> Any:
        if name == "payloads":
            self.collecting.add(gc.isenabled())
        return getattr(self._block, name)


class Reader:
    """Two blocks of one range."""

    def read(self, wanted: OffsetRange) -> Iterator[Watched]:
        for start in (0, COUNT):
            yield Watched(framed([Fake(start + n, b'{"v": 1}') for n in range(COUNT)]))


def test_the_collector_is_paused_while_a_block_is_decoded_and_not_while_its_rows_are_used() -> None:
    feed = replace(FEED, limits=ReadLimits(messages=COUNT))
    reader: Any = Reader()
    split = OffsetRange("t", 0, 0, 2 * COUNT)
    tables = {0: TableRows(replace(SPEC, feed=feed), schema(v="int"), Rejects(PLENTY))}
    blocks = message_blocks(reader, split, tables, None, time.time)
    assert [(len(rows), gc.isenabled()) for _, (_, rows, _) in blocks] == [(COUNT, True)] * 2
    assert Watched.collecting == {False}
