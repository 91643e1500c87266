"""One stream of a process: opened from its settings, run as a query, restarted after a failure that may pass."""

from __future__ import annotations

import os
import socket
import threading
import time
import uuid
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import Any

from sparkhaven.ingest.spec.stream_spec import NO_BAD_ROWS
from sparkhaven.jobs.logs.log_writer import LogWriter
from sparkhaven.jobs.logs.stream_rows import StreamRecorder
from sparkhaven.jobs.session.spark_or_local import LIMITS, LocalLimits, Where
from sparkhaven.jobs.settings.deployment import deploy_schema
from sparkhaven.jobs.settings.stream_file import StreamSettings
from sparkhaven.jobs.settings.stream_schema import checked_schema
from sparkhaven.jobs.streams.batch_reporter import BatchReporter
from sparkhaven.jobs.streams.budget import ErrorBudget
from sparkhaven.jobs.streams.decoding import Decoder
from sparkhaven.jobs.streams.feeds import watch_ends
from sparkhaven.jobs.streams.quarantines import catch_up, quarantine_of, settle
from sparkhaven.jobs.streams.reports.metrics_sink import NO_METRICS, MetricsSink
from sparkhaven.jobs.streams.reports.progress import Progress
from sparkhaven.jobs.streams.reports.schema_watch import SchemaWatch
from sparkhaven.jobs.streams.reports.source_watch import SourceState
from sparkhaven.jobs.streams.restarts import keep_running
from sparkhaven.jobs.streams.runners import Runner, StreamWork
from sparkhaven.jobs.streams.stream_run import StreamRun
from sparkhaven.store.epochs.generation import Opening
from sparkhaven.store.epochs.log import StreamLog
from sparkhaven.store.epochs.state.commit_policy import Retention
from sparkhaven.store.errors import SparkhavenError
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout, TableName
from sparkhaven.store.places import StreamPlace, TablePlace
from sparkhaven.store.schema.deployed.schema_changes import ADDITIONS, Consent
from sparkhaven.store.schema.deployed.writable_schema import require_writable
from sparkhaven.store.schema.document.schema_checks import unbuilt_indexes
from sparkhaven.store.types.frozen import frozen
from sparkhaven.writers.batch.stream_batches import StreamPlan
from sparkhaven.writers.task.target import StreamTarget


@frozen
class RunOptions:
    """How to run: ``once`` processes all available input, then exits; ``workers`` None: all cores; ``verbose``: Spark's
    log; ``where``: in Spark, in this process (only with ``once``), or as much as waits decides, by ``limits``.

    ``metrics`` are updated by the streams. ``stop_on_error``: a stream that fails for good ends the others too.
    ``logs`` None: no log tables. ``consent``: what a start may do to deployed schemas.
    """

    once: bool = False
    workers: int | None = None
    memory: str = "1g"
    verbose: bool = False
    metrics: MetricsSink = NO_METRICS
    stop_on_error: bool = False
    where: Where = "spark"
    logs: LogWriter | None = None
    consent: Consent = ADDITIONS
    limits: LocalLimits = LIMITS

    def recorder(self, table: str, stream: str, settings: StreamSettings | None = None) -> StreamRecorder:
        """What adds the rows of a stream to the log tables; without ``settings`` its stream file allows it."""
        writer = self.logs if settings is None or settings.logs else None
        return StreamRecorder(writer, TableName.parse(table), stream, settings.policy.durability if settings else None)


@frozen
class Application:
    """What the streams of one process share; ``stop``: end after the batch."""

    fs: Fs
    layout: Layout
    runner: Runner
    options: RunOptions
    progress: Progress
    stop: threading.Event


def look_at_source(
    run: StreamRun, opened: ExitStack, progress: Progress, options: RunOptions, *, checked: bool = False
) -> None:
    """Checks a stream's source before Spark starts and watches it until ``opened`` ends; sets an error on ``run``.

    Not if it was ``checked`` before.
    """

    def on_change(seen: SourceState) -> None:
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


def fail(run: StreamRun, error: SparkhavenError, progress: Progress, options: RunOptions) -> None:
    """Sets and reports the error of a stream that has not run yet."""
    run.error = error
    progress.stopped(run.name, error)
    options.recorder(run.settings.spec.table, run.name, run.settings).failed(error)
    options.metrics.failed(str(run.settings.table), run.name, error)


