"""One stream of a process: opened from its settings, run as a query, restarted after a failure that may pass."""

from __future__ import annotations

import os
import socket
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from sparkhaven.ingest.spec import NO_BAD_ROWS
from sparkhaven.jobs.logs.stream_rows import StreamRecorder
from sparkhaven.jobs.logs.writer import LogWriter
from sparkhaven.jobs.session.choice import Where
from sparkhaven.jobs.settings.deployment import deploy_schema
from sparkhaven.jobs.settings.stream_file import StreamSettings
from sparkhaven.jobs.settings.stream_schema import checked_schema
from sparkhaven.jobs.streams.budget import Budget
from sparkhaven.jobs.streams.decoding import Decoder
from sparkhaven.jobs.streams.feeds import older_line, passed_lines, watch_ends
from sparkhaven.jobs.streams.quarantines import catch_up, quarantine_of, settle
from sparkhaven.jobs.streams.reports.data_warnings import DataWarnings
from sparkhaven.jobs.streams.reports.metrics import Metrics
from sparkhaven.jobs.streams.reports.partition_progress import PartitionProgress, total_lag
from sparkhaven.jobs.streams.reports.progress import Progress
from sparkhaven.jobs.streams.reports.schema_watch import SchemaWatch
from sparkhaven.jobs.streams.reports.source_watch import Seen, SourceWatch
from sparkhaven.jobs.streams.restarts import keep_running
from sparkhaven.jobs.streams.runners import Runner
from sparkhaven.store.epochs.log import StreamLog
from sparkhaven.store.epochs.retention import Retention
from sparkhaven.store.epochs.state.replay import StreamState
from sparkhaven.store.errors import SparkhavenError
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout, TableName
from sparkhaven.store.schema.deployed.changes import ADDITIONS, Consent
from sparkhaven.store.schema.deployed.writable import require_writable
from sparkhaven.store.schema.document.checks import unbuilt_indexes
from sparkhaven.store.types.frozen import frozen
from sparkhaven.store.types.model import TableSchema
from sparkhaven.writers.batch.stream import BatchProgress, StreamPlan, StreamTotals
from sparkhaven.writers.target import StreamTarget

ENDS_AGE_SECONDS = 0.25  # of the ends in a line of progress: bounds the requests to the broker


@dataclass(slots=True)
class Run:
    """One stream of this process; ``totals`` or ``error`` once it has ended.

    ``watch`` asks its broker, if it has one; ``opened_s``: seconds that opening took. ``older``: new files that are not
    ingested because they were modified before the horizon. ``so_far``: totals over all restarts.
    """

    settings: StreamSettings
    schema: TableSchema
    log: StreamLog
    totals: StreamTotals | None = None
    error: Exception | None = None
    older: int = 0
    passed: set[str] = field(default_factory=set)  # reasons and files that were reported
    remarks: DataWarnings = field(default_factory=DataWarnings)
    so_far: StreamTotals = field(default_factory=StreamTotals)
    watch: SourceWatch | None = None
    opened_s: float = 0.0

    @property
    def state(self) -> StreamState:
        """What the stream has committed."""
        return self.log.state

    @property
    def epoch(self) -> int:
        """The newest epoch of the stream."""
        return self.log.state.epoch

    @property
    def name(self) -> str:
        """The stream's name."""
        return self.settings.spec.stream

    def listener(self, progress: Progress) -> Callable[[Mapping[str, Any]], None]:
        """What receives the reports of the source, and reports every file that is not ingested."""

        def listen(said: Mapping[str, Any]) -> None:
            count = int(said.get("older_files", 0))
            if count > self.older:
                age_s = self.settings.feed.resume.remember_s
                progress.older(self.name, older_line(count - self.older, said.get("older", ()), age_s))
            self.older = count
            fresh = {reason: found for reason, found in said.get("passed", {}).items() if reason not in self.passed}
            progress.passed(self.name, passed_lines(fresh))
            for remark in said.get("remarks", ()):
                if remark not in self.passed:
                    progress.remark(self.name, remark)
                    self.passed.add(remark)
            growing = [path for path in said.get("growing", ()) if path not in self.passed]
            if growing:
                progress.growing(self.name, growing)
            self.passed.update(fresh, growing)

        return listen


