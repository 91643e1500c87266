"""Messages by our reader and by librdkafka's: the same ones from a real broker, whatever topics hold."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from random import Random
from typing import NamedTuple

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

from sparkhaven.ingest.feeds.kafka.blocks import Message
from sparkhaven.ingest.feeds.kafka.broker.reader import KafkaReader
from sparkhaven.ingest.feeds.kafka.broker.topics import KafkaTopics
from sparkhaven.ingest.feeds.kafka.options import ClientSettings, KafkaOptions, ReadLimits
from sparkhaven.store.epochs.state.log_values import OffsetRange
from sparkhaven.store.errors import PositionGapError
from tests.support.kafka.messages import messages
from tests.support.kafka.topics import QUIET, delete_before, make_topic, send, send_in_transactions
from tests.support.servers.broker import Broker

PATIENCE = 60.0


class Seen(NamedTuple):
    """A message as both clients tell it."""

    offset: int
    value: bytes | None
    key: bytes | None
    time_ns: int | None


def seen(messages: Sequence[Message]) -> list[Seen]:
    """Messages of ours as ``second`` tells them."""
    return [Seen(one.offset, one.value, one.key, one.time_ns) for one in messages]


def second(bootstrap: str, topic: str, start: int, stop: int, isolation: str = "read_committed") -> list[Seen]:
    """The messages of partition 0 from ``start`` on and before ``stop``."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "second",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
            "isolation.level": isolation,
            "log_level": 3,
        }
    )
    consumer.assign([TopicPartition(topic, 0, start)])
    found: list[Seen] = []
    since = time.monotonic()
    try:
        while time.monotonic() - since < PATIENCE:
            for message in consumer.consume(2000, 0.1):
                error = message.error()
                if error is not None:
                    assert error.code() == KafkaError._PARTITION_EOF, error
                    if message.offset() >= stop:
                        return found
                    continue
                if message.offset() >= stop:
                    return found
                kind, at_ms = message.timestamp()
                own = Message(message.offset(), message.value(), message.key(), at_ms if kind else -1)
                found += seen([own])
            if found and found[-1].offset >= stop - 1:
                return found
        raise AssertionError(f"the second client has found {len(found)} messages only")
    finally:
        consumer.close()


pytestmark = [pytest.mark.kafka, pytest.mark.jvm]


@pytest.fixture
def reader(broker: Broker) -> Iterator[KafkaReader]:
    """Ours."""
    made = KafkaReader(KafkaOptions(broker.bootstrap))
    yield made
    made.close()


def same(broker: Broker, reader: KafkaReader, topic: str, start: int, stop: int) -> list[Seen]:
    """The messages of a range, which both clients tell alike."""
    ours = seen(messages(reader, OffsetRange(topic, 0, start, stop)))
    assert ours == second(broker.bootstrap, topic, start, stop), (start, stop)
    return ours


def payload(chance: Random) -> bytes | None:
    kinds = [None, b"", b"\n", b"a\n\nb\r\n", b"\0\xff", chance.randbytes(chance.randrange(300))]
    return chance.choice([*kinds, b"x" * 900_000 if chance.random() < 0.05 else b"small"])


def put(broker: Broker, topic: str, count: int, chance: Random, codec: str = "none") -> None:
    settings = {"bootstrap.servers": broker.bootstrap, "linger.ms": 5, "compression.type": codec, **QUIET}
    producer = Producer(settings)
    for n in range(count):
        at = chance.choice([0, 1_795_255_200_000 + n])
        producer.produce(
            topic, payload(chance), (payload(chance) or b"")[:100] if n % 3 else None, partition=0, timestamp=at
        )
        producer.poll(0)
    assert producer.flush(60) == 0


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_any_messages_in_any_ranges(broker: Broker, reader: KafkaReader, codec: str) -> None:
    chance, topic, count = Random(codec), make_topic(broker.bootstrap), 3000
    put(broker, topic, count, chance, codec)
    whole = same(broker, reader, topic, 0, count)
    assert len(whole) == count and {one.value for one in whole} > {None, b"", b"\n"}
    last = reader.last_of(OffsetRange(topic, 0, 0, count))
    assert last is not None and last.epoch >= 0
    for most in (100_000, 700):
        other = KafkaReader(KafkaOptions(broker.bootstrap, limits=ReadLimits(messages=most)))
        for _ in range(12):
            start = chance.randrange(count)
            wanted = OffsetRange(topic, 0, start, min(count, start + chance.choice([1, 50, 2500])))
            assert seen(messages(other, wanted)) == whole[wanted.start : wanted.stop]
        other.close()


def test_holes_of_transactions_and_deletion(broker: Broker, reader: KafkaReader) -> None:
    topic = make_topic(broker.bootstrap)
    send_in_transactions(
        broker.bootstrap, topic, [(True, [b"a", b"b"]), (False, [b"no"]), (True, [b"c"]), (False, [b"n"])]
    )
    assert [one.value for one in same(broker, reader, topic, 0, 9)] == [b"a", b"b", b"c"]
    assert same(broker, reader, topic, 3, 5) == same(broker, reader, topic, 7, 9) == []
    topic = make_topic(broker.bootstrap)
    send(broker.bootstrap, topic, [str(n).encode() for n in range(50)])
    delete_before(broker.bootstrap, topic, 0, 20)
    assert len(same(broker, reader, topic, 20, 50)) == 30
    with pytest.raises(PositionGapError, match="Retention has passed"):
        messages(reader, OffsetRange(topic, 0, 5, 50))


def test_times_of_the_broker(broker: Broker, reader: KafkaReader) -> None:
    topic = make_topic(broker.bootstrap, settings={"message.timestamp.type": "LogAppendTime"})
    before = time.time() * 1000 - 1000
    send(broker.bootstrap, topic, [b"a", b"b", b"c"], timestamp=1000)
    assert all(one.time_ns is not None and one.time_ns > before * 1e6 for one in same(broker, reader, topic, 0, 3))


