"""Three brokers whose leaders move while ranges are read, of Kafka 3.9 and 4: each message comes once and in order."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

from sparkhaven.ingest.feeds.kafka.broker.reader import KafkaReader
from sparkhaven.ingest.feeds.kafka.broker.topics import KafkaTopics
from sparkhaven.ingest.feeds.kafka.options import ClientSettings, KafkaOptions, ReadLimits
from sparkhaven.store.epochs.state.log_values import OffsetRange
from tests.support.kafka.messages import messages
from tests.support.kafka.topics import QUIET, make_topic
from tests.support.servers.broker import NEWER, VERSION
from tests.support.servers.three_brokers import ThreeBrokers, three_brokers

pytestmark = [pytest.mark.kafka, pytest.mark.jvm, pytest.mark.slow]

COUNT, AT_ONCE, MANY = 3000, 500, 50


@pytest.fixture(scope="module", params=[VERSION, NEWER])
def brokers(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ThreeBrokers]:
    with three_brokers(tmp_path_factory.mktemp("three"), request.param) as made:
        yield made


def put(brokers: ThreeBrokers, topic: str, first: int, count: int, partitions: int = 1) -> None:
    """Messages with their number as value, in each partition the same; every one is acknowledged by all in step."""
    producer = Producer({"bootstrap.servers": brokers.bootstrap, "acks": "all", "linger.ms": 5, **QUIET})
    for number in range(first, first + count):
        for partition in range(partitions):
            producer.produce(topic, b"%d" % number, partition=partition)
    assert producer.flush(120) == 0


def reader_of(brokers: ThreeBrokers, topic: str, **client: str) -> KafkaReader:
    given = ClientSettings(tuple({"max.partition.fetch.bytes": "20000", **client}.items()))
    feed = KafkaOptions(brokers.bootstrap, (topic,), client=given, limits=ReadLimits(messages=300))
    return KafkaReader(feed, patience=120)


def test_leaders_that_die_one_after_the_other(brokers: ThreeBrokers) -> None:
    topic = make_topic(brokers.bootstrap, replicas=3)
    put(brokers, topic, 0, COUNT)
    topic_id = KafkaTopics(KafkaOptions(brokers.bootstrap, (topic,)), patience=60).look()[topic].topic_id
    reader, leaders = reader_of(brokers, topic), []
    offsets: list[int] = []
    for start in range(0, COUNT, AT_ONCE):
        read = reader.read(OffsetRange(topic, 0, start, start + AT_ONCE, topic_id))
        offsets += next(read).offsets.tolist()
        down = brokers.leader(topic) if start % (2 * AT_ONCE) == 0 else None
        if down is not None:
            leaders.append(down)
            brokers.broker(down).kill()
        for some in read:
            offsets += some.offsets.tolist()
        if down is not None:
            brokers.start([down])
    assert offsets == list(range(COUNT)) and len(leaders) == 3
    put(brokers, topic, COUNT, 100)
    assert [one.value for one in messages(reader, OffsetRange(topic, 0, COUNT, COUNT + 100, topic_id))] == [
        b"%d" % number for number in range(COUNT, COUNT + 100)
    ]
    reader.close()


def test_many_partitions_by_one_connection_a_broker(brokers: ThreeBrokers) -> None:
    topic = make_topic(brokers.bootstrap, MANY, replicas=3)
    put(brokers, topic, 0, 20, MANY)
    view = KafkaTopics(KafkaOptions(brokers.bootstrap, (topic,)), patience=60).look()[topic]
    assert len(view.partitions) == MANY and {bounds.end for bounds in view.partitions.values()} == {20}
    reader = reader_of(brokers, topic)
    for number in range(MANY):
        assert len(messages(reader, OffsetRange(topic, number, 0, 20, view.topic_id))) == 20
    assert sorted(reader._link._manager._conns) == [1, 2, 3]
    at = {(topic, number): OffsetRange(topic, number, 20, 20, view.topic_id) for number in range(MANY)}
    ends = reader.ends(at, 1.0)
    assert ends is not None and {bounds.end for bounds in ends.values()} == {20} and len(ends) == MANY
    assert sorted(reader._link._manager._conns) == [1, 2, 3]
    reader.close()


def test_the_replica_of_a_rack(brokers: ThreeBrokers) -> None:
    topic = make_topic(brokers.bootstrap, replicas=3)
    put(brokers, topic, 0, 500)
    leader = brokers.leader(topic)
    near = next(number for number in (1, 2, 3) if number != leader)
    reader = reader_of(brokers, topic, **{"client.rack": f"rack-{near}"})
    assert len(messages(reader, OffsetRange(topic, 0, 0, 500))) == 500
    (held,) = reader._held.values()
    assert held.client._from == near  # type: ignore[attr-defined]
    brokers.broker(near).kill()
    put(brokers, topic, 500, 100)
    assert len(messages(reader, OffsetRange(topic, 0, 500, 600))) == 100, "the leader is read where its replica is away"
    brokers.start([near])
    reader.close()
