"""Ranges by requests of our own from brokers in memory: each message once, whoever leads and whatever breaks."""

from __future__ import annotations

import logging
import time

import pytest

from sparkhaven.ingest.feeds.kafka.broker.clients import consumer_settings
from sparkhaven.ingest.feeds.kafka.broker.wire.requests import id_text
from sparkhaven.ingest.feeds.kafka.broker.wire.settings import wire_settings
from sparkhaven.ingest.feeds.kafka.broker.wire_reader import WireReader
from sparkhaven.ingest.feeds.kafka.options import KafkaOptions, ReadLimits
from sparkhaven.store.epochs.state.log_values import OffsetRange
from sparkhaven.store.errors import FeedError, FeedSettingsError, PositionGapError, RetryableFeedError
from tests.support.kafka.fake_brokers import (
    KAFKA_4,
    KAFKA_21,
    NOT_LEADER,
    PARTITION,
    TOPIC,
    UNKNOWN_TOPIC,
    brokers,
    offsets,
)
from tests.support.kafka.fake_library import FakeLibrary
from tests.support.kafka.record_batches import Rec, batch
from tests.support.kafka.wire_reader import Made, fill, read, values


@pytest.mark.parametrize("versions", [KAFKA_21, KAFKA_4])
def test_ranges_that_follow_overlap_and_jump(made: Made, versions: dict[int, tuple[int, int]]) -> None:
    with brokers(versions=versions) as opened:
        fill(opened)
        reader = made(opened)
        for start, stop in [(0, 10), (10, 400), (400, 401), (500, 503), (3, 7), (990, 1000), (0, 1000), (17, 17)]:
            assert read(reader, start, stop) == list(range(start, stop)), (start, stop)
        (message,) = [some.at(23) for some in reader.read(OffsetRange(TOPIC, PARTITION, 23, 24))]
        assert (message.value(), message.key(), message.timestamp()) == (b"23", b"k", (1, 1_795_255_200_003))


def test_a_range_that_follows_asks_for_nothing_that_is_here(made: Made) -> None:
    with brokers() as opened:
        fill(opened)
        reader = made(opened)
        assert read(reader, 0, 5) == list(range(5))
        (one,) = opened.fetches
        assert read(reader, 5, 900) == list(range(5, 900))
        assert opened.fetches == [one], "all came with the first answer"


def test_the_next_portion_is_asked_for_while_the_last_is_decoded_and_no_more(made: Made) -> None:
    with brokers() as opened:
        fill(opened, 4000)
        reader = made(opened, **{"fetch.message.max.bytes": "20000"})
        read(reader, 0, 4000)
        asked = offsets(opened.fetches)
        assert asked == sorted(set(asked)) and len(asked) > 3 and asked[-1] < 4000
        del opened.fetches[:]
        read(reader, 0, 10)  # what lies behind it is not asked for, but for the rest of its portion
        time.sleep(0.05)
        assert offsets(opened.fetches) == [0]
        assert opened.fetches[0].size == 20_000
        assert all(one.committed for one in opened.fetches)


@pytest.mark.parametrize("failure", ["end", "half", "garbage"])
def test_a_connection_that_is_lost(made: Made, failure: str) -> None:
    with brokers() as opened:
        fill(opened, 3000)
        opened.failures = [None, failure, None, failure, failure, None]  # type: ignore[list-item]
        reader = made(opened, **{"fetch.message.max.bytes": "5000"})
        assert read(reader, 0, 3000) == list(range(3000))
        assert not opened.failures


def test_a_connection_that_ended_between_two_ranges(made: Made) -> None:
    with brokers() as opened:
        fill(opened)
        reader = made(opened)
        assert read(reader, 0, 1000) == list(range(1000))
        opened.disconnect(0)
        fill(opened, 10, start=1000)
        assert read(reader, 1000, 1010) == list(range(1000, 1010))


