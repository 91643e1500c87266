"""What happens to broker and topic while a stream runs: it goes on by itself, or stops loudly with nothing wrong."""

from __future__ import annotations

import queue
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from rich.console import Console

from sparkhaven.ingest.feeds.kafka.broker.topics import Broker as Remote
from sparkhaven.ingest.feeds.kafka.broker.topics import KafkaTopics, OffsetBounds
from sparkhaven.ingest.feeds.kafka.options import KafkaOptions
from sparkhaven.jobs.monitor.waiting import SourceState, SourceWatch, watch_ends
from sparkhaven.jobs.settings.stream_file import load_stream_file
from sparkhaven.jobs.streams.progress import Progress
from sparkhaven.jobs.streams.runners import LocalRunner, Runner, SparkRunner
from sparkhaven.jobs.streams.stream import Application, RunOptions, keep_one, look_at_source, open_stream
from sparkhaven.jobs.streams.stream_run import StreamGroup, StreamRun, is_retryable
from sparkhaven.readers import open_table
from sparkhaven.store.epochs.files.stream_notes import read_failure
from sparkhaven.store.errors import (
    EXIT_USAGE,
    FeedSettingsError,
    PositionGapError,
    RetryableFeedError,
    TableNotFoundError,
)
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout
from tests.support.kafka.ticks import ids, stream_file, ticks
from tests.support.kafka.topics import drop_topic, make_topic, more_partitions, send
from tests.support.processes import wait_until
from tests.support.servers.broker import Broker

PATIENCE = 300.0


@contextmanager
def running(runner: Runner, base: Path, bootstrap: str, topic: str) -> Iterator[StreamRun]:
    """A stream in a thread, restarts included, until the body ends."""
    fs, layout, stop = Fs(), Layout(base / "db"), threading.Event()
    settings = load_stream_file(fs, stream_file(base, bootstrap, f'topics = ["{topic}"]'), {})
    progress = Progress(console=Console(quiet=True))
    with ExitStack() as opened:
        run = open_stream(fs, layout, settings, opened, progress)
        look_at_source(StreamGroup([run]), opened, progress, RunOptions())
        app = Application(fs, layout, runner, RunOptions(), progress, stop)
        thread = threading.Thread(target=keep_one, args=(app, StreamGroup([run])))
        thread.start()
        try:
            yield run
        finally:
            stop.set()
            thread.join(PATIENCE)
        assert not thread.is_alive()


def wait_for(what: Callable[[], bool], run: StreamRun) -> None:
    wait_until(what, PATIENCE, lambda: (run.error, run.log.state.offsets))


def count(base: Path) -> int:
    """Rows of the stream's table."""
    try:
        return open_table(base / "db", "Test.Tick").count()
    except TableNotFoundError:
        return 0


pytestmark = [pytest.mark.kafka, pytest.mark.jvm, pytest.mark.spark]


@pytest.fixture(scope="module")
def own_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """One that these tests may kill."""
    quick = {"broker.session.timeout.ms": "1000", "broker.heartbeat.interval.ms": "300"}
    with Broker(Fs(), tmp_path_factory.mktemp("own-broker"), settings=quick) as made:
        yield made


@pytest.fixture(params=["spark", "local"])
def runner(request: pytest.FixtureRequest) -> Runner:
    """What runs the batches of a stream: Spark, or this process."""
    if request.param == "spark":
        return SparkRunner(request.getfixturevalue("spark"))
    return LocalRunner(once=False)


def has_stopped(run: StreamRun) -> bool:
    """Whether an error stands that no restart takes away."""
    error = run.error
    return error is not None and not is_retryable(error)


