"""A stream that is stopped does not wait for a broker that takes connections and answers nothing."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sparkhaven.ingest.feeds.base import Source
from sparkhaven.ingest.feeds.kafka.broker.topics import KafkaTopics
from sparkhaven.ingest.feeds.kafka.options import KafkaOptions
from sparkhaven.ingest.feeds.kafka.source import KafkaStream, TopicReader
from sparkhaven.ingest.feeds.spark_planning import AvailableNow
from sparkhaven.readers.spark.source_api import ReadAllAvailable, SupportsTriggerAvailableNow
from sparkhaven.store.errors import PositionGapError, RetryableFeedError
from sparkhaven.store.layout import TableName


@pytest.fixture
def silent() -> Iterator[str]:
    """Where a broker listens that never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield f"127.0.0.1:{listening.getsockname()[1]}"


@pytest.mark.slow
@pytest.mark.parametrize("named", [True, False])
def test_a_look_at_the_topics_ends_when_it_is_stopped(silent: str, named: bool) -> None:
    topics = KafkaTopics(KafkaOptions(silent, ("t",)) if named else KafkaOptions(silent, (), pattern="t.*"))
    begun = time.monotonic()
    stopper = threading.Timer(0.3, topics.stop)
    stopper.start()
    with pytest.raises(RetryableFeedError, match="stopped while it waited"):
        topics.look()
    assert 0.2 < time.monotonic() - begun < 10
    stopper.join()


class Waits(SupportsTriggerAvailableNow):
    """A reader that waits until it is stopped, and then has an error."""

    def __init__(self, error: Exception) -> None:
        self.error, self.waiting, self.stopped = error, threading.Event(), threading.Event()

    def getDefaultReadLimit(self) -> Any:
        return ReadAllAvailable()

    def initialOffset(self) -> dict[str, int]:
        return {}

    def prepareForTriggerAvailableNow(self) -> None:
        self.waiting.set()
        assert self.stopped.wait(30)
        raise self.error

    def stop(self) -> None:
        self.stopped.set()


def planner(reader: Waits) -> AvailableNow:
    class Made:
        def __init__(self, options: dict[str, str]) -> None: ...

        def schema(self) -> str:
            return "a INT"

        def streamReader(self, schema: Any) -> Waits:
            return reader

    return AvailableNow(Source(Made, {}))  # type: ignore[arg-type]


@pytest.mark.parametrize("error", [RetryableFeedError("stopped"), PositionGapError("a gap")])
def test_a_plan_that_stop_has_ended_has_no_rows_and_another_error_is_told(error: Exception) -> None:
    reader = Waits(error)
    plans = planner(reader)

    def stop() -> None:
        reader.waiting.wait(30)
        plans.stop()

    stopper = threading.Thread(target=stop)
    stopper.start()
    if isinstance(error, RetryableFeedError):
        assert plans.plan() == []
    else:
        with pytest.raises(PositionGapError):
            plans.plan()
    stopper.join()


def test_a_source_that_cannot_be_asked_is_an_error_where_nobody_stops_it() -> None:
    reader = Waits(RetryableFeedError("down"))
    reader.stop()
    with pytest.raises(RetryableFeedError):
        planner(reader).plan()


def test_the_reader_of_a_stream_hands_the_stop_on(silent: str, tmp_path: Path) -> None:
    topics = KafkaTopics(KafkaOptions(silent, ("t",)))
    stream = KafkaStream(tmp_path, TableName("Test", "Tick"), "ticks", KafkaOptions(silent, ("t",)), 1)
    TopicReader(stream, topics, {}).stop()
    with pytest.raises(RetryableFeedError, match="stopped while it waited"):
        topics.look()
