"""Exact ranges from a real broker: every message of the range once, none beyond, whatever holes there are."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from sparkhaven.ingest.feeds.kafka.broker.reader import KafkaReader, MessageRangeReader
from sparkhaven.ingest.feeds.kafka.broker.topics import KafkaTopics
from sparkhaven.ingest.feeds.kafka.options import ClientSettings, KafkaOptions, ReadLimits
from sparkhaven.store.epochs.state.log_values import OffsetRange
from sparkhaven.store.errors import FeedError, PositionGapError, RetryableFeedError, SettingsError
from tests.support.kafka.messages import messages
from tests.support.kafka.topics import delete_before, drop_topic, make_topic, send, send_in_transactions
from tests.support.servers.broker import Broker

pytestmark = [pytest.mark.kafka, pytest.mark.jvm]


@pytest.fixture(scope="module")
def reader(broker: Broker) -> Iterator[KafkaReader]:
    opened = KafkaReader(KafkaOptions(broker.bootstrap), patience=10)
    yield opened
    opened.close()


def values(reader: KafkaReader, topic: str, start: int, stop: int, topic_id: str = "") -> list[bytes | None]:
    found = messages(reader, OffsetRange(topic, 0, start, stop, topic_id))
    offsets = [m.offset for m in found]
    assert offsets == sorted(set(offsets)) and all(start <= offset < stop for offset in offsets)
    return [m.value for m in found]


def numbered(start: int, stop: int) -> list[bytes]:
    return [f"{n}".encode() for n in range(start, stop)]


def id_of(broker: Broker, topic: str) -> str:
    return KafkaTopics(KafkaOptions(broker.bootstrap, (topic,))).look()[topic].topic_id


def test_ranges_that_follow_overlap_and_jump(broker: Broker, reader: KafkaReader) -> None:
    topic = make_topic(broker.bootstrap)
    send(broker.bootstrap, topic, numbered(0, 9000))
    for start, stop in [(0, 10), (10, 4000), (4000, 4001), (5000, 5003), (3, 7), (8990, 9000), (0, 9000), (17, 17)]:
        assert values(reader, topic, start, stop) == numbered(start, stop), (start, stop)
    send(broker.bootstrap, topic, numbered(9000, 9100))  # after the end was seen
    assert values(reader, topic, 9000, 9100) == numbered(9000, 9100)


def test_nothing_is_waited_for_behind_the_last_message(
    broker: Broker, reader: KafkaReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = make_topic(broker.bootstrap)
    send(broker.bootstrap, topic, numbered(0, 100))
    asked: list[int] = []
    fetch = MessageRangeReader._fetch

    def counted(self: MessageRangeReader[object], held: object, wanted: OffsetRange, due: int, silence: object) -> None:
        asked.append(due)
        fetch(self, held, wanted, due, silence)  # type: ignore[arg-type]

    monkeypatch.setattr(MessageRangeReader, "_fetch", counted)
    for start, stop in [(0, 50), (50, 100)]:  # in the middle of the partition, and up to its end
        last = start - 1
        for some in reader.read(OffsetRange(topic, 0, start, stop)):
            last, before = int(some.offsets[-1]), len(asked)
        assert last == stop - 1 and len(asked) == before, "it has asked for more after the last message"
        assert all(0 < due <= 50 for due in asked)


def test_what_is_fetched_ahead_for_nobody_is_little(broker: Broker) -> None:
    topic = make_topic(broker.bootstrap)
    for _ in range(3):
        send(broker.bootstrap, topic, [b"x" * 160] * 50_000)
    reader = KafkaReader(KafkaOptions(broker.bootstrap))
    assert len(values(reader, topic, 0, 100)) == 100
    time.sleep(0.5)  # another worker reads what follows, and this consumer's messages are thrown away
    (held,) = reader._held.values()
    before = held.client.last
    held.client.fetch(150_000, 0.0)
    assert before <= held.client.last < 60_000
    reader.close()


def test_tombstones_and_empty_values_are_messages(broker: Broker, reader: KafkaReader) -> None:
    topic = make_topic(broker.bootstrap)
    send(broker.bootstrap, topic, [b"a", None, b"", b"x\ny"])
    assert values(reader, topic, 0, 4) == [b"a", None, b"", b"x\ny"]


def test_aborted_transactions_and_their_markers(broker: Broker, reader: KafkaReader) -> None:
    topic = make_topic(broker.bootstrap)
    groups = [(True, [b"a", b"b"]), (False, [b"no", b"no"]), (True, [b"c"]), (False, [b"no"])]
    send_in_transactions(broker.bootstrap, topic, groups)
    bounds = KafkaTopics(KafkaOptions(broker.bootstrap, (topic,))).look()[topic].partitions[0]
    assert bounds.end == 6 + 4  # six messages and four markers
    assert values(reader, topic, 0, bounds.end) == [b"a", b"b", b"c"]
    assert values(reader, topic, 6, bounds.end) == [b"c"]
    both = KafkaReader(
        KafkaOptions(broker.bootstrap, client=ClientSettings((("isolation.level", "read_uncommitted"),)))
    )
    assert len(values(both, topic, 0, bounds.end)) == 6
    both.close()


def test_a_range_that_retention_has_passed_or_that_is_not_there(broker: Broker, reader: KafkaReader) -> None:
    topic = make_topic(broker.bootstrap)
    send(broker.bootstrap, topic, numbered(0, 100))
    delete_before(broker.bootstrap, topic, 0, 40)
    assert values(reader, topic, 40, 100) == numbered(40, 100)
    with pytest.raises(PositionGapError, match="Retention has passed") as caught:
        values(reader, topic, 10, 100)
    assert str(caught.value.expected).startswith("offset 10")
    assert "offset 40. 30 offsets" in str(caught.value.found)
    with pytest.raises(PositionGapError, match="ends before the committed position"):
        values(reader, topic, 500, 600)
    assert values(reader, topic, 40, 50) == numbered(40, 50)  # it works on after an error


def test_a_topic_made_again_while_it_was_read(broker: Broker, reader: KafkaReader) -> None:
    topic = make_topic(broker.bootstrap)
    send(broker.bootstrap, topic, numbered(0, 10))
    planned = id_of(broker, topic)
    assert values(reader, topic, 0, 5, planned) == numbered(0, 5)
    drop_topic(broker.bootstrap, topic)
    assert values(reader, topic, 5, 10, planned) == numbered(5, 10)  # which it asked for by the id, and has already
    following = 10, 15
    with pytest.raises(FeedError, match="no such topic"):
        values(reader, topic, *following, planned)
    make_topic(broker.bootstrap, name=topic)
    send(broker.bootstrap, topic, numbered(0, 20))
    with pytest.raises(PositionGapError, match="recreated") as caught:
        values(reader, topic, *following, planned)
    assert planned in str(caught.value) and id_of(broker, topic) in str(caught.value)
    assert values(reader, topic, 5, 10, id_of(broker, topic)) == numbered(5, 10)


def test_no_broker_is_reported_with_its_reason() -> None:
    feed = KafkaOptions("127.0.0.1:1", ("t",))
    lonely = KafkaReader(feed, patience=5)
    with pytest.raises(RetryableFeedError, match="no message came") as caught:
        list(lonely.read(OffsetRange("t", 0, 0, 5)))
    assert "refused" in str(caught.value)
    with pytest.raises(RetryableFeedError):
        KafkaTopics(feed, patience=1).look()


def test_settings_that_are_wrong_show_no_secret() -> None:
    secret = ClientSettings((("sasl.password", "tiger"), ("security.protocol", "tiger")))
    with pytest.raises(SettingsError, match="refuses its settings") as caught:
        KafkaTopics(KafkaOptions("127.0.0.1:1", ("t",), client=secret))
    assert "tiger" not in str(caught.value) + repr(secret) and "sasl.password" in repr(secret)
    with pytest.raises(SettingsError, match="the stream sets itself"):
        KafkaTopics(KafkaOptions("127.0.0.1:1", ("t",), client=ClientSettings((("auto.offset.reset", "latest"),))))


def test_few_consumers_are_kept(broker: Broker) -> None:
    topics = [make_topic(broker.bootstrap) for _ in range(2)]
    for topic in topics:
        send(broker.bootstrap, topic, numbered(0, 20))
    reader = KafkaReader(KafkaOptions(broker.bootstrap, limits=ReadLimits(consumers=1)))
    for start in (0, 10):
        for topic in topics:
            assert values(reader, topic, start, start + 10) == numbered(start, start + 10)
    reader.close()
