"""What answers of brokers may have in them: what is left out, damaged, too large, or not there."""

from __future__ import annotations

import time

import pytest

from sparkhaven.ingest.feeds.kafka.broker import link
from sparkhaven.ingest.feeds.kafka.options import ReadLimits
from sparkhaven.store.epochs.state.log_values import OffsetRange
from sparkhaven.store.errors import FeedError, RetryableFeedError
from tests.support.kafka.fake_brokers import (
    PARTITION,
    TOPIC,
    brokers,
)
from tests.support.kafka.fetched import ID, Made, fill, read, values
from tests.support.kafka.record_batches import ABORT, COMMIT, TRANSACTIONAL, Rec, batch, marker


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
        reader = made(opened, **{"max.partition.fetch.bytes": "1000"})
        assert list(map(len, map(bytes, values(reader, 9, 12)))) == [1, 300_000, 2]  # type: ignore[arg-type]


def test_an_answer_that_is_too_large_is_refused(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link, "MOST_RECEIVED", 2000)
    with brokers() as opened:
        opened.partition.put(0, 0, batch(0, [Rec(0, b"x" * 5000)]))
        with pytest.raises(RetryableFeedError, match="no message came") as caught:
            read(made(opened, patience=0.5), 0, 1)
        assert "an answer of 5" in str(caught.value)


def test_a_broker_that_wants_to_be_left_alone(made: Made) -> None:
    with brokers() as opened:
        fill(opened, 2000)
        opened.partition.throttle_ms = 150
        reader = made(opened, **{"max.partition.fetch.bytes": "20000"})
        since = time.monotonic()
        assert read(reader, 0, 2000) == list(range(2000))
        assert len(opened.fetches) >= 2 and time.monotonic() - since > 0.14 * (len(opened.fetches) - 1)


def test_blocks_have_the_size_that_they_should(made: Made) -> None:
    with brokers() as opened:
        fill(opened, 1000)
        reader = made(opened, limits=ReadLimits(messages=300))
        sizes = [len(some) for some in reader.read(OffsetRange(TOPIC, PARTITION, 5, 995, ID))]
        assert sizes == [300, 300, 300, 90]
        by_bytes = made(opened, limits=ReadLimits(bytes=100))  # of values and keys, of two to four bytes
        sizes = [len(some) for some in by_bytes.read(OffsetRange(TOPIC, PARTITION, 100, 200, ID))]
        assert sizes == [25] * 4