def test_a_stream_survives_a_broker_that_dies_and_comes_back(
    runner: Runner, own_broker: Broker, tmp_path: Path
) -> None:
    topic = make_topic(own_broker.bootstrap, 2)
    send(own_broker.bootstrap, topic, ticks(range(0, 100, 2)), 0)
    send(own_broker.bootstrap, topic, ticks(range(1, 100, 2)), 1)
    with running(runner, tmp_path, own_broker.bootstrap, topic) as run:
        wait_for(lambda: count(tmp_path) == 100, run)
        own_broker.kill()
        wait_for(lambda: run.watch is not None and not run.watch.last.reachable, run)
        assert run.error is None or is_retryable(run.error), "the stream waits, or starts again later"
        wait_for(lambda: (failure := read_failure(run.place)) is not None and failure.exit_code == 3, run)
        own_broker.start()
        send(own_broker.bootstrap, topic, ticks(range(100, 200, 2)), 0)
        send(own_broker.bootstrap, topic, ticks(range(101, 200, 2)), 1)
        wait_for(lambda: count(tmp_path) == 200, run)
        wait_for(lambda: read_failure(run.place) is None, run)
    assert run.error is None
    assert ids(tmp_path) == [*range(0, 200, 2), *range(1, 200, 2)]


def test_partitions_that_are_added_while_a_stream_runs(runner: Runner, own_broker: Broker, tmp_path: Path) -> None:
    topic = make_topic(own_broker.bootstrap)
    send(own_broker.bootstrap, topic, ticks(range(10)))
    with running(runner, tmp_path, own_broker.bootstrap, topic) as run:
        wait_for(lambda: count(tmp_path) == 10, run)
        more_partitions(own_broker.bootstrap, topic, 3)
        for partition in range(3):
            send(own_broker.bootstrap, topic, ticks(range(10 * partition + 10, 10 * partition + 20)), partition)
        wait_for(lambda: count(tmp_path) == 40, run)
        send(own_broker.bootstrap, topic, ticks(range(40, 50)), 2)
        wait_for(lambda: count(tmp_path) == 50, run)
    assert sorted(ids(tmp_path)) == [*range(50)]


def test_streams_of_one_process_follow_one_topic(own_broker: Broker, tmp_path: Path) -> None:
    """Each has every message once, while the other is somewhere else in the topic."""
    topic = make_topic(own_broker.bootstrap)
    bases = [tmp_path / name for name in ("one", "two", "three")]
    with ExitStack() as opened:
        runs = [
            opened.enter_context(running(LocalRunner(once=False), base, own_broker.bootstrap, topic)) for base in bases
        ]
        for first in range(0, 3000, 50):
            send(own_broker.bootstrap, topic, ticks(range(first, first + 50)))
        for base, run in zip(bases, runs, strict=True):
            wait_for(lambda base=base: count(base) == 3000, run)  # type: ignore[misc]
    for base, run in zip(bases, runs, strict=True):
        assert run.error is None and ids(base) == [*range(3000)]


def test_a_broker_that_dies_while_it_is_asked_has_not_lost_messages(own_broker: Broker) -> None:
    topic = make_topic(own_broker.bootstrap, 2)
    for partition in (0, 1):
        send(own_broker.bootstrap, topic, ticks(range(50)), partition)
    topics = KafkaTopics(KafkaOptions(own_broker.bootstrap, (topic,)), patience=1)
    seen: list[OffsetBounds] = []
    silent, stop = 0, threading.Event()

    def ask() -> None:
        nonlocal silent
        while not stop.is_set():
            try:
                seen.extend(topics.look()[topic].partitions.values())
            except RetryableFeedError:
                silent += 1

    asking = threading.Thread(target=ask)
    asking.start()
    try:
        for _ in range(3):
            answers, silences = len(seen), silent
            wait_until(lambda before=answers: len(seen) > before, PATIENCE)
            own_broker.kill()
            wait_until(lambda before=silences: silent > before, PATIENCE)
            own_broker.start()
    finally:
        stop.set()
        asking.join()
    assert set(seen) == {OffsetBounds(0, 50)}