def test_a_broker_that_does_not_answer_is_left(made: Made) -> None:
    with brokers() as opened:
        fill(opened)
        opened.failures = ["silent"]
        reader = made(opened, patience=20, **{"socket.timeout.ms": "100", "fetch.wait.max.ms": "10"})
        assert read(reader, 0, 100) == list(range(100)) and len(opened.fetches) == 2


def test_a_leader_that_moves(made: Made) -> None:
    with brokers(3) as opened:
        fill(opened, 500)
        reader = made(opened)
        assert read(reader, 0, 500) == list(range(500))
        opened.partition.leader, opened.partition.epoch = 2, 6
        opened.partition.epoch_ends = {5: 500}
        fill(opened, 500, start=500)
        assert read(reader, 500, 1000) == list(range(500, 1000))
        assert [one.node for one in opened.fetches] == [0, 0, 2] and opened.fetches[-1].epoch == 6


def test_a_leader_that_dies(made: Made) -> None:
    with brokers(3) as opened:
        fill(opened, 500)
        opened.partition.leader = 1
        reader = made(opened)
        assert read(reader, 0, 400) == list(range(400))
        opened.kill(1)
        opened.partition.leader, opened.partition.epoch, opened.partition.epoch_ends = 2, 6, {5: 500}
        fill(opened, 500, start=500)
        assert read(reader, 400, 1000) == list(range(400, 1000))


def test_a_broker_of_the_settings_that_dies_while_others_live(made: Made) -> None:
    with brokers(2) as opened:
        fill(opened, 500)
        opened.partition.leader = 1
        reader = made(opened)
        assert read(reader, 0, 500) == list(range(500))
        opened.kill(0)
        opened.disconnect(1)
        fill(opened, 500, start=500)
        assert read(reader, 500, 1000) == list(range(500, 1000))


@pytest.mark.parametrize("ends", [{5: 480}, {}])
def test_a_new_leader_that_lacks_what_was_read(made: Made, ends: dict[int, int]) -> None:
    with brokers(2) as opened:
        fill(opened, 500)
        reader = made(opened)
        assert read(reader, 0, 500) == list(range(500))
        opened.partition.leader, opened.partition.epoch, opened.partition.epoch_ends = 1, 6, ends
        fill(opened, 500, start=500)
        with pytest.raises(PositionGapError, match="another message at an offset that was read") as caught:
            read(reader, 500, 1000)
        assert "truncated" in str(caught.value.found) and "offset 499 " in str(caught.value.expected)


def test_errors_that_pass(made: Made) -> None:
    with brokers() as opened:
        fill(opened)
        opened.partition.errors = [NOT_LEADER, 9, 5, 56, 74, 75, 78, 3, 0]
        assert read(made(opened), 0, 1000) == list(range(1000))


@pytest.mark.parametrize(
    ("code", "kind", "words"),
    [(29, FeedSettingsError, "refuses access"), (2, FeedError, "damaged"), (-1, RetryableFeedError, "cannot be read")],
)
def test_errors_that_do_not(made: Made, code: int, kind: type[Exception], words: str) -> None:
    with brokers() as opened:
        fill(opened)
        opened.partition.errors = [code]
        reader = made(opened)
        with pytest.raises(kind, match=words):
            read(reader, 0, 1000)
        assert read(reader, 0, 1000) == list(range(1000)), "it works on after an error"


def test_a_position_that_is_not_there(made: Made) -> None:
    with brokers() as opened:
        fill(opened)
        reader = made(opened)
        opened.partition.low = 100
        with pytest.raises(PositionGapError, match="Retention has passed") as caught:
            read(reader, 50, 200)
        assert "offset 100. 50 offsets" in str(caught.value.found)
        with pytest.raises(PositionGapError, match="ends before the committed position"):
            read(reader, 3000, 3010)


def test_a_partition_that_ends_before_the_range_does(made: Made) -> None:
    with brokers() as opened:
        fill(opened, 100)
        with pytest.raises(RetryableFeedError, match="no message came") as caught:
            read(made(opened, patience=0.2), 50, 200)
        assert "known to end at 100" in str(caught.value)