@frozen
class Options:
    """How to run: ``once`` processes all available input, then exits; ``workers`` None: all cores; ``verbose``: Spark's
    log; ``where``: in Spark, in this process (only with ``once``), or as much as waits decides.

    ``metrics`` are updated by the streams. ``stop_on_error``: a stream that fails for good ends the others too.
    ``logs`` None: no log tables. ``consent``: what a start may do to deployed schemas.
    """

    once: bool = False
    workers: int | None = None
    memory: str = "1g"
    verbose: bool = False
    metrics: Metrics | None = None
    stop_on_error: bool = False
    where: Where = "spark"
    logs: LogWriter | None = None
    consent: Consent = ADDITIONS

    def recorder(self, table: str, stream: str, settings: StreamSettings | None = None) -> StreamRecorder:
        """What adds the rows of a stream to the log tables; without ``settings`` its stream file allows it."""
        writer = self.logs if settings is None or settings.logs else None
        return StreamRecorder(writer, TableName.parse(table), stream, settings.durability if settings else None)


@frozen
class Application:
    """What the streams of one process share; ``stop``: end after the batch."""

    fs: Fs
    layout: Layout
    runner: Runner
    options: Options
    progress: Progress
    stop: threading.Event


def look_at_source(run: Run, opened: ExitStack, progress: Progress, options: Options, *, checked: bool = False) -> None:
    """Checks a stream's source before Spark starts and watches it until ``opened`` ends; sets an error on ``run``.

    Not if it was ``checked`` before.
    """

    def on_change(seen: Seen) -> None:
        progress.source(run.name, seen.reachable, time.monotonic() - since[0], seen.reason)
        since[0] = time.monotonic()

    since = [time.monotonic()]
    try:
        remote = run.settings.feed.remote()
        if remote is not None:
            if not checked:
                remote.check()
            watch = watch_ends(remote, lambda: run.log.state.offsets.positions(), on_change)
            run.watch = opened.enter_context(watch)
    except SparkhavenError as error:
        fail(run, error, progress, options)


def fail(run: Run, error: SparkhavenError, progress: Progress, options: Options) -> None:
    """Sets and reports the error of a stream that has not run yet."""
    run.error = error
    progress.stopped(run.name, error)
    options.recorder(run.settings.spec.table, run.name, run.settings).failed(error)
    if options.metrics is not None:
        options.metrics.failed(str(run.settings.table), run.name, error)


def open_stream(
    fs: Fs,
    layout: Layout,
    settings: StreamSettings,
    opened: ExitStack,
    progress: Progress,
    options: Options | None = None,
) -> Run:
    """Deploys the schema and opens the stream with recovery; its lock is held until ``opened`` ends."""
    began = time.monotonic()
    checked_schema(fs, settings)
    options = options or Options()
    done = deploy_schema(fs, layout, settings.schema_file, consent=options.consent)
    schema = done.schema
    if done.written and done.before is not None:
        progress.remark(settings.spec.stream, f"schema version {schema.version} is deployed: {done.change.words()}")
    if (unbuilt := unbuilt_indexes(schema)) is not None:
        progress.remark(settings.spec.stream, unbuilt)
    if done.written:
        options.recorder(settings.spec.table, settings.spec.stream, settings).deployed(done, settings.schema_file)
    log = opened.enter_context(
        StreamLog.open(
            fs,
            layout,
            settings.table,
            settings.spec.stream,
            schema=schema,
            query_id=str(uuid.uuid4()),
            clock=time.time,
            pid=os.getpid(),
            host=socket.gethostname(),
            retention=Retention(settings.durability, settings.keep_epochs, settings.feed.resume.remember_s),
            zone=settings.spec.partition.value.day_zone,
        )
    )
    require_writable(fs, layout, schema)
    progress.recovered(log.recovery)
    catch_up(fs, layout, settings.table, log.state)
    return Run(settings, schema, log, opened_s=time.monotonic() - began)