def test_a_broker_restored_from_a_backup_stops_the_stream(runner: Runner, own_broker: Broker, tmp_path: Path) -> None:
    topic = make_topic(own_broker.bootstrap)
    send(own_broker.bootstrap, topic, ticks(range(5)))
    with running(runner, tmp_path, own_broker.bootstrap, topic) as run:
        wait_for(lambda: count(tmp_path) == 5, run)
        own_broker.stop()
        shutil.copytree(own_broker.data, tmp_path / "backup")
        own_broker.start()
        send(own_broker.bootstrap, topic, ticks(range(5, 10)))
        wait_for(lambda: count(tmp_path) == 10, run)
        own_broker.stop()
        shutil.rmtree(own_broker.data)
        (tmp_path / "backup").rename(own_broker.data)
        own_broker.start()
        wait_for(lambda: has_stopped(run), run)
        send(own_broker.bootstrap, topic, ticks(range(20, 40)))
    assert isinstance(run.error, PositionGapError)
    assert "ends before the committed position" in str(run.error) and "restored from a backup" in str(run.error.hint)
    assert run.error.where == f"{topic}/0" and "offset 10" in str(run.error.expected) and "5" in str(run.error.found)
    assert ids(tmp_path) == [*range(10)]


def test_a_topic_made_again_stops_the_stream(runner: Runner, own_broker: Broker, tmp_path: Path) -> None:
    topic = make_topic(own_broker.bootstrap)
    send(own_broker.bootstrap, topic, ticks(range(5)))
    with running(runner, tmp_path, own_broker.bootstrap, topic) as run:
        wait_for(lambda: count(tmp_path) == 5, run)
        drop_topic(own_broker.bootstrap, topic)
        make_topic(own_broker.bootstrap, name=topic)
        send(own_broker.bootstrap, topic, ticks(range(100, 120)))
        wait_for(lambda: has_stopped(run), run)
    # which one depends on whether the stream looked between the two
    assert "recreated" in str(run.error) or "no such topic" in str(run.error)
    assert ids(tmp_path) == [*range(5)]


def test_a_broker_that_is_away_is_seen_beside_the_stream(own_broker: Broker, tmp_path: Path) -> None:
    """The ends are those of now, and silence is known within seconds, whatever the stream itself waits for."""
    topic = make_topic(own_broker.bootstrap, 2)
    send(own_broker.bootstrap, topic, ticks(range(5)), 1)
    positions = {f"{topic}/0": 0, f"{topic}/1": 2, "gone/0": 7}
    reported: queue.Queue[SourceState] = queue.Queue()
    feed = KafkaOptions(own_broker.bootstrap, (topic, "gone"))
    with watch_ends(Remote(feed), lambda: positions, reported.put) as watch:
        known(watch, {f"{topic}/0": 0, f"{topic}/1": 5})
        send(own_broker.bootstrap, topic, ticks(range(5)), 0)
        known(watch, {f"{topic}/0": 5, f"{topic}/1": 5})
        own_broker.kill()
        seen = reported.get(timeout=PATIENCE)
        while seen.reachable or not seen.ends.get(f"{topic}/0"):  # a busy broker may have been silent before
            seen = reported.get(timeout=PATIENCE)
        assert seen.ends == {f"{topic}/0": 5, f"{topic}/1": 5}
        assert "cannot be read" in seen.reason
        own_broker.start()
        while not reported.get(timeout=PATIENCE).reachable:
            pass


def known(watch: SourceWatch, ends: dict[str, int]) -> None:
    """Waits for the ends of now; a busy broker may need more than the second that a look waits."""

    def is_known() -> bool:
        seen = watch.fresh()
        assert seen.ends == ends or not seen.reachable, f"ends {seen.ends} instead of {ends}"
        return seen.ends == ends

    wait_until(is_known, PATIENCE, lambda: watch.fresh().reason)


def test_what_can_be_known_before_spark_starts(own_broker: Broker) -> None:
    topic = make_topic(own_broker.bootstrap)
    Remote(KafkaOptions(own_broker.bootstrap, (topic,))).check()
    Remote(KafkaOptions(own_broker.bootstrap, pattern="no-such-.*")).check()
    with pytest.raises(FeedSettingsError, match="no such topic") as wrong:
        Remote(KafkaOptions(own_broker.bootstrap, (topic, "flihgts"))).check()
    assert wrong.value.exit_code == EXIT_USAGE and wrong.value.where == "flihgts"
