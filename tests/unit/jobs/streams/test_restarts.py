"""Several streams in one process: one that fails is reported and started again after a while, and holds up no other."""

from __future__ import annotations

import io
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from sparkhaven.jobs.settings.stream_file import load_stream_file
from sparkhaven.jobs.streams import runners
from sparkhaven.jobs.streams import stream as ingest_run
from sparkhaven.jobs.streams.progress import Progress
from sparkhaven.jobs.streams.stream_run import Backoff, StreamGroup, is_retryable, keep_running
from sparkhaven.store.errors import (
    CommitError,
    CommitUnknownError,
    CorruptFileError,
    EpochConflictError,
    ErrorBudgetExceeded,
    LockLostError,
    PositionGapError,
    RetryableFeedError,
    SettingsError,
)
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout
from sparkhaven.writers.batch.commit import BatchOutcome
from sparkhaven.writers.batch.stream_batches import BatchProgress, FeedTables, StreamTotals
from tests.support.places import REPOSITORY

AWAY = RetryableFeedError("the source is away")


@dataclass
class Stream:
    """Lives that are set beforehand: an error to end with (None: well), and how many epochs before it."""

    lives: Iterator[tuple[Exception | None, int]]
    error: Exception | None = None
    epoch: int = 0
    reopened: int = 0
    broken: list[Exception] = field(default_factory=list)

    def live(self) -> None:
        self.error, epochs = next(self.lives)
        self.epoch += epochs

    def reopen(self) -> None:
        self.reopened += 1
        if self.broken:
            raise self.broken.pop()


class Clockless(threading.Event):
    """A stop event on which waiting takes no time; it is set after ``most`` waits."""

    def __init__(self, most: int = 1000) -> None:
        super().__init__()
        self.waits: list[float] = []
        self.most = most

    def wait(self, timeout: float | None = None) -> bool:
        self.waits.append(timeout or 0.0)
        if len(self.waits) >= self.most:
            self.set()
        return self.is_set()


def keep(stream: Stream, stop: Clockless, **options: Any) -> tuple[int, list[str]]:
    reported: list[str] = []
    restarts = keep_running(
        stream,
        stream.live,
        stream.reopen,
        stop=stop,
        on_restart=lambda error, pause: reported.append(str(error)),
        **options,
    )
    return restarts, reported


def test_failures_in_a_row_wait_longer_and_an_epoch_begins_anew() -> None:
    stream = Stream(iter([(AWAY, 0), (AWAY, 0), (AWAY, 0), (AWAY, 2), (AWAY, 0), (None, 1)]))
    stop = Clockless()
    restarts, reported = keep(stream, stop, backoff=Backoff(1.0, 3.0))
    assert (restarts, stream.error, stream.reopened, len(reported)) == (5, None, 5, 5)
    assert stop.waits == [1.0, 2.0, 3.0, 1.0, 2.0]


def test_a_stream_that_stays_broken_ends() -> None:
    stream = Stream(iter([(AWAY, 0)] * 99))
    assert keep(stream, Clockless(), backoff=Backoff(tries=4))[0] == 4
    assert stream.error is AWAY


def test_opening_again_may_fail_too() -> None:
    stream = Stream(iter([(AWAY, 1), (None, 1)]), broken=[OSError(28, "No space left on device"), AWAY])
    stop = Clockless()
    assert keep(stream, stop)[0] == 1
    assert (stream.error, stream.reopened, stop.waits) == (None, 3, [1.0, 2.0, 4.0])
    stream = Stream(iter([(AWAY, 0)]), broken=[LockLostError("another process has it")])
    assert keep(stream, Clockless())[0] == 0
    assert isinstance(stream.error, LockLostError)


