"""Messages with headers, far timestamps and frames from a real broker: each is a row or a bad row with its place."""

from __future__ import annotations

import pytest
from confluent_kafka import Producer

from sparkhaven.ingest.bad_rows import Rejects
from sparkhaven.ingest.feeds.kafka.feed import KafkaFeed
from sparkhaven.ingest.feeds.kafka.options import KafkaOptions
from sparkhaven.ingest.spec import ColumnSpec, InternalRule, PartitionSpec, StreamSpec, ValueRule
from sparkhaven.store.epochs.state.log_values import OffsetRange
from sparkhaven.store.io.fs import Fs
from tests.support.ingest.ingest_cases import PLENTY, schema
from tests.support.kafka.topics import make_topic
from tests.support.servers.broker import Broker

pytestmark = [pytest.mark.kafka, pytest.mark.jvm]


@pytest.mark.parametrize("headers", [True, False])
def test_headers_and_far_times(broker: Broker, headers: bool) -> None:
    topic = make_topic(broker.bootstrap)
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    head = b"\0\0\0\0\7"
    producer.produce(topic, head + b'{"v":1}', headers=[("trace", b"x"), ("trace", "é".encode())])
    producer.produce(topic, head + b'{"v":2}', timestamp=1_795_184_000_123_456)
    producer.produce(topic, head + b'{"v":3}', headers=[("trace", b"\xff")])
    producer.produce(topic, b'{"v":4}')
    producer.flush()
    specs = [ColumnSpec("at", meta="timestamp"), *([ColumnSpec("t", meta="header:trace")] if headers else [])]
    options = KafkaOptions(broker.bootstrap, (topic,), frame="confluent")
    part = PartitionSpec(InternalRule("fixed", "0"), ValueRule(fixed="2026-11-20"))
    spec = StreamSpec("s", "T.T", options, part, tuple(specs), bad_rows=PLENTY)
    table = schema(v="int", at="Instant", **({"t": "String"} if headers else {}))
    rejects = Rejects(PLENTY)
    blocks = KafkaFeed(spec).decode(Fs(), OffsetRange(topic, 0, 0, 4), table, rejects, lambda: 0.0)
    rows = [row for _, some, _ in blocks for row in zip(*(c.to_pylist() for c in some.columns[::2]), strict=True)]
    bad = [(row.line, row.column, row.code) for row in sorted(rejects.rows, key=lambda row: row.line)]
    far = (1, "at", "outside-the-range-of-an-instant")
    if headers:
        assert rows == [(1, "é")]
        assert bad == [far, (2, "t", "header-not-utf-8"), (3, None, "no-frame")]
    else:
        assert (rows, bad) == ([(1,), (3,)], [far, (3, None, "no-frame")])