def keep_one(app: Application, run: Run) -> None:
    """Runs an opened stream, with restarts after retryable failures; its jobs share the workers with other streams."""
    app.runner.enter(run.name)
    metrics, table = app.options.metrics, str(run.settings.table)
    restarts = 0
    try:
        with ExitStack() as opened:

            def reopen() -> None:
                run.log.__exit__(Exception, None, None)  # releases the lock without writing to the log
                again = open_stream(
                    app.fs, app.layout, run.settings, opened, app.progress, replace(app.options, consent=ADDITIONS)
                )
                run.log, run.schema, run.opened_s = again.log, again.schema, again.opened_s
                if metrics is not None:
                    metrics.restarted(table, run.name)

            def on_restart(error: Exception, pause: float) -> None:
                app.progress.restarts(run.name, pause)
                if metrics is not None:
                    metrics.failed(table, run.name, error)

            restarts = keep_running(
                run,
                partial(run_one, app, run),
                reopen,
                stop=app.stop,
                on_restart=on_restart,
                can_restart=lambda: not app.options.once and app.runner.can_restart(),
            )
    except Exception as error:  # noqa: BLE001  an error of closing; reported by the command like any other
        run.error = run.error or error
    if run.error is not None and metrics is not None:
        metrics.failed(table, run.name, run.error)
    if restarts and run.totals is not None:
        run.totals = replace(run.so_far, seconds=run.totals.seconds, epoch=run.totals.epoch)


def run_one(app: Application, run: Run) -> None:
    """Runs an opened stream until it ends; sets totals or the error on ``run``."""
    fs, layout, options, progress, settings = app.fs, app.layout, app.options, app.progress, run.settings
    keeps = settings.spec.bad_rows.allows_any
    spec = settings.spec if keeps else replace(settings.spec, bad_rows=NO_BAD_ROWS)
    target = StreamTarget(layout, settings.table, run.name, run.schema, run.log.state.generation, settings.durability)
    quarantine = quarantine_of(fs, layout, settings) if keeps else None
    milliseconds = max(0, round(settings.trigger_s * 1000))
    metrics = options.metrics.stream(str(settings.table), run.log, run.watch) if options.metrics else None
    if metrics is not None:
        metrics.on_disk(fs, layout, settings.durability, settings.sync_s, run.opened_s)
    listen, partitions = run.listener(progress), PartitionProgress(run.log.state.offsets.positions())
    budget, unit = Budget(spec.bad_rows), spec.feed.traits.unit
    recorder, query_id = options.recorder(spec.table, run.name, settings), str(uuid.uuid4())
    before = run.log.state.offsets.positions()
    schemas = SchemaWatch(fs, layout, run.schema)

    def batch(done: BatchProgress) -> None:
        nonlocal before
        run.so_far.add(done.outcome)
        budget.committed(done.outcome)
        if metrics is not None:
            metrics.batch(done)
        positions = run.log.state.offsets.positions()
        for text in run.remarks.of(done.outcome):
            progress.remark(run.name, text)
        if (news := schemas.news()) is not None:
            progress.remark(run.name, news)
        ends: Mapping[str, int] = {}
        if run.watch is not None:
            ends = run.watch.fresh(ENDS_AGE_SECONDS).ends
            done = replace(done, lag=total_lag(positions, ends))
        recorder.batch(done, run.log, before, query_id)
        before = positions
        line = partitions.line(positions, ends, done.seconds, shown=progress.partitions_shown)
        progress.batch(run.name, done, line, unit=unit)

    def on_report(said: Mapping[str, Any]) -> None:
        if metrics is not None:
            metrics.reported(said)
        listen(said)

    plan = StreamPlan(
        query_id=query_id,
        trigger={"availableNow": True} if options.once else {"processingTime": f"{milliseconds} milliseconds"},
        decode=Decoder(fs, spec, run.schema),
        check_budget=budget,
        quarantine=quarantine.add if quarantine else None,
        progress=batch,
        report=on_report,
        warn=lambda error: progress.warn(run.name, error),
        sync_seconds=settings.sync_s,
    )
    progress.loss_window(run.name, settings.durability, settings.sync_s)
    try:
        if quarantine is not None:
            where = f"{settings.file}: bad_rows.quarantine"
            settle(fs, layout, settings.table, run.log.state, quarantine, where)
        run.totals = app.runner.run(fs, settings, run.log, target, plan, app.stop)
        progress.ended(run.name, run.totals)
        recorder.ended(run.totals.epoch)
    except Exception as error:  # noqa: BLE001  reported by the command, after the other streams have ended
        run.error = app.runner.cause(error)
        progress.stopped(run.name, run.error)
        recorder.failed(run.error)
    finally:
        if metrics is not None:
            metrics.ended()
