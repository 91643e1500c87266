"""Which reader a stream gets: its own of the last batch, and never one that another stream is using."""

from __future__ import annotations

import os
import threading
from itertools import pairwise

import pytest

from sparkhaven.ingest.feeds.kafka.broker.reader_pool import ReaderPool
from sparkhaven.ingest.feeds.kafka.options import KafkaOptions, ReadLimits
from sparkhaven.store.epochs.state.log_values import OffsetRange
from tests.support.kafka.fake_brokers import PARTITION, TOPIC, brokers
from tests.support.kafka.fetched import ID, fill, read

FEED = KafkaOptions("b:1", ("t",))


def wanted(start: int, stop: int) -> OffsetRange:
    return OffsetRange(TOPIC, PARTITION, start, stop, ID)


def test_a_reader_is_kept_for_its_feed_and_process(monkeypatch: pytest.MonkeyPatch) -> None:
    kept, other = ReaderPool(), KafkaOptions("b:1", ("other",))
    with kept.lease(FEED, []) as first:
        pass
    with (
        kept.lease(FEED, []) as again,
        kept.lease(other, []) as of_other,
        kept.lease(FEED, [], headers=["h"]) as with_headers,
    ):
        assert again is first and first not in (of_other, with_headers)
    with monkeypatch.context() as patched:
        patched.setattr(os, "getpid", lambda: -1)
        with kept.lease(FEED, []) as of_child:
            assert of_child is not first  # whose connections are its parent's
        of_child.close()
    kept.close()


def test_a_reader_that_is_used_is_not_given_to_another() -> None:
    kept = ReaderPool()
    with kept.lease(FEED, []) as one, kept.lease(FEED, []) as other:
        assert one is not other
    with kept.lease(FEED, []) as again:
        assert again in (one, other)


def test_a_stream_gets_the_reader_that_goes_on_with_its_ranges() -> None:
    with brokers() as opened:
        fill(opened)
        kept, feed = ReaderPool(), KafkaOptions(opened.bootstrap, (TOPIC,))
        with kept.lease(feed, []) as one, kept.lease(feed, []) as other:
            list(one.read(wanted(0, 100)))
            list(other.read(wanted(0, 300)))
        for start, reader in [(100, one), (300, other), (100, one)]:
            with kept.lease(feed, [wanted(start, 400)]) as got, kept.lease_of(feed, [wanted(start, 400)]) as no_other:
                assert got is reader and no_other is None
        with kept.lease_of(feed, [wanted(200, 400)]) as nobody, kept.lease_of(feed, [wanted(300, 400)]) as somebody:
            assert nobody is None and somebody is other


def test_readers_that_were_not_used_for_long_are_closed() -> None:
    with brokers() as opened:
        fill(opened)
        kept, feed = ReaderPool(most=1), KafkaOptions(opened.bootstrap, (TOPIC,))
        with kept.lease(feed, []) as reader:
            list(reader.read(wanted(0, 10)))
        assert reader.stands_at(TOPIC, PARTITION, 10)
        with kept.lease(FEED, []):
            pass
        assert not reader.stands_at(TOPIC, PARTITION, 10)


def test_streams_of_one_process_read_one_topic_at_the_same_time() -> None:
    """Each has all messages of its ranges: a reader of both would go to and fro between their positions."""
    with brokers() as opened:
        fill(opened, 2000)
        kept = ReaderPool()
        feed = KafkaOptions(opened.bootstrap, (TOPIC,), limits=ReadLimits(messages=7))
        got: dict[int, list[int]] = {}

        def stream(size: int) -> None:
            offsets: list[int] = []
            for start, stop in pairwise(range(0, 2001, size)):
                with kept.lease(feed, [wanted(start, stop)]) as reader:
                    offsets += read(reader, start, stop)
            got[size] = offsets

        threads = [threading.Thread(target=stream, args=(size,)) for size in (40, 50, 80)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert got == {size: list(range(2000)) for size in (40, 50, 80)}
