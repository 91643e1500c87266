"""A broker whose log was put back to an older copy and has grown again: the stream stops before it takes a message.

Here and in Spark. What retention or compaction took from the log is no other log.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from typer.testing import Result

from sparkhaven.ingest.feeds.kafka.broker.reader import KafkaReader
from sparkhaven.ingest.feeds.kafka.broker.reader_pool import KEPT
from sparkhaven.ingest.feeds.kafka.options import ClientSettings, KafkaOptions
from sparkhaven.store.epochs.reading.stream_state import load_stream
from sparkhaven.store.epochs.state.log_values import LastMessage, OffsetRange
from sparkhaven.store.errors import EXIT_BAD_DATA, PositionGapError
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout, TableName
from sparkhaven.store.places import StreamPlace
from tests.support.commands import run
from tests.support.kafka.messages import messages
from tests.support.kafka.ticks import ids, stream_file, take, ticks
from tests.support.kafka.topics import delete_before, make_topic, send
from tests.support.servers.broker import Broker

pytestmark = [pytest.mark.kafka, pytest.mark.jvm]

QUICK = {"broker.session.timeout.ms": "1000", "broker.heartbeat.interval.ms": "300"}
COMPACTED = {
    "cleanup.policy": "compact",
    "segment.ms": "100",
    "min.cleanable.dirty.ratio": "0.001",
    "max.compaction.lag.ms": "100",
}
WAYS = ("local", "spark")
LOST = ("grown", "equal")
KEPT_LOGS = ("same", "expired", "compacted")


@dataclass(frozen=True)
class PutBack:
    """A broker, the streams below ``base``, and a reader that has read ten messages before it was put back."""

    broker: Broker
    base: Path
    reader: KafkaReader


def ingest(base: Path) -> Result:
    """What is there, as by a process of its own."""
    try:
        return run(base / "db", "ingest", base / "ticks.toml", "--once", "--local")
    finally:
        KEPT.close()


def last_of(base: Path, topic: str) -> LastMessage | None:
    state = load_stream(StreamPlace(Fs(), Layout(base / "db"), TableName("Test", "Tick"), "ticks"))
    return state.offsets[topic, 0].last


@pytest.fixture(scope="module")
def put_back(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PutBack]:
    """A broker that lost what came after a backup. Before that, each stream has taken ten messages of its topic."""
    base = tmp_path_factory.mktemp("put-back")
    with Broker(Fs(), base / "broker", settings=QUICK) as broker:
        at, names = broker.bootstrap, [f"{way}-{case}" for way in WAYS for case in (*LOST, *KEPT_LOGS)]
        for name in names:
            compacted = name.endswith("compacted")
            make_topic(at, settings=COMPACTED if compacted else None, name=name)
            early = 5 if name.endswith(LOST) else 10
            send(at, name, ticks(range(early)), key=b"k" if compacted else None)
            stream_file(base / name, at, f'topics = ["{name}"]')
        broker.stop()
        shutil.copytree(broker.data, base / "backup")
        broker.start()
        for name in names:
            if name.endswith(LOST):
                send(at, name, ticks(range(5, 10)))
            done = ingest(base / name)
            assert done.exit_code == 0 and ids(base / name) == [*range(10)], done.output
        client = ClientSettings((("reconnect.backoff.max.ms", "200"),))
        reader = KafkaReader(KafkaOptions(at, client=client), patience=16)
        for case in ("same", "grown"):
            assert len(messages(reader, OffsetRange(f"local-{case}", 0, 0, 10))) == 10
        broker.stop()
        shutil.rmtree(broker.data)
        (base / "backup").rename(broker.data)
        broker.start()
        for name in names:
            if name.endswith("expired"):
                delete_before(at, name, 0, 10)
            send(at, name, ticks(range(100, 105)), key=b"k" if name.endswith("compacted") else None)
            if name.endswith("grown"):
                send(at, name, ticks(range(105, 110)))
        for name in names:
            if name.endswith("compacted"):
                until_compacted(at, name)
        yield PutBack(broker, base, reader)
        reader.close()


def until_compacted(bootstrap: str, topic: str) -> None:
    """Waits until the last message that was taken is gone."""
    reader = KafkaReader(KafkaOptions(bootstrap, (topic,)))
    end, since = 15, time.monotonic()
    while messages(reader, OffsetRange(topic, 0, 9, 10)):
        assert time.monotonic() - since < 300, "nothing was compacted"
        time.sleep(0.2)
        send(bootstrap, topic, ticks([end]), key=b"k")  # a new segment, so that the others are compacted
        end += 1
    reader.close()


@pytest.mark.parametrize("case", LOST)
def test_a_log_that_was_put_back_is_refused(put_back: PutBack, case: str) -> None:
    """Also where it has just grown to the committed position, and nothing waits behind it."""
    base = put_back.base / f"local-{case}"
    last = last_of(base, base.name)
    assert last is not None and last.offset == 9 and last.epoch >= 0
    for words in ((), ("--dry-run",)):
        done = run(base / "db", "ingest", base / "ticks.toml", "--once", "--local", *words)
        KEPT.close()
        assert done.exit_code == EXIT_BAD_DATA, done.output
        assert "the partition has another message at an offset that was read before" in done.output
        assert f"where: {base.name}/0" in done.output and f"expected: {last}" in done.output
        assert "found: offset 9 with checksum" in done.output and "epochs rollback" in done.output
    assert ids(base) == [*range(10)] and last_of(base, base.name) == last


@pytest.mark.spark
@pytest.mark.parametrize("case", LOST)
def test_it_is_refused_in_spark(put_back: PutBack, spark: SparkSession, case: str) -> None:
    broker, base = put_back.broker, put_back.base / f"spark-{case}"
    done = take(spark, base, broker.bootstrap, f'topics = ["{base.name}"]')
    assert isinstance(done.error, PositionGapError) and done.error.where == f"{base.name}/0"
    assert "another message at an offset that was read before" in str(done.error) and ids(base) == [*range(10)]


@pytest.mark.parametrize("case", KEPT_LOGS)
def test_a_log_that_only_lost_old_messages_goes_on(put_back: PutBack, case: str) -> None:
    base = put_back.base / f"local-{case}"
    done = ingest(base)
    assert done.exit_code == 0, done.output
    assert ids(base)[:10] == [*range(10)] and 104 in ids(base)[10:] + [104] * (case == "compacted")
    assert len(ids(base)) > 10


def test_a_reader_that_was_cut_off_compares_before_it_goes_on(put_back: PutBack) -> None:
    """Within one process: what was read before the connection was lost, and what comes after it, are of one log."""
    reader = put_back.reader
    kept, lost = (OffsetRange(f"local-{case}", 0, 10, 15) for case in ("same", "grown"))
    assert [message.value for message in messages(reader, kept)] == ticks(range(100, 105))
    with pytest.raises(PositionGapError, match="another message at an offset") as caught:
        messages(reader, lost)
    assert caught.value.where == f"{lost.topic}/0"
