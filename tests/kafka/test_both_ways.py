"""Messages by each of the three clients: the same ones from a real broker, the same errors, and all given back."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterator
from random import Random

import pytest
from confluent_kafka import Producer

from sparkhaven.ingest.feeds.kafka.blocks import time_ns
from sparkhaven.ingest.feeds.kafka.broker import batches, kept_readers
from sparkhaven.ingest.feeds.kafka.broker.kept_readers import make_reader
from sparkhaven.ingest.feeds.kafka.broker.reader import BatchReader, KafkaReader
from sparkhaven.ingest.feeds.kafka.broker.topics import KafkaTopics
from sparkhaven.ingest.feeds.kafka.broker.wire_reader import WireReader
from sparkhaven.ingest.feeds.kafka.options import ClientSettings, KafkaOptions, ReadLimits
from sparkhaven.store.epochs.state.log_values import OffsetRange
from sparkhaven.store.errors import SettingsError, SparkhavenError
from sparkhaven.store.native import kafka_messages as native
from tests.support.kafka.messages import listed, messages
from tests.support.kafka.readers import KINDS, reader_of
from tests.support.kafka.topics import QUIET, delete_before, drop_topic, make_topic, send, send_in_transactions
from tests.support.servers.broker import Broker

pytestmark = [pytest.mark.kafka, pytest.mark.jvm]

Seen = list[tuple[int, bytes | None, bytes | None, int | None]]


def batch_reader(feed: KafkaOptions) -> BatchReader:
    reader = reader_of("batches", feed)
    assert isinstance(reader, BatchReader)
    return reader


Readers = list[KafkaReader | BatchReader]


@pytest.fixture
def readers(broker: Broker) -> Iterator[Readers]:
    """One by each client."""
    made = [reader_of(kind, KafkaOptions(broker.bootstrap)) for kind in KINDS]
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
        producer.produce(
            topic, payload(chance), (payload(chance) or b"")[:100] if n % 3 else None, partition=0, timestamp=at
        )
        producer.poll(0)
    assert producer.flush(60) == 0


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_any_messages_in_any_ranges(broker: Broker, readers: Readers, codec: str) -> None:
    chance, topic, count = Random(codec), make_topic(broker.bootstrap), 3000
    put(broker, topic, count, chance, codec)
    everything = OffsetRange(topic, 0, 0, count)
    whole = seen(readers[0], everything)
    last = readers[0].last_of(everything)
    assert last is not None and last.epoch >= 0
    for reader in readers[1:]:
        assert seen(reader, everything) == whole and reader.last_of(everything) == last
    assert len(whole) == count and {value for _, value, _, _ in whole} > {None, b"", b"\n"}
    for kind in KINDS[1:]:
        for most in (100_000, 700):
            reader = reader_of(kind, KafkaOptions(broker.bootstrap, limits=ReadLimits(messages=most)))
            for _ in range(12):
                start = chance.randrange(count)
                wanted = OffsetRange(topic, 0, start, min(count, start + chance.choice([1, 50, 2500])))
                assert seen(reader, wanted) == whole[wanted.start : wanted.stop], kind
            reader.close()


def test_holes_and_errors_are_the_same(broker: Broker, readers: Readers) -> None:
    def same(topic: str, start: int, stop: int, topic_id: str = "") -> Seen:
        one, *others = (seen(reader, OffsetRange(topic, 0, start, stop, topic_id)) for reader in readers)
        assert all(other == one for other in others)
        return one

    def error(topic: str, start: int, stop: int, topic_id: str = "") -> str:
        one, *others = (raised(reader, OffsetRange(topic, 0, start, stop, topic_id)) for reader in readers)
        assert all(other == one for other in others)
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
    *others, own = readers
    kept = seen(own, OffsetRange(topic, 0, 30, 50, planned))  # were asked for by the id, and are here
    assert [value for _, value, _, _ in kept] == [str(n).encode() for n in range(30, 50)]
    one, other, third = (raised(reader, OffsetRange(topic, 0, 30, 50, planned)) for reader in (*others, own))
    assert one == other and third[0] is one[0] and all("no such topic" in words for _, words in (one, third))
    make_topic(broker.bootstrap, name=topic)
    send(broker.bootstrap, topic, [b"new"] * 60)
    assert "recreated" in error(topic, 20, 50, planned)


def test_times_of_the_broker(broker: Broker, readers: Readers) -> None:
    topic = make_topic(broker.bootstrap, settings={"message.timestamp.type": "LogAppendTime"})
    before = time.time() * 1000 - 1000
    send(broker.bootstrap, topic, [b"a", b"b", b"c"], timestamp=1000)
    one, *others = (seen(reader, OffsetRange(topic, 0, 0, 3)) for reader in readers)
    assert all(other == one for other in others)
    assert all(at is not None and at > before * 1e6 for _, _, _, at in one)


def test_holes_of_compaction(broker: Broker, readers: Readers) -> None:
    settings = {"cleanup.policy": "compact", "segment.ms": "100", "min.cleanable.dirty.ratio": "0.001"}
    topic = make_topic(broker.bootstrap, settings={**settings, "max.compaction.lag.ms": "100"})
    producer = Producer({"bootstrap.servers": broker.bootstrap, "batch.num.messages": 20, **QUIET})
    keys = [b"k%d" % Random(n).randrange(60) for n in range(400)]
    for n, key in enumerate(keys):
        producer.produce(topic, b"%d" % n, key, partition=0)
    assert producer.flush(30) == 0
    end, since = 400, time.monotonic()
    while len(whole := seen(readers[0], OffsetRange(topic, 0, 0, end))) > len(set(keys)) + end - 400:
        assert time.monotonic() - since < 120, f"{len(whole)} of {end} messages are left: nothing was compacted"
        time.sleep(0.5)
        send(broker.bootstrap, topic, [b"last"], key=b"%d" % end)  # a new segment, so that the others are compacted
        end += 1
    chance = Random(4)
    for _ in range(20):
        start = chance.randrange(end)
        wanted = OffsetRange(topic, 0, start, min(end, start + chance.choice([1, 20, 300])))
        left = [row for row in whole if wanted.start <= row[0] < wanted.stop]
        assert [seen(reader, wanted) for reader in readers[1:]] == [left] * 2


def test_open_transactions_of_several_producers(broker: Broker, readers: Readers) -> None:
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
    feed = KafkaOptions(broker.bootstrap, (topic,))
    end = KafkaTopics(feed).look()[topic].partitions[0].end  # before the first message of what is open
    for start, stop in [(0, end), (end // 3, end), (end // 2, end // 2 + 5), *((n, n + 1) for n in range(0, end, 5))]:
        one, *others = (seen(reader, OffsetRange(topic, 0, start, stop)) for reader in readers)
        assert all(other == one for other in others), (start, stop)
    client = ClientSettings((("isolation.level", "read_uncommitted"),))
    every = [reader_of(kind, KafkaOptions(broker.bootstrap, client=client)) for kind in KINDS]
    one, *others = (seen(reader, OffsetRange(topic, 0, 0, end)) for reader in every)
    assert all(other == one for other in others) and len(one) > len(seen(readers[0], OffsetRange(topic, 0, 0, end)))
    for producer in producers:
        producer.abort_transaction(30)
    for reader in every:
        reader.close()


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


def test_which_reader_a_feed_gets(
    broker: Broker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def made(**client: str) -> object:
        return make_reader(KafkaOptions(broker.bootstrap, client=ClientSettings(tuple(client.items()))))

    assert isinstance(made(), WireReader)
    with caplog.at_level(logging.INFO, "sparkhaven.kafka"):
        assert isinstance(made(**{"sasl.mechanisms": "OAUTHBEARER"}), KafkaReader)
        assert isinstance(made(**{"no.such": "secret"}), KafkaReader)  # which says what is wrong with it
    assert [record.getMessage().partition(")")[0] for record in caplog.records] == [
        "librdkafka is not asked directly (tokens for OAUTHBEARER are the Python client's",
        'librdkafka is not asked directly (its own settings differ: No such configuration property: "no.such"',
    ]
    with pytest.raises(SettingsError, match="that the stream sets itself"):
        made(**{"enable.partition.eof": "false"})
    monkeypatch.setattr(kept_readers, "librdkafka", lambda: None)
    assert isinstance(made(), KafkaReader)


def test_a_setting_that_is_refused_late_is_told_in_the_same_words(broker: Broker) -> None:
    client = ClientSettings((("security.protocol", "ssl"), ("ssl.ca.location", "/no/such.pem")))
    feed = KafkaOptions(broker.bootstrap, client=client)
    told = []
    for reader in (KafkaReader(feed), batch_reader(feed)):
        with pytest.raises(SettingsError) as caught:
            list(reader.read(OffsetRange("t", 0, 0, 1)))
        told.append(str(caught.value))
    assert told[0] == told[1]
