"""Runs the streams of one process, until all have ended or are asked to stop."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from types import FrameType, TracebackType
from typing import TYPE_CHECKING

from sparkhaven.ingest.feeds.base import Waiting
from sparkhaven.jobs.monitor.waiting import ask_source
from sparkhaven.jobs.session.spark_or_local import RunChoice, choose, choose_by_input, is_submitted
from sparkhaven.jobs.session.spark_session import build_session, check_memory, end_session, require_jdk
from sparkhaven.jobs.settings.stream_file import StreamSettings
from sparkhaven.jobs.streams.first_start import FirstStart, IdleRun, first_looks, remove_uncommitted, split_idle
from sparkhaven.jobs.streams.progress import Progress
from sparkhaven.jobs.streams.runners import LocalRunner, Runner, SparkRunner
from sparkhaven.jobs.streams.starting import NotStarted, checked, try_each
from sparkhaven.jobs.streams.stream import (
    Application,
    RunOptions,
    fail,
    keep_one,
    look_at_source,
    note_failed,
    open_stream,
)
from sparkhaven.jobs.streams.stream_group import Reminders, StreamGroup, grouped, whole_files
from sparkhaven.jobs.streams.stream_run import StreamRun
from sparkhaven.store.epochs.files.failure_note import clear_failure
from sparkhaven.store.errors import CommitError, SparkhavenError
from sparkhaven.store.gc_pause import LongRun
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.io.system_errors import as_ours
from sparkhaven.store.layout import Layout
from sparkhaven.store.places import StreamPlace
from sparkhaven.writers.spark.stream_query import stream_conf
from sparkhaven.writers.spark.workers import WAIT_S

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JOIN_SECONDS = 0.2
SETTLE_SECONDS = 5.0  # a stream has imported what it needs
FAIR = {"spark.scheduler.mode": "FAIR"}  # a stream with a large batch does not hold up the others


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
    sound, failed = try_each(streams, lambda settings: checked(fs, settings))  # all before the first is opened
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