@pytest.mark.parametrize(
    ("error", "worth"),
    [
        (AWAY, True),
        (CommitError("a task failed"), True),
        (EpochConflictError("other state"), True),
        (CommitUnknownError("sync failed"), True),
        (OSError(5, "Input/output error"), True),
        (LockLostError("taken over"), False),
        (PositionGapError("a gap"), False),
        (ErrorBudgetExceeded("bad rows"), False),
        (CorruptFileError("damaged"), False),
        (SettingsError("no such column"), False),
        (ValueError("a fault of ours"), False),
    ],
)
def test_only_what_may_pass_is_tried_again(error: Exception, worth: bool) -> None:
    assert is_retryable(error) is worth
    stream = Stream(iter([(error, 0), (None, 0)]))
    assert keep(stream, Clockless())[0] == int(worth)
    assert stream.error is (None if worth else error)


def test_a_stop_ends_the_waiting_and_a_dead_session_the_trying() -> None:
    stream = Stream(iter([(AWAY, 0)] * 9))
    assert keep(stream, Clockless(most=2))[0] == 1
    stream = Stream(iter([(AWAY, 0)] * 9))
    assert keep(stream, Clockless(), can_restart=lambda: False)[0] == 0


def test_one_stream_fails_and_comes_back_while_the_other_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Real logs and locks; only Spark is a stand-in. The good one ends after the bad one has come back."""
    good_may_end, lives = threading.Event(), {"good": 0, "bad": 0}
    generations: list[int] = []

    def stream(spark: object, source: object, fs: Fs, fed: FeedTables, *, stop: threading.Event) -> list[StreamTotals]:
        target, plan = fed.first.target, fed.first.plan
        lives[target.stream] += 1
        plan.progress(BatchProgress(BatchOutcome(0, None, rows=10), 0, 0.1))
        if target.stream == "good":
            assert good_may_end.wait(30)
        else:
            generations.append(target.generation)
            if lives["bad"] < 3:
                raise CommitError("a worker died")
            good_may_end.set()
        return [StreamTotals(rows=10, seconds=2.0)]

    pools: list[str] = []
    context = SimpleNamespace(setLocalProperty=lambda name, value: pools.append(value))
    monkeypatch.setattr(runners, "run_stream_of_tables", stream)
    monkeypatch.setattr(runners, "is_alive", lambda spark: True)
    monkeypatch.setattr("sparkhaven.jobs.streams.stream_run.Backoff.pause", lambda self, failures: 0.01)
    monkeypatch.setattr(
        runners, "open_feed", lambda *_, **__: SimpleNamespace(source=None, split_of=None, allow_gap=False)
    )
    out = io.StringIO()
    progress = Progress(console=Console(file=out, width=200))
    spark: Any = SimpleNamespace(sparkContext=context)
    runner = runners.SparkRunner(spark)
    stop = threading.Event()
    with ExitStack() as opened:
        runs = []
        for name in ("good", "bad"):
            text = (REPOSITORY / "conf/streams/flights.toml").read_text().replace('"flights"', f'"{name}"')
            file = tmp_path / f"{name}.toml"
            file.write_text(text.replace("../schemas", str(REPOSITORY / "conf/schemas")))
            settings = load_stream_file(Fs(), file, {"FLIGHTS_FEED": str(tmp_path)})
            runs.append(ingest_run.open_stream(Fs(), Layout(tmp_path / "db"), settings, opened, progress))
        app = ingest_run.Application(Fs(), Layout(tmp_path / "db"), runner, ingest_run.RunOptions(), progress, stop)
        threads = [threading.Thread(target=ingest_run.keep_one, args=(app, StreamGroup([run]))) for run in runs]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
    good, bad = runs
    assert (good.error, bad.error, lives) == (None, None, {"good": 1, "bad": 3})
    assert generations == [1, 2, 3]
    assert bad.totals is not None and (bad.totals.rows, bad.totals.seconds) == (30, 2.0)
    assert sorted(pools) == ["bad", "good"]
    said = out.getvalue()
    assert said.count("stopped: a worker died") == 2 and said.count("restarts in") == 2
