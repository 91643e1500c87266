"""Topics of a real broker through a real Spark stream into a table: every message once, and no silent jump."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from sparkhaven.store.epochs.reading.stream_state import load_stream
from sparkhaven.store.errors import ErrorBudgetExceeded, PositionGapError
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout, TableName
from sparkhaven.store.places import StreamPlace
from tests.support.kafka.ticks import ids, stream_file, taken, tick, ticks
from tests.support.kafka.topics import (
    delete_before,
    drop_topic,
    make_topic,
    more_partitions,
    send,
    send_in_transactions,
)
from tests.support.servers.broker import Broker

pytestmark = [pytest.mark.kafka, pytest.mark.jvm, pytest.mark.spark]


def offsets(base: Path) -> dict[str, int]:
    state = load_stream(StreamPlace(Fs(), Layout(base / "db"), TableName("Test", "Tick"), "ticks"))
    return state.offsets.positions()


def test_a_stream_goes_on_where_it_ended_and_takes_new_partitions(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    topic = make_topic(broker.bootstrap, 2)
    feed = f'topics = ["{topic}"]\nmax_per_trigger = {{ rows = 4 }}'
    send(broker.bootstrap, topic, ticks(range(5)), 0)
    send(broker.bootstrap, topic, [tick(10), None, tick(11)], 1)
    first = taken(spark, tmp_path, broker.bootstrap, feed)
    assert ids(tmp_path) == [0, 1, 2, 3, 4, 10, None, 11]
    assert first.totals is not None and first.totals.epochs == 2  # four messages a batch, two of each partition
    send(broker.bootstrap, topic, ticks([5]), 0)
    more_partitions(broker.bootstrap, topic, 3)
    send(broker.bootstrap, topic, ticks([20, 21]), 2)
    taken(spark, tmp_path, broker.bootstrap, f'{feed}\nstart = "latest"')
    assert ids(tmp_path) == [0, 1, 2, 3, 4, 5, 10, None, 11, 20, 21]
    assert offsets(tmp_path) == {f"{topic}/0": 6, f"{topic}/1": 3, f"{topic}/2": 2}


def test_latest_is_written_down_before_the_first_message(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    topic = make_topic(broker.bootstrap)
    send(broker.bootstrap, topic, ticks([1, 2]))
    feed = f'topics = ["{topic}"]\nstart = "latest"'
    taken(spark, tmp_path, broker.bootstrap, feed)
    send(broker.bootstrap, topic, ticks([3]))  # while the stream is down
    taken(spark, tmp_path, broker.bootstrap, feed)
    assert ids(tmp_path) == [3]


def test_transactions_and_compaction(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    compact = {"cleanup.policy": "compact", "segment.ms": "100", "min.cleanable.dirty.ratio": "0.001"}
    topic = make_topic(broker.bootstrap, 1, compact)
    for number in range(30):
        send(broker.bootstrap, topic, ticks([number]), key=f"k{number % 3}")
    time.sleep(0.3)
    send(broker.bootstrap, topic, ticks([99]), key="last")  # rolls the segment, so that the others can be compacted
    end = time.monotonic() + 240
    log = broker.data / f"{topic}-0"
    while sum(file.stat().st_size for file in log.glob("*.log")) > 1500 and time.monotonic() < end:
        time.sleep(0.1)
    feed = f'topics = ["{topic}"]'
    taken(spark, tmp_path / "a", broker.bootstrap, feed)
    found = ids(tmp_path / "a")
    assert found[-1] == 99 and set(found) >= {27, 28, 29, 99} and len(found) < 31, found
    assert offsets(tmp_path / "a") == {f"{topic}/0": 31}

    topic = make_topic(broker.bootstrap)
    groups = [(True, [tick(1), tick(2)]), (False, [tick(-1)]), (True, [tick(3)]), (False, [tick(-2)])]
    send_in_transactions(broker.bootstrap, topic, groups)
    taken(spark, tmp_path / "b", broker.bootstrap, f'topics = ["{topic}"]')
    assert ids(tmp_path / "b") == [1, 2, 3]
    assert offsets(tmp_path / "b") == {f"{topic}/0": 9}


def test_lost_messages_and_other_topics_stop_the_stream(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    topic = make_topic(broker.bootstrap)
    feed = f'topics = ["{topic}"]'
    send(broker.bootstrap, topic, ticks(range(5)))
    taken(spark, tmp_path, broker.bootstrap, feed)
    send(broker.bootstrap, topic, ticks(range(5, 10)))
    delete_before(broker.bootstrap, topic, 0, 7)
    with pytest.raises(PositionGapError, match="Retention has passed") as caught:
        taken(spark, tmp_path, broker.bootstrap, feed)
    assert caught.value.where == f"{topic}/0" and "allow_gap" in str(caught.value.hint)
    gone = taken(spark, tmp_path, broker.bootstrap, f"{feed}\nallow_gap = true")
    assert gone.totals is not None and gone.totals.passed == 2
    assert ids(tmp_path) == [0, 1, 2, 3, 4, 7, 8, 9]

    drop_topic(broker.bootstrap, topic)
    make_topic(broker.bootstrap, name=topic)
    send(broker.bootstrap, topic, ticks([100]))
    with pytest.raises(PositionGapError, match="recreated"):
        taken(spark, tmp_path, broker.bootstrap, feed)
    taken(spark, tmp_path, broker.bootstrap, f"{feed}\nallow_gap = true")
    assert ids(tmp_path) == [0, 1, 2, 3, 4, 7, 8, 9, 100]


def test_a_bad_message_stops_the_stream_by_its_place(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    topic = make_topic(broker.bootstrap)
    send(broker.bootstrap, topic, [tick(1), b'{"Id": 1.5}', tick(2)])
    with pytest.raises(ErrorBudgetExceeded, match="Nothing of this batch was committed") as caught:
        taken(spark, tmp_path, broker.bootstrap, f'topics = ["{topic}"]')
    assert f"{topic}/0 offset 1, column Id" in str(caught.value)


def test_secrets_are_in_no_plan_and_no_log(
    spark: SparkSession, broker: Broker, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    from sparkhaven.jobs.settings.stream_file import load_stream_file
    from sparkhaven.jobs.streams.runners import open_feed

    topic = make_topic(broker.bootstrap)
    send(broker.bootstrap, topic, ticks([1]))
    client = 'client = { "sasl.password" = "tiger-in-the-tank", "client.rack" = "r" }'
    feed = f'topics = ["{topic}"]\n{client}'
    run = taken(spark, tmp_path, broker.bootstrap, feed)
    settings = load_stream_file(Fs(), stream_file(tmp_path, broker.bootstrap, feed), {})
    opened = open_feed(spark, Layout(tmp_path / "db"), settings, once=True)
    opened.source.explain(extended=True)
    reported = capfd.readouterr()
    shown = [reported.out, reported.err, repr(settings), repr(run.settings), str(opened.source._jdf.queryExecution())]
    assert "sparkhaven_kafka" in shown[0]
    assert not any("tiger" in text for text in shown)
    written = [path for path in (tmp_path / "db").rglob("*") if path.is_file() and b"tiger" in path.read_bytes()]
    assert written == []
