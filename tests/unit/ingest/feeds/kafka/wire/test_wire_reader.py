"""Ranges by requests of our own from brokers in memory: each message once, whoever leads and whatever breaks."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from sparkhaven.ingest.feeds.kafka.broker import reader as module
from sparkhaven.ingest.feeds.kafka.broker.clients import consumer_settings
from sparkhaven.ingest.feeds.kafka.broker.reader import BatchReader, WireReader, kept_reader
from sparkhaven.ingest.feeds.kafka.broker.wire.requests import id_text
from sparkhaven.ingest.feeds.kafka.broker.wire.settings import wire_settings
from sparkhaven.ingest.feeds.kafka.options import ClientSettings, KafkaOptions, ReadLimits
from sparkhaven.store.epochs.state.log_values import OffsetRange
from sparkhaven.store.errors import FeedError, FeedSettingsError, PositionGapError, RetryableFeedError
from tests.support.ingest.messages import Fake
from tests.support.kafka.fake_brokers import (
    KAFKA_4,
    KAFKA_21,
    NOT_LEADER,
    PARTITION,
    TOPIC,
    UNKNOWN_TOPIC,
    Brokers,
    brokers,
    offsets,
)
from tests.support.kafka.fake_library import FakeLibrary
from tests.support.kafka.record_batches import ABORT, COMMIT, TRANSACTIONAL, Rec, batch, marker

EACH = 10  # records of a batch
QUICK = {"reconnect.backoff.ms": "1", "reconnect.backoff.max.ms": "5"}


def fill(opened: Brokers, count: int = 1000, start: int = 0) -> None:
    """Messages with their offset as value."""
    for first in range(start, start + count, EACH):
        records = [Rec(n, b"%d" % (first + n), b"k", n) for n in range(EACH)]
        opened.partition.put(first, first + EACH - 1, batch(first, records, epoch=opened.partition.epoch))


@pytest.fixture
def made() -> Iterator[Callable[..., WireReader]]:
    """Makes a reader for brokers."""
    with ExitStack() as stack:

        def make(opened: Brokers, patience: float = 5.0, limits: ReadLimits | None = None, **client: str) -> WireReader:
            settings = ClientSettings(tuple({**QUICK, **client}.items()))
            feed = KafkaOptions(opened.bootstrap, (TOPIC,), client=settings, limits=limits or ReadLimits())
            library = FakeLibrary([Fake(at, b"old") for at in range(2000)])
            reader = WireReader(library.library, wire_settings(consumer_settings(feed)), feed, patience=patience)
            stack.callback(reader.close)
            return reader

        yield make


Made = Callable[..., WireReader]


def read(reader: WireReader, start: int, stop: int, topic_id: str = "") -> list[int]:
    return [
        offset for some in reader.read(OffsetRange(TOPIC, PARTITION, start, stop, topic_id)) for offset in some.offsets
    ]


def values(reader: WireReader, start: int, stop: int) -> list[bytes | None]:
    blocks = reader.read(OffsetRange(TOPIC, PARTITION, start, stop))
    return [some.at(offset).value() for some in blocks for offset in some.offsets.tolist()]


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
        with pytest.raises(PositionGapError, match="did not find the committed position") as caught:
            read(reader, 500, 1000)
        assert "truncated" in str(caught.value.found)


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


def test_markers_and_what_was_aborted_are_left_out(made: Made) -> None:
    def put(first: int, producer: int, *texts: bytes) -> None:
        records = [Rec(n, text) for n, text in enumerate(texts)]
        octets = batch(first, records, attributes=TRANSACTIONAL, producer=producer)
        opened.partition.put(first, first + len(texts) - 1, octets)

    with brokers() as opened:
        put(0, 7, b"a")
        put(1, 8, b"no", b"no")
        put(3, 7, b"b")
        opened.partition.put(4, 4, marker(4, COMMIT, 7))
        put(5, 8, b"no")
        put(6, 7, b"no")  # of its next transaction, which is aborted too
        opened.partition.put(7, 7, marker(7, ABORT, 8))
        put(8, 8, b"c")
        opened.partition.put(9, 9, batch(9, [Rec(0, b"d")], producer=7))  # of no transaction
        opened.partition.put(10, 10, marker(10, ABORT, 7))
        opened.partition.put(11, 11, marker(11, COMMIT, 8))
        opened.partition.aborted = [(7, 6), (8, 1)]
        reader = made(opened)
        assert values(reader, 0, 12) == [b"a", b"b", b"c", b"d"]
        assert values(reader, 5, 8) == [] and values(reader, 10, 12) == []
        everything = made(opened, **{"isolation.level": "read_uncommitted"})
        assert values(everything, 0, 12) == [b"a", b"no", b"no", b"b", b"no", b"no", b"c", b"d"]
        assert not opened.fetches[-1].committed


def test_holes_and_batches_of_nothing(made: Made) -> None:
    with brokers() as opened:
        opened.partition.put(0, 9, batch(0, [Rec(2, b"2"), Rec(7, None)], last=9))
        opened.partition.put(10, 19, batch(10, [], last=19))
        opened.partition.put(50, 59, batch(50, [Rec(0, b"50")], last=59))
        reader = made(opened)
        assert values(reader, 0, 60) == [b"2", None, b"50"]
        assert read(reader, 3, 50) == [7] and read(reader, 10, 20) == [] and read(reader, 8, 51) == [50]


def test_checksums_are_as_they_are_wished(made: Made) -> None:
    octets = bytearray(batch(10, [Rec(n, b"x" * 20) for n in range(10)]))
    octets[-3] ^= 1
    with brokers() as opened:
        fill(opened, 10)
        opened.partition.put(10, 19, bytes(octets))
        reader = made(opened)
        assert read(reader, 0, 10) == list(range(10)), "what is damaged lies behind the range"
        with pytest.raises(FeedError, match="a message is damaged") as caught:
            read(reader, 0, 20)
        assert "CRC" in str(caught.value.found)
        assert read(made(opened, **{"check.crcs": "false"}), 0, 20) == list(range(20))


def test_records_that_are_damaged_under_a_checksum_that_holds(made: Made) -> None:
    with brokers() as opened:
        fill(opened, 10)
        opened.partition.put(10, 19, batch(10, [Rec(3, b"x"), Rec(2, b"y")], last=19))
        reader = made(opened)
        assert read(reader, 0, 10) == list(range(10))
        with pytest.raises(FeedError, match="a message is damaged"):
            read(reader, 0, 20)


def test_a_batch_that_is_larger_than_what_is_asked_for(made: Made) -> None:
    with brokers() as opened:
        fill(opened, 10)
        opened.partition.put(10, 10, batch(10, [Rec(0, b"x" * 300_000)]))
        fill(opened, 10, start=11)
        reader = made(opened, **{"fetch.message.max.bytes": "1000"})
        assert list(map(len, map(bytes, values(reader, 9, 12)))) == [1, 300_000, 2]  # type: ignore[arg-type]


def test_an_answer_that_is_too_large_is_refused(made: Made) -> None:
    with brokers() as opened:
        opened.partition.put(0, 0, batch(0, [Rec(0, b"x" * 5000)]))
        limits = {"fetch.message.max.bytes": "1000", "fetch.max.bytes": "1000", "receive.message.max.bytes": "2000"}
        with pytest.raises(RetryableFeedError, match="no message came") as caught:
            read(made(opened, patience=0.2, **limits), 0, 1)
        assert "receive.message.max.bytes" in str(caught.value)


def test_a_broker_that_wants_to_be_left_alone(made: Made) -> None:
    with brokers() as opened:
        fill(opened, 2000)
        opened.partition.throttle_ms = 150
        reader = made(opened, **{"fetch.message.max.bytes": "20000"})
        since = time.monotonic()
        assert read(reader, 0, 2000) == list(range(2000))
        assert len(opened.fetches) >= 2 and time.monotonic() - since > 0.14 * (len(opened.fetches) - 1)


def test_blocks_have_the_size_that_they_should(made: Made) -> None:
    with brokers() as opened:
        fill(opened, 1000)
        reader = made(opened, limits=ReadLimits(messages=300))
        sizes = [len(some) for some in reader.read(OffsetRange(TOPIC, PARTITION, 5, 995))]
        assert sizes == [300, 300, 300, 90]
        by_bytes = made(opened, limits=ReadLimits(bytes=100))  # of values and keys, of two to four bytes
        sizes = [len(some) for some in by_bytes.read(OffsetRange(TOPIC, PARTITION, 100, 200))]
        assert sizes == [25] * 4


@pytest.mark.parametrize("newer", [False, True])
def test_topics_by_name_and_by_id(made: Made, newer: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    with brokers(versions=KAFKA_4 if newer else {**KAFKA_21, METADATA_API: (0, 9)}) as opened:
        fill(opened)
        reader, topic_id = made(opened), id_text(opened.partition.topic_id)
        asked: list[OffsetRange] = []
        monkeypatch.setattr(reader, "_asked_for_topic", lambda wanted: asked.append(wanted) or (lambda: None))
        assert read(reader, 0, 100, topic_id) == list(range(100)) and len(asked) == 1
        (one,) = opened.fetches
        assert (one.version, one.topic) == ((13, opened.partition.topic_id) if newer else (10, TOPIC.encode()))
        if newer:
            opened.partition.topic_id = b"another topic id"
            with pytest.raises(RetryableFeedError, match="cannot be read"):  # nobody says what became of it
                read(reader, 900, 1010, topic_id)
            assert len(asked) == 2


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


def test_settings_that_are_not_known_go_to_librdkafka(caplog: pytest.LogCaptureFixture) -> None:
    module._reader_of.cache_clear()
    with caplog.at_level(logging.INFO, "sparkhaven.kafka"):
        assert type(kept_reader(KafkaOptions("b:1", ("t",)))) is WireReader
        assert not caplog.records
        client = ClientSettings((("client.rack", "one"),))
        assert type(kept_reader(KafkaOptions("b:1", ("t",), client=client))) is BatchReader
    module._reader_of.cache_clear()
    (record,) = caplog.records
    assert record.getMessage().startswith("messages are read by librdkafka (feed.client has client.rack)")


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
