"""Messages as objects and messages without: the same ones from a real broker, the same errors, and all given back."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from random import Random

import pytest
from confluent_kafka import Producer

from sparkhaven.ingest.feeds.kafka.blocks import time_ns
from sparkhaven.ingest.feeds.kafka.broker import batches
from sparkhaven.ingest.feeds.kafka.broker import reader as kafka_reader
from sparkhaven.ingest.feeds.kafka.broker.librdkafka import librdkafka
from sparkhaven.ingest.feeds.kafka.broker.reader import BatchReader, KafkaReader, kept_reader
from sparkhaven.ingest.feeds.kafka.broker.topics import KafkaTopics
from sparkhaven.ingest.feeds.kafka.options import ClientSettings, KafkaOptions, ReadLimits
from sparkhaven.store.epochs.state.log_values import OffsetRange
from sparkhaven.store.errors import SettingsError, SparkhavenError
from sparkhaven.store.native import kafka_messages as native
from tests.support.kafka.messages import listed, messages
from tests.support.kafka.topics import QUIET, delete_before, drop_topic, make_topic, send, send_in_transactions
from tests.support.servers.broker import Broker

pytestmark = [pytest.mark.kafka, pytest.mark.jvm]

Seen = list[tuple[int, bytes | None, bytes | None, int | None]]


def batch_reader(feed: KafkaOptions) -> BatchReader:
    library = librdkafka()
    assert library is not None
    return BatchReader(library, feed, patience=10)


@pytest.fixture
def both(broker: Broker) -> Iterator[tuple[KafkaReader, BatchReader]]:
    feed = KafkaOptions(broker.bootstrap)
    made = KafkaReader(feed, patience=10), batch_reader(feed)
    yield made
    for reader in made:
        reader.close()


def seen(reader: KafkaReader | BatchReader, wanted: OffsetRange) -> Seen:
    """The messages of a range."""
    return [(m.offset(), m.value(), m.key(), time_ns(m)) for m in messages(reader, wanted)]


def raised(reader: KafkaReader | BatchReader, wanted: OffsetRange) -> tuple[type, str]:
    """What comes instead."""
    with pytest.raises(SparkhavenError) as caught:
        messages(reader, wanted)
    return caught.type, str(caught.value)


def payload(chance: Random) -> bytes | None:
    kinds = [None, b"", b"\n", b"a\n\nb\r\n", b"\0\xff", chance.randbytes(chance.randrange(300))]
    return chance.choice([*kinds, b"x" * 900_000 if chance.random() < 0.05 else b"small"])


def put(broker: Broker, topic: str, count: int, chance: Random, codec: str = "none") -> None:
    settings = {"bootstrap.servers": broker.bootstrap, "linger.ms": 5, "compression.type": codec, **QUIET}
    producer = Producer(settings)
    for n in range(count):
        at = chance.choice([0, 1_795_255_200_000 + n])
        producer.produce(topic, payload(chance), payload(chance) if n % 3 else None, partition=0, timestamp=at)
        producer.poll(0)
    assert producer.flush(60) == 0


@pytest.mark.parametrize("codec", ["none", "lz4"])
def test_any_messages_in_any_ranges(broker: Broker, both: tuple[KafkaReader, BatchReader], codec: str) -> None:
    chance, topic, count = Random(codec), make_topic(broker.bootstrap), 3000
    put(broker, topic, count, chance, codec)
    whole = seen(both[0], OffsetRange(topic, 0, 0, count))
    assert len(whole) == count and {value for _, value, _, _ in whole} > {None, b"", b"\n"}
    for most in (100_000, 700):
        batched = batch_reader(KafkaOptions(broker.bootstrap, limits=ReadLimits(messages=most)))
        for _ in range(12):
            start = chance.randrange(count)
            wanted = OffsetRange(topic, 0, start, min(count, start + chance.choice([1, 50, 2500])))
            assert seen(both[0], wanted) == seen(batched, wanted) == whole[wanted.start : wanted.stop]
        batched.close()


def test_holes_and_errors_are_the_same(broker: Broker, both: tuple[KafkaReader, BatchReader]) -> None:
    def same(topic: str, start: int, stop: int, topic_id: str = "") -> Seen:
        one, other = (seen(reader, OffsetRange(topic, 0, start, stop, topic_id)) for reader in both)
        assert one == other
        return one

    def error(topic: str, start: int, stop: int, topic_id: str = "") -> str:
        one, other = (raised(reader, OffsetRange(topic, 0, start, stop, topic_id)) for reader in both)
        assert one == other
        return one[1]

    topic = make_topic(broker.bootstrap)
    send_in_transactions(
        broker.bootstrap, topic, [(True, [b"a", b"b"]), (False, [b"no"]), (True, [b"c"]), (False, [b"n"])]
    )
    assert [value for _, value, _, _ in same(topic, 0, 9)] == [b"a", b"b", b"c"]
    assert same(topic, 3, 5) == [] and same(topic, 7, 9) == []  # nothing but markers and what was aborted
    assert "ends before the committed position" in error(topic, 50, 60)

    topic = make_topic(broker.bootstrap)
    send(broker.bootstrap, topic, [str(n).encode() for n in range(50)])
    delete_before(broker.bootstrap, topic, 0, 20)
    assert len(same(topic, 20, 50)) == 30
    assert "Retention has passed" in error(topic, 5, 50)
    planned = KafkaTopics(KafkaOptions(broker.bootstrap, (topic,))).look()[topic].topic_id
    assert len(same(topic, 20, 30, planned)) == 10
    drop_topic(broker.bootstrap, topic)
    assert "no such topic" in error(topic, 30, 50, planned)
    make_topic(broker.bootstrap, name=topic)
    send(broker.bootstrap, topic, [b"new"] * 60)
    assert "recreated" in error(topic, 20, 50, planned)


def test_blocks_have_the_size_that_they_should(broker: Broker) -> None:
    topic = make_topic(broker.bootstrap)
    send(broker.bootstrap, topic, [b"x" * 99] * 5000 + [b"y" * 50_000] * 9)
    reader = batch_reader(KafkaOptions(broker.bootstrap, limits=ReadLimits(3000, 100_000)))
    sizes = [len(listed(some)) for some in reader.read(OffsetRange(topic, 0, 0, 5009))]
    reader.close()
    assert sum(sizes) == 5009
    assert sizes[:4] == [1011] * 4 and sizes[-2:] == [2, 2], sizes


@pytest.mark.parametrize("way", ["to the end", "abandoned", "error", "forgotten"])
def test_each_message_is_given_back(broker: Broker, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    taken: set[int] = set()
    look, release = native.look, native.release

    def looked(pointers: native.Pointers, *more: object) -> int:
        taken.update(pointers.tolist())
        if way == "error":
            look(pointers, *more)  # type: ignore[arg-type]
            raise ValueError("broken")
        return look(pointers, *more)  # type: ignore[arg-type]

    def released(pointers: native.Pointers, free: int) -> None:
        assert taken >= set(pointers.tolist()), "given back twice"
        taken.difference_update(pointers.tolist())
        release(pointers, free)

    monkeypatch.setattr(batches, "look", looked)
    monkeypatch.setattr(batches, "release", released)
    topic = make_topic(broker.bootstrap)
    send(broker.bootstrap, topic, [b"x"] * 9000)
    reader = batch_reader(KafkaOptions(broker.bootstrap, limits=ReadLimits(messages=500)))
    found = reader.read(OffsetRange(topic, 0, 0, 7000))
    if way == "error":
        with pytest.raises(ValueError, match="broken"):
            next(found)
    elif way == "to the end":
        assert sum(len(some) for some in found) == 7000
    else:
        assert len(next(found)) == 500 and taken
    if way == "forgotten":
        del found, reader
    else:
        found.close()  # type: ignore[attr-defined]
        reader.close()
    assert not taken


def test_a_forked_process_leaves_the_clients_of_its_parent_alone(broker: Broker) -> None:
    topic = make_topic(broker.bootstrap)
    send(broker.bootstrap, topic, [b"x"] * 20)
    reader = batch_reader(KafkaOptions(broker.bootstrap))
    assert len(seen(reader, OffsetRange(topic, 0, 0, 5))) == 5
    child = os.fork()
    if child == 0:
        reader.close()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert len(seen(reader, OffsetRange(topic, 0, 5, 20))) == 15
    reader.close()


def test_which_reader_a_process_keeps(
    broker: Broker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def kept(**client: str) -> object:
        kafka_reader._reader_of.cache_clear()
        return kept_reader(KafkaOptions(broker.bootstrap, client=ClientSettings(tuple(client.items()))))

    assert isinstance(kept(), BatchReader)
    with caplog.at_level(logging.INFO, "sparkhaven.kafka"):
        assert isinstance(kept(**{"sasl.mechanisms": "OAUTHBEARER"}), KafkaReader)
        assert isinstance(kept(**{"no.such": "secret"}), KafkaReader)  # which says what is wrong with it
    assert [record.getMessage().partition(")")[0] for record in caplog.records] == [
        "librdkafka is not asked directly (tokens for OAUTHBEARER are the Python client's",
        'librdkafka is not asked directly (its own settings differ: No such configuration property: "no.such"',
    ]
    with pytest.raises(SettingsError, match="that the stream sets itself"):
        kept(**{"enable.partition.eof": "false"})
    monkeypatch.setattr(kafka_reader, "librdkafka", lambda: None)
    assert isinstance(kept(), KafkaReader)
    kafka_reader._reader_of.cache_clear()


def test_a_setting_that_is_refused_late_is_told_in_the_same_words(broker: Broker) -> None:
    client = ClientSettings((("security.protocol", "ssl"), ("ssl.ca.location", "/no/such.pem")))
    feed = KafkaOptions(broker.bootstrap, client=client)
    told = []
    for reader in (KafkaReader(feed), batch_reader(feed)):
        with pytest.raises(SettingsError) as caught:
            list(reader.read(OffsetRange("t", 0, 0, 1)))
        told.append(str(caught.value))
    assert told[0] == told[1]
