"""Runs the streams of one process, until all have ended or are asked to stop.

The first start of a stream creates nothing before it is known that it can run, and has something to ingest. What comes
to light only in the first batch, like bad rows beyond the error budget, is past that: then the files of the stream
exist. If it ends without an epoch they are removed again, by the steps of ``streams remove``. After a kill they stay,
and `sparkhaven streams list` shows them.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from types import FrameType, TracebackType
from typing import TYPE_CHECKING

from sparkhaven.ingest.feeds.base import Waiting
from sparkhaven.jobs.monitor.waiting import ask_source, passed_lines, remarks_of
from sparkhaven.jobs.session.spark_or_local import RunChoice, choose, choose_by_input, is_submitted
from sparkhaven.jobs.session.spark_session import build_session, check_memory, end_session, require_jdk
from sparkhaven.jobs.settings.stream_file import NotStarted, StreamSettings, try_each
from sparkhaven.jobs.settings.stream_schema import checked_schema, deploy_schema
from sparkhaven.jobs.streams.progress import Progress
from sparkhaven.jobs.streams.runners import LocalRunner, Runner, SparkRunner
from sparkhaven.jobs.streams.stream import (
    Application,
    RunOptions,
    fail,
    keep_one,
    look_at_source,
    note_failed,
    open_stream,
)
from sparkhaven.jobs.streams.stream_run import Reminders, StreamGroup, StreamRun, fed_places, grouped, whole_files
from sparkhaven.store.epochs.files.stream_notes import clear_failure, note_failure
from sparkhaven.store.epochs.recovery.removed_stream import has_no_files
from sparkhaven.store.epochs.recovery.witnesses import require_stream
from sparkhaven.store.epochs.state.replay import StreamState
from sparkhaven.store.errors import CommitError, SparkhavenError, TableNotFoundError, as_ours
from sparkhaven.store.gc_pause import LongRun
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout
from sparkhaven.store.places import StreamPlace
from sparkhaven.writers.batch.stream_batches import StreamTotals
from sparkhaven.writers.spark.stream_query import stream_conf
from sparkhaven.writers.spark.workers import WAIT_S

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JOIN_SECONDS = 0.2
SETTLE_SECONDS = 5.0  # a stream has imported what it needs
FAIR = {"spark.scheduler.mode": "FAIR"}  # a stream with a large batch does not hold up the others


@dataclass(frozen=True, slots=True)
class FirstStart:
    """A stream about to be opened. ``is_new``: no file of it exists; ``waiting``: what it would ingest, if asked."""

    settings: StreamSettings
    is_new: bool
    waiting: Waiting | None = None


@dataclass(slots=True)
class IdleRun:
    """A new stream that had nothing to ingest, and was not created; it has the results of a run."""

    settings: StreamSettings
    state: StreamState
    older: int = 0
    error: Exception | None = None
    totals: StreamTotals = field(default_factory=StreamTotals)

    @property
    def name(self) -> str:
        return self.settings.spec.stream


def run_streams(
    fs: Fs, layout: Layout, streams: Sequence[StreamSettings], options: RunOptions, progress: Progress
) -> list[StreamRun | IdleRun | NotStarted]:
    """Runs all streams; a failure stops no other stream and, if it may pass and without ``once``, leads to a restart.

    SIGTERM and SIGINT end each stream after its batch. Settings, schemas, locks and recovery are checked before Spark
    starts; an error keeps only its own stream from starting. A run in this process needs no JDK.
    """
    fixed = choose(options.where, is_submitted(os.environ))
    if fixed is not None and not fixed.local:
        require_jdk(fs, os.environ)
    check_memory(options.memory)
    sound, failed = try_each(streams, lambda settings: _checked(fs, settings))  # all before the first is opened
    sound = whole_files(sound, failed)
    with ExitStack() as opened:
        stop = opened.enter_context(stopping())  # also while Spark starts: then no batch begins
        starts, unable = try_each(sound, first_looks(fs, layout, options))
        starts = [start for start in starts if start.settings.file not in {stream.file for stream in unable}]
        first = {start.settings.file: start for start in starts if start.is_new}
        runs: list[StreamRun] = []
        opened.callback(remove_uncommitted, runs, first.keys(), progress)  # when all are closed
        opened.push(partial(_note_interrupted, runs, options))
        idle, started = split_idle(starts, progress, options)
        for start in idle:
            clear_failure(StreamPlace(fs, layout, start.settings.table, start.name))
        opened_runs, unopened = try_each(
            started, lambda settings: open_stream(fs, layout, settings, opened, progress, options)
        )
        runs += whole_files(opened_runs, unopened)
        failed += unable + unopened
        groups = grouped(runs)
        for stream in failed:
            _report_failed(fs, layout, stream, streams, options, progress)
        for group in groups:
            look_at_source(group, opened, progress, options, checked=group.first.settings.file in first)
        if all(run.error is not None for run in runs) or (failed and options.stop_on_error):
            return [*runs, *idle, *failed]  # nothing to start Spark for
        asked = [group for group in groups if fixed is None or (options.once and group.first.watch is not None)]
        inputs = waiting_input(fs, asked, first, progress, options)
        choice = fixed or choose_by_input(inputs, options.limits)
        if fixed is None and not choice.local:
            require_jdk(fs, os.environ)
        if all(run.error is not None for run in runs):
            return [*runs, *idle, *failed]
        for group in groups:
            if (options.once or choice.local) and group.error is None:
                progress.chosen(group.name, choice.local, choice.why)

        def session() -> SparkSession:
            return build_session(
                "sparkhaven ingest",
                workers=options.workers,
                memory=options.memory,
                verbose=options.verbose,
                extra=stream_conf() | FAIR,
            )

        runner = open_runner(choice, session, opened, stop, once=options.once)
        app = Application(fs, layout, runner, options, progress, stop)
        threads = {
            group.name: threading.Thread(target=keep_one, args=(app, group), name=group.name)
            for group in groups
            if group.error is None
        }
        _run_threads(app, runs, threads, {stream.label: stream.error for stream in failed})
    return [*runs, *idle, *failed]


def _checked(fs: Fs, settings: StreamSettings) -> StreamSettings:
    """The settings, if schema and feed match; raises the first error, changes nothing."""
    checked_schema(fs, settings)
    settings.feed.check(fs)
    return settings


def _report_failed(
    fs: Fs,
    layout: Layout,
    stream: NotStarted,
    streams: Sequence[StreamSettings],
    options: RunOptions,
    progress: Progress,
) -> None:
    progress.stopped(stream.label, stream.error)
    of_file = (settings for settings in streams if settings.file == stream.file)
    settings = next((settings for settings in of_file if settings.spec.table == stream.table), None)
    if settings is not None and stream.name is not None:
        note_failed(StreamPlace(fs, layout, settings.table, stream.name), settings, stream.error, options)


def _note_interrupted(
    runs: Sequence[StreamRun],
    options: RunOptions,
    kind: type[BaseException] | None,
    error: BaseException | None,
    trace: TracebackType | None,
) -> None:
    """Notes an error that ends all streams of the process, as a Spark that does not start."""
    if isinstance(error, Exception):
        for run in runs:
            if run.error is None:
                note_failed(run.place, run.settings, error, options)


def _run_threads(
    app: Application,
    runs: Sequence[StreamRun],
    threads: Mapping[str, threading.Thread],
    unstarted: Mapping[str, Exception],
) -> None:
    """Runs all streams until they have ended, and reports again and again those that have stopped."""
    for thread in threads.values():
        thread.start()
    reminders = Reminders()
    with LongRun(SETTLE_SECONDS) as long_run:
        while alive := [thread for thread in threads.values() if thread.is_alive()]:
            alive[0].join(JOIN_SECONDS)  # short, so that a second failure is seen
            long_run.look()
            if remark := app.runner.look(stopping=app.stop.is_set()):
                for name, thread in threads.items():
                    if thread.is_alive():
                        app.progress.remark(name, remark)
            stopped = dict(unstarted) | {
                run.name: run.error
                for run in runs
                if run.error is not None and not (run.name in threads and threads[run.name].is_alive())
            }
            if stopped and app.options.stop_on_error:
                app.stop.set()
            for name, seconds in reminders.due(stopped, time.monotonic()):
                app.progress.still_stopped(name, stopped[name], seconds)


def waiting_input(
    fs: Fs, groups: Sequence[StreamGroup], first: Mapping[Path, FirstStart], progress: Progress, options: RunOptions
) -> list[Waiting]:
    """What waits for streams that have no error yet; a feed that cannot be asked is an error of its stream.

    The feeds of ``first`` starts have been asked.
    """
    inputs = []
    for group in groups:
        settings = group.first.settings
        start = first.get(settings.file)
        try:
            if group.error is None:
                waiting = start.waiting if start is not None else None
                inputs.append(waiting or ask_source(fs, settings, group.state, options.patience))
        except (SparkhavenError, OSError) as error:
            fail(group, as_ours(error), progress, options)
    return inputs


def open_runner(
    choice: RunChoice, session: Callable[[], SparkSession], opened: ExitStack, stop: threading.Event, *, once: bool
) -> Runner:
    """The runner of a process; its session ends with ``opened``."""
    if choice.local:
        return LocalRunner(once=once)
    spark = start_session(session, stop)
    opened.callback(end_session, spark)
    return SparkRunner(spark)


@contextmanager
def stopping() -> Iterator[threading.Event]:
    """An event that SIGTERM and SIGINT set; a second SIGINT interrupts at once."""
    stop = threading.Event()

    def ask(number: int, frame: FrameType | None) -> None:
        if stop.is_set() and number == signal.SIGINT:
            raise KeyboardInterrupt
        stop.set()

    before = {number: signal.signal(number, ask) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def start_session(build: Callable[[], SparkSession], stop: threading.Event, patience: float = WAIT_S) -> SparkSession:
    """The session, built in another thread: in the main one, Spark would take SIGINT for itself.

    CommitError: it is not there so many seconds after ``stop`` was set. A cluster without room may never answer.
    """
    built: Future[SparkSession] = Future()

    def run() -> None:
        try:
            built.set_result(build())
        except BaseException as error:  # noqa: BLE001  raised where it is asked for
            built.set_exception(error)

    threading.Thread(target=run, name="spark-start", daemon=True).start()
    asked: float | None = None
    while not wait([built], JOIN_SECONDS).done:
        asked = asked or (time.monotonic() if stop.is_set() else None)
        if asked is not None and time.monotonic() - asked >= patience:
            raise CommitError(
                "Spark has not started, and the streams were asked to stop",
                expected="a session from the cluster",
                found=f"none {patience:g} s after the signal",
                hint="look at the cluster. Nothing was ingested",
            )
    return built.result()


def first_looks(fs: Fs, layout: Layout, options: RunOptions) -> Callable[[StreamSettings], FirstStart]:
    """What looks at the start of each stream as ``look_at_start`` does; the tables of a feed are looked at together."""
    looks: dict[Path, FirstStart] = {}

    def look(settings: StreamSettings) -> FirstStart:
        if settings.file not in looks:
            looks[settings.file] = look_at_start(fs, layout, settings, options)
        return replace(looks[settings.file], settings=settings)

    return look


def look_at_start(fs: Fs, layout: Layout, settings: StreamSettings, options: RunOptions) -> FirstStart:
    """Asks the source of a new stream before any file is created. Raises what would stop the stream at its first batch.

    With ``once`` that is also a source that does not answer, or a schema that a start may not deploy.
    """
    fed = fed_places(fs, layout, settings)
    if not all(map(has_no_files, fed)):
        return FirstStart(settings, False)
    remote = settings.feed.remote()
    if remote is not None:
        remote.check()
    if not options.once:
        return FirstStart(settings, True)
    waiting = ask_source(fs, settings, None, options.patience)
    if waiting.nothing:
        deploy_schema(fs, layout, settings.schema_file, consent=options.consent, dry_run=True)
        for table in fed:
            with suppress(TableNotFoundError):
                require_stream(table)  # a lost log is an error, also without input
    return FirstStart(settings, True, waiting)


def split_idle(
    starts: Iterable[FirstStart], progress: Progress, options: RunOptions
) -> tuple[list[IdleRun], list[StreamSettings]]:
    """The runs of new streams without input, which are over, and the settings of the streams to open."""
    idle, started = [], []
    for start in starts:
        if start.waiting is not None and start.waiting.nothing:
            idle.append(_idle(start.settings, start.waiting, progress, options))
        else:
            started.append(start.settings)
    return idle, started


def _idle(settings: StreamSettings, waiting: Waiting, progress: Progress, options: RunOptions) -> IdleRun:
    name = settings.spec.stream
    for remark in remarks_of(waiting.counts, settings.feed.resume.remember_s):
        progress.remark(name, remark)
    progress.passed(name, passed_lines(waiting.counts.get("passed", {})))
    run = IdleRun(settings, StreamState(name), waiting.counts.get("older_files", 0))
    progress.ended(name, run.totals)
    options.recorder(settings.spec.table, name, settings).ended(0)
    return run


def remove_uncommitted(runs: Iterable[StreamRun], new: Collection[Path], progress: Progress) -> None:
    """Removes what the first starts of streams have created that ended without an epoch; an error is a warning."""
    for run in runs:
        if run.epoch == run.begun and run.settings.file in new:
            from sparkhaven.writers.removal.table_removal import remove_stream

            try:
                remove_stream(run.place, clock=time.time)
            except (SparkhavenError, OSError) as error:
                progress.warn(run.name, as_ours(error))
            if run.error is not None:  # the note went with the stream
                note_failure(run.place, run.error, round(time.time() * 1000), run.settings.file)