def test_a_topic_that_is_gone(made: Made) -> None:
    with brokers() as opened:
        fill(opened, 100)
        reader = made(opened)
        assert read(reader, 0, 100) == list(range(100))
        opened.partition.errors, opened.partition.topic_error = [UNKNOWN_TOPIC], UNKNOWN_TOPIC
        fill(opened, 100, start=100)
        with pytest.raises(FeedSettingsError, match="no such topic"):
            read(reader, 100, 200)
        new = made(opened, patience=0.2)  # which has never seen it: a broker may not know it yet
        with pytest.raises(RetryableFeedError, match="no message came") as caught:
            read(new, 0, 100)
        assert "Unknown topic" in str(caught.value)


def test_nobody_is_there(made: Made) -> None:
    with brokers() as opened:
        opened.close()
        with pytest.raises(RetryableFeedError, match="no message came") as caught:
            read(made(opened, patience=0.3), 0, 5)
        assert "refused" in str(caught.value) and opened.bootstrap in str(caught.value)


@pytest.mark.parametrize("newer", [False, True])
def test_topics_by_name_and_by_id(made: Made, newer: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    with brokers(versions=KAFKA_4 if newer else {**KAFKA_21, METADATA_API: (0, 9)}) as opened:
        fill(opened)
        reader, topic_id = made(opened), id_text(opened.partition.topic_id)
        asked: list[OffsetRange] = []
        monkeypatch.setattr(reader, "_asked_for_topic", lambda wanted: asked.append(wanted) or (lambda: None))
        assert read(reader, 0, 100, topic_id) == list(range(100)) and len(asked) == (not newer)
        (one,) = opened.fetches
        assert (one.version, one.topic) == ((13, opened.partition.topic_id) if newer else (10, TOPIC.encode()))
        if newer:
            opened.partition.topic_id = b"another topic id"
            with pytest.raises(RetryableFeedError, match="cannot be read"):  # nobody says what became of it
                read(reader, 900, 1010, topic_id)
            assert len(asked) == 1


METADATA_API = 3


def test_formats_of_before_go_to_librdkafka(made: Made, caplog: pytest.LogCaptureFixture) -> None:
    with brokers() as opened, caplog.at_level(logging.INFO, "sparkhaven.kafka"):
        fill(opened, 100)
        old = bytearray(batch(100, [Rec(0, b"new")]))
        old[16] = 1
        opened.partition.put(100, 100, bytes(old))
        reader = made(opened, limits=ReadLimits(messages=3))
        assert values(reader, 95, 105) == [b"95", b"96", b"97", *[b"old"] * 7], "from the first that was not handed out"
        assert values(reader, 105, 110) == [b"old"] * 5
        (record,) = caplog.records
        assert "before Kafka 0.11" in record.getMessage() and "read by librdkafka" in record.getMessage()


def test_brokers_that_are_too_old_go_to_librdkafka(made: Made, caplog: pytest.LogCaptureFixture) -> None:
    with brokers(versions={**KAFKA_21, 1: (0, 8)}) as opened, caplog.at_level(logging.INFO, "sparkhaven.kafka"):
        fill(opened, 100)
        reader = made(opened)
        assert values(reader, 5, 8) == [b"old"] * 3 and values(reader, 8, 10) == [b"old"] * 2
        (record,) = caplog.records
        assert "speaks Fetch 0 to 8" in record.getMessage()


@pytest.mark.parametrize("way", ["closed", "forgotten"])
def test_a_reader_that_ends_leaves_no_connection(way: str) -> None:
    with brokers() as opened:
        fill(opened)
        feed = KafkaOptions(opened.bootstrap, (TOPIC,))
        reader = WireReader(FakeLibrary().library, wire_settings(consumer_settings(feed)), feed)
        read(reader, 0, 10)
        (held,) = reader._held.values()
        connection = held.client._client._leaders.link.connection  # type: ignore[attr-defined]
        if way == "closed":
            reader.close()
        del held, reader
        assert connection._socket.fileno() == -1