def open_stream(
    fs: Fs,
    layout: Layout,
    settings: StreamSettings,
    opened: ExitStack,
    progress: Progress,
    options: RunOptions | None = None,
) -> StreamRun:
    """Deploys the schema and opens the stream with recovery; its lock is held until ``opened`` ends."""
    began = time.monotonic()
    checked_schema(fs, settings)
    options = options or RunOptions()
    done = deploy_schema(fs, layout, settings.schema_file, consent=options.consent)
    schema = done.schema
    if done.written and done.before is not None:
        progress.remark(settings.spec.stream, f"schema version {schema.version} is deployed: {done.change.words()}")
    if (unbuilt := unbuilt_indexes(schema)) is not None:
        progress.remark(settings.spec.stream, unbuilt)
    if done.written:
        options.recorder(settings.spec.table, settings.spec.stream, settings).deployed(done, settings.schema_file)
    place = StreamPlace(fs, layout, settings.table, settings.spec.stream)
    opening = Opening(
        schema=schema,
        query_id=str(uuid.uuid4()),
        clock=time.time,
        pid=os.getpid(),
        host=socket.gethostname(),
        retention=Retention(settings.policy, settings.keep_epochs, settings.feed.resume.remember_s),
        zone=settings.spec.partition.value.day_zone,
    )
    log = opened.enter_context(StreamLog.open(place, opening))
    require_writable(fs, layout, schema)
    progress.recovered(log.recovery)
    catch_up(place, log.state)
    return StreamRun(settings, schema, log, opened_s=time.monotonic() - began, begun=log.state.epoch)


def keep_one(app: Application, run: StreamRun) -> None:
    """Runs an opened stream, with restarts after retryable failures; its jobs share the workers with other streams."""
    app.runner.enter(run.name)
    metrics, table = app.options.metrics, str(run.settings.table)
    restarts = 0
    try:
        with ExitStack() as opened:

            def reopen() -> None:
                run.log.abandon()
                again = open_stream(
                    app.fs, app.layout, run.settings, opened, app.progress, replace(app.options, consent=ADDITIONS)
                )
                run.log, run.schema, run.opened_s = again.log, again.schema, again.opened_s
                metrics.restarted(table, run.name)

            def on_restart(error: Exception, pause: float) -> None:
                app.progress.restarts(run.name, pause)
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
    if run.error is not None:
        metrics.failed(table, run.name, run.error)
    if restarts and run.totals is not None:
        run.totals = replace(run.so_far, seconds=run.totals.seconds, epoch=run.totals.epoch)


def run_one(app: Application, run: StreamRun) -> None:
    """Runs an opened stream until it ends; sets totals or the error on ``run``."""
    fs, layout, options, settings = app.fs, app.layout, app.options, run.settings
    place = TablePlace(fs, layout, settings.table)
    spec = settings.spec if settings.spec.bad_rows.allows_any else replace(settings.spec, bad_rows=NO_BAD_ROWS)
    target = StreamTarget(layout, settings.table, run.name, run.schema, run.log.state.generation, settings.policy)
    quarantine = quarantine_of(fs, layout, settings) if spec.bad_rows.allows_any else None
    metrics = options.metrics.stream(str(settings.table), run.log, run.watch)
    metrics.on_disk(fs, layout, settings.policy, run.opened_s)
    budget, query_id = ErrorBudget(spec.bad_rows), str(uuid.uuid4())
    reporter = BatchReporter(
        run,
        query_id,
        progress=app.progress,
        metrics=metrics,
        recorder=options.recorder(spec.table, run.name, settings),
        schemas=SchemaWatch(place, run.schema),
        budget=budget,
    )
    plan = StreamPlan(
        query_id=query_id,
        trigger=_trigger(settings, once=options.once),
        decode=Decoder(fs, spec, run.schema),
        check_budget=budget,
        quarantine=quarantine.add if quarantine else None,
        progress=reporter.batch,
        report=reporter.source,
        warn=reporter.warn,
    )
    app.progress.loss_window(run.name, settings.policy)
    try:
        if quarantine is not None:
            where = f"{settings.file}: bad_rows.quarantine"
            settle(place, run.log.state, quarantine, where)
        run.totals = app.runner.run(StreamWork(fs, settings, run.log, target, plan, app.stop))
        reporter.ended(run.totals)
    except Exception as error:  # noqa: BLE001  reported by the command, after the other streams have ended
        run.error = app.runner.cause(error)
        reporter.failed(run.error)
    finally:
        metrics.ended()


def _trigger(settings: StreamSettings, *, once: bool) -> dict[str, Any]:
    if once:
        return {"availableNow": True}
    return {"processingTime": f"{max(0, round(settings.trigger_s * 1000))} milliseconds"}