def test_holes_of_compaction(broker: Broker, reader: KafkaReader) -> None:
    settings = {"cleanup.policy": "compact", "segment.ms": "100", "min.cleanable.dirty.ratio": "0.001"}
    topic = make_topic(broker.bootstrap, settings={**settings, "max.compaction.lag.ms": "100"})
    keys = [n % 50 for n in range(1000)]
    producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 5, **QUIET})
    for n, key in enumerate(keys):
        producer.produce(topic, b"%d" % n, key=b"%d" % key, partition=0)
        if n % 100 == 0:
            producer.flush(30)
    assert producer.flush(30) == 0
    end, since = len(keys), time.monotonic()
    while len(second(broker.bootstrap, topic, 0, end)) > len(set(keys)) + end - 400:
        assert time.monotonic() - since < 300, "everything is left: nothing was compacted"
        time.sleep(0.5)
        send(broker.bootstrap, topic, [b"last"], key=b"%d" % end)  # a new segment, so that the others are compacted
        end += 1
    chance = Random(4)
    for _ in range(20):
        start = chance.randrange(end)
        same(broker, reader, topic, start, min(end, start + chance.choice([1, 20, 300])))


def test_open_transactions_of_several_producers(broker: Broker, reader: KafkaReader) -> None:
    topic, chance = make_topic(broker.bootstrap), Random(5)
    producers = []
    for n in range(3):
        producers.append(
            Producer(
                {"bootstrap.servers": broker.bootstrap, "transactional.id": f"{topic}-{n}", "linger.ms": 0, **QUIET}
            )
        )
        producers[-1].init_transactions(30)
        producers[-1].begin_transaction()
    for number in range(120):
        producer = chance.choice(producers)
        producer.produce(topic, f"{number}", key=f"{number % 7}", partition=0)
        assert producer.flush(30) == 0
        if chance.random() < 0.3:
            (producer.commit_transaction if chance.random() < 0.5 else producer.abort_transaction)(30)
            producer.begin_transaction()
    end = KafkaTopics(KafkaOptions(broker.bootstrap, (topic,))).look()[topic].partitions[0].end  # before what is open
    for start, stop in [(0, end), (end // 3, end), (end // 2, end // 2 + 5)]:
        committed = same(broker, reader, topic, start, stop)
    for at in range(0, end, 5):
        same(broker, reader, topic, at, at + 1)
    committed = same(broker, reader, topic, 0, end)
    client = ClientSettings((("isolation.level", "read_uncommitted"),))
    every = KafkaReader(KafkaOptions(broker.bootstrap, client=client))
    all_of_them = seen(messages(every, OffsetRange(topic, 0, 0, end)))
    assert all_of_them == second(broker.bootstrap, topic, 0, end, "read_uncommitted")
    assert len(all_of_them) > len(committed)
    for producer in producers:
        producer.abort_transaction(30)
    every.close()


def test_blocks_have_the_size_that_they_should(broker: Broker) -> None:
    topic = make_topic(broker.bootstrap)
    send(broker.bootstrap, topic, [b"x" * 99] * 5000 + [b"y" * 50_000] * 9)
    reader = KafkaReader(KafkaOptions(broker.bootstrap, limits=ReadLimits(3000, 100_000)))
    sizes = [len(some) for some in reader.read(OffsetRange(topic, 0, 0, 5009))]
    reader.close()
    assert sum(sizes) == 5009
    assert sizes[:4] == [1011] * 4 and sizes[-2:] == [2, 2], sizes


def test_a_forked_process_leaves_the_connections_of_its_parent_alone(broker: Broker) -> None:
    """Whether it closes the reader, forgets it, or ends as programs do; its own reader works meanwhile."""
    topic = make_topic(broker.bootstrap)
    send(broker.bootstrap, topic, [b"x"] * 50)
    reader = KafkaReader(KafkaOptions(broker.bootstrap))
    assert len(messages(reader, OffsetRange(topic, 0, 0, 5))) == 5
    (conn,) = reader._link._manager._conns.values()
    for number in range(3):
        child = os.fork()
        if child == 0:
            own = KafkaReader(KafkaOptions(broker.bootstrap))
            good = len(messages(own, OffsetRange(topic, 0, 0, 50))) == 50
            own.close()
            if number == 0:
                reader.close()
            elif number == 1:
                del reader
            os._exit(0 if good else 1)
        assert os.waitpid(child, 0)[1] == 0
        start = 5 + 10 * number
        assert len(messages(reader, OffsetRange(topic, 0, start, start + 10))) == 10
    assert list(reader._link._manager._conns.values()) == [conn] and conn.connected, "the connection was never lost"
    reader.close()


def test_offsets_of_a_group_are_those_that_the_second_client_committed(broker: Broker) -> None:
    topic = make_topic(broker.bootstrap, partitions=3)
    asked = [(topic, number) for number in range(3)]
    settings = {"bootstrap.servers": broker.bootstrap, "group.id": f"g-{topic}", "enable.auto.commit": False}
    topics = KafkaTopics(KafkaOptions(broker.bootstrap, (topic,), client=ClientSettings((("group.id", f"g-{topic}"),))))
    assert topics.committed(asked) == dict.fromkeys(asked)  # a group that nobody has used
    consumer = Consumer(settings)
    try:
        offsets = [TopicPartition(topic, number, offset) for number, offset in ((0, 7), (2, 0))]
        consumer.commit(offsets=offsets, asynchronous=False)
    finally:
        consumer.close()
    assert topics.committed(asked) == {(topic, 0): 7, (topic, 1): None, (topic, 2): 0}
