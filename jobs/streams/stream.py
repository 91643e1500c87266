"""One stream of a process: opened from its settings, run as a query, restarted after a failure that may pass.

What a running stream reports: each batch to progress, metrics, log tables and error budget; and how it ended.

It also notices a schema that another process has deployed since.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from sparkhaven.ingest.feeds.base import PATIENCE_S
from sparkhaven.ingest.spec import NO_BAD_ROWS
from sparkhaven.jobs.monitor.logs.log_tables import StreamRecorder
from sparkhaven.jobs.monitor.logs.log_writer import LogWriter
from sparkhaven.jobs.monitor.metrics.catalogue import NO_METRICS, MetricsSink, StreamSink
from sparkhaven.jobs.monitor.waiting import SourceState, watch_ends
from sparkhaven.jobs.session.spark_or_local import LIMITS, LocalLimits, Where
from sparkhaven.jobs.settings.stream_file import StreamSettings
from sparkhaven.jobs.settings.stream_schema import checked_schema, deploy_schema, require_same_rule
from sparkhaven.jobs.streams.decoding import Decoder, TablesDecoder
from sparkhaven.jobs.streams.progress import PartitionProgress, Progress, total_lag
from sparkhaven.jobs.streams.runners import Runner, StreamWork
from sparkhaven.jobs.streams.stream_run import (
    DataWarnings,
    ErrorBudget,
    StreamGroup,
    StreamRun,
    catch_up,
    keep_running,
    left_tables,
    quarantine_of,
    settle,
)
from sparkhaven.store.epochs.files.stream_notes import clear_failure, note_failure
from sparkhaven.store.epochs.generation import Opening
from sparkhaven.store.epochs.log import StreamLog
from sparkhaven.store.epochs.state.commit_policy import Retention
from sparkhaven.store.epochs.state.resume_rules import rule_words
from sparkhaven.store.errors import RetryableFeedError, SparkhavenError
from sparkhaven.store.io.fs import Fs, Stat
from sparkhaven.store.layout import Layout, TableName
from sparkhaven.store.places import StreamPlace, TablePlace
from sparkhaven.store.schema.deployed.deploy import load_deployed, require_writable
from sparkhaven.store.schema.deployed.schema_changes import ADDITIONS, Consent
from sparkhaven.store.schema.document.validator_rules import unbuilt_indexes
from sparkhaven.store.types.model import TableSchema
from sparkhaven.writers.batch.stream_batches import BatchProgress, FeedTable, FeedTables, StreamPlan, StreamTotals
from sparkhaven.writers.quarantine.table import Quarantine
from sparkhaven.writers.task import OneTable

ENDS_AGE_SECONDS = 0.25  # of the ends in a line of progress: bounds the requests to the broker


class BatchReporter:
    """Reports one run of a stream. ``query_id`` is that of its query."""

    def __init__(
        self, app: Application, run: StreamRun, query_id: str, metrics: StreamSink, budget: ErrorBudget
    ) -> None:
        settings, progress = run.settings, app.progress
        self._run, self._query_id = run, query_id
        self._progress, self._metrics, self._budget = progress, metrics, budget
        self._recorder = app.options.recorder(settings.spec.table, run.name, settings)
        self._schemas = SchemaWatch(TablePlace(app.fs, app.layout, settings.table), run.schema)
        self._positions = run.log.state.offsets.positions()
        self._partitions = PartitionProgress(self._positions)
        self._listen = run.listener(progress)
        self._unit = run.settings.spec.feed.traits.unit

    def batch(self, done: BatchProgress) -> None:
        """A batch that is committed, or was before."""
        run, before = self._run, self._positions
        clear_failure(run.place)
        run.so_far.add(done.outcome)
        self._budget.committed(done.outcome)
        self._metrics.batch(done)
        self._positions = run.log.state.offsets.positions()
        for text in run.remarks.of(done.outcome):
            self._progress.remark(run.label, text)
        if (news := self._schemas.news()) is not None:
            self._progress.remark(run.label, news)
        ends: Mapping[str, int] = {}
        if run.watch is not None:
            ends = run.watch.fresh(ENDS_AGE_SECONDS).ends
            done = replace(done, lag=total_lag(self._positions, ends))
        self._recorder.batch(done, run.log, before, self._query_id)
        shown = self._progress.partitions_shown
        line = self._partitions.line(self._positions, ends, done.seconds, shown=shown)
        self._progress.batch(run.name, done, line, table=run.settings.table, unit=self._unit, label=run.label)

    def source(self, report: Mapping[str, Any]) -> None:
        self._metrics.reported(report)
        self._listen(report)

    def warn(self, error: SparkhavenError) -> None:
        self._progress.warn(self._run.label, error)

    def ended(self, totals: StreamTotals) -> None:
        clear_failure(self._run.place)
        self._progress.ended(self._run.label, totals)
        self._recorder.ended(totals.epoch)


class SchemaWatch:
    """Looks at the deployed schema after each batch: one ``stat``, and a read when the file has changed."""

    def __init__(self, place: TablePlace, schema: TableSchema) -> None:
        self._place, self._schema = place, schema
        self._seen: Stat | None = None
        self._said = schema.version

    def news(self) -> str | None:
        """A sentence about a version that was deployed since, once; else None."""
        stat = self._place.fs.stat(self._place.schema)
        if stat == self._seen:
            return None
        self._seen = stat
        try:
            deployed = load_deployed(self._place)
        except SparkhavenError as error:
            return f"the deployed schema cannot be read: {error.what}"
        if deployed.version == self._said:
            return None
        self._said = deployed.version
        return (
            f"schema version {deployed.version} is deployed ({_difference(self._schema, deployed)}). This stream writes"
            f" version {self._schema.version} until it starts again with that schema"
        )


def _difference(old: TableSchema, new: TableSchema) -> str:
    before, after = ({c.id: c.name for c in schema.columns} for schema in (old, new))
    parts = [f"adds {after[number]}" for number in after.keys() - before.keys()]
    parts += [f"drops {before[number]}" for number in before.keys() - after.keys()]
    both = before.keys() & after.keys()
    parts += [f"renames {before[n]} to {after[n]}" for n in both if before[n] != after[n]]
    return "; ".join(sorted(parts)) or "the same columns"


SILENT_HINT = "check that it runs and can be reached from the machine of the stream, which waits for it"


@dataclass(frozen=True, slots=True)
class RunOptions:
    """How to run: ``once`` processes all available input, then exits; ``workers`` None: all cores; ``verbose``: Spark's
    log; ``where``: in Spark, in this process, or (with ``once``) as much as waits decides, by ``limits``.

    ``metrics`` are updated by the streams. ``stop_on_error``: a stream that fails for good ends the others too.
    ``logs`` None: no log tables. ``consent``: what a start may do to deployed schemas. ``accept_rule``: the partition
    rule may be another one than that of the rows that are stored. ``patience``: seconds that a source has to answer
    before the streams run.
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
    accept_rule: bool = False
    limits: LocalLimits = LIMITS
    patience: float = PATIENCE_S

    def recorder(self, table: str, stream: str, settings: StreamSettings | None = None) -> StreamRecorder:
        """What adds the rows of a stream to the log tables; without ``settings`` its stream file allows it."""
        writer = self.logs if settings is None or settings.logs else None
        return StreamRecorder(writer, TableName.parse(table), stream, settings.policy.durability if settings else None)


@dataclass(frozen=True, slots=True)
class Application:
    """What the streams of one process share; ``stop``: end after the batch."""

    fs: Fs
    layout: Layout
    runner: Runner
    options: RunOptions
    progress: Progress
    stop: threading.Event


def look_at_source(
    group: StreamGroup, opened: ExitStack, progress: Progress, options: RunOptions, *, checked: bool = False
) -> None:
    """Checks the source of streams before Spark starts and watches it until ``opened`` ends; sets an error on them.

    Not if it was ``checked`` before.
    """

    def on_change(seen: SourceState) -> None:
        progress.source(group.name, seen.reachable, time.monotonic() - since[0], seen.reason)
        since[0] = time.monotonic()
        for run in group.runs:
            if seen.reachable:
                clear_failure(run.place)
            else:
                silent = RetryableFeedError("the source does not answer", found=seen.reason, hint=SILENT_HINT)
                note_failure(run.place, silent, round(time.time() * 1000), run.settings.file)

    since = [time.monotonic()]
    try:
        remote = group.first.settings.feed.remote()
        if remote is not None:
            if not checked:
                remote.check()
            watch = watch_ends(remote, lambda: group.first.state.offsets.positions(), on_change)
            opened.enter_context(watch)
            for run in group.runs:
                run.watch = watch
    except SparkhavenError as error:
        fail(group, error, progress, options)


def fail(group: StreamGroup, error: SparkhavenError, progress: Progress, options: RunOptions) -> None:
    """Sets and reports the error of streams that have not run yet."""
    group.error = error
    progress.stopped(group.name, error)
    for run in group.runs:
        note_failed(run.place, run.settings, error, options)


def note_failed(place: StreamPlace, settings: StreamSettings, error: BaseException, options: RunOptions) -> None:
    """Reports a failure of a stream to all who look later: beside its log, in the log tables and in the metrics."""
    note_failure(place, error, round(time.time() * 1000), settings.file)
    options.recorder(settings.spec.table, place.stream, settings).failed(error)
    options.metrics.failed(settings.spec.table, place.stream, error)


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
    place = StreamPlace(fs, layout, settings.table, settings.spec.stream)
    if not options.accept_rule:
        require_same_rule(place, settings)
    done = deploy_schema(fs, layout, settings.schema_file, consent=options.consent)
    schema = done.schema
    if done.written and done.before is not None:
        progress.remark(settings.spec.stream, f"schema version {schema.version} is deployed: {done.change.words()}")
    if (unbuilt := unbuilt_indexes(schema)) is not None:
        progress.remark(settings.spec.stream, unbuilt)
    if done.written:
        options.recorder(settings.spec.table, settings.spec.stream, settings).deployed(done, settings.schema_file)
    opening = Opening(
        schema=schema,
        query_id=str(uuid.uuid4()),
        clock=time.time,
        retention=Retention(settings.policy, settings.keep_epochs, settings.feed.resume.remember_s),
        rule=settings.spec.rule,
        accept_rule=options.accept_rule,
    )
    log = opened.enter_context(StreamLog.open(place, opening))
    if (rule := log.recovery.rule) is not None:
        words = rule_words(rule, settings.spec.rule)
        progress.remark(settings.spec.stream, f"the partition rule is another one: {words}")
        options.recorder(settings.spec.table, settings.spec.stream, settings).rule_accepted(words)
    require_writable(fs, layout, schema)
    progress.recovered(log.recovery)
    catch_up(place, log.state)
    return StreamRun(
        settings,
        schema,
        log,
        place,
        remarks=DataWarnings(settings.spec.contract),
        opened_s=time.monotonic() - began,
        begun=log.state.epoch,
    )


def keep_one(app: Application, group: StreamGroup) -> None:
    """Runs the opened streams of a file, with restarts after retryable failures.

    Its jobs share the workers with other files.
    """
    app.runner.enter(group.name)
    metrics = app.options.metrics
    restarts = 0
    try:
        with ExitStack() as opened:

            def reopen() -> None:
                for run in group.runs:
                    run.log.abandon()
                for run in group.runs:
                    again = open_stream(
                        app.fs,
                        app.layout,
                        run.settings,
                        opened,
                        app.progress,
                        replace(app.options, consent=ADDITIONS, accept_rule=False),
                    )
                    run.log, run.schema, run.opened_s = again.log, again.schema, again.opened_s
                    metrics.restarted(str(run.settings.table), run.name)

            def on_restart(error: Exception, pause: float) -> None:
                app.progress.restarts(group.name, pause)
                for run in group.runs:
                    note_failed(run.place, run.settings, error, app.options)

            restarts = keep_running(
                group,
                partial(run_one, app, group),
                reopen,
                stop=app.stop,
                on_restart=on_restart,
                can_restart=lambda: not app.options.once and app.runner.can_restart(),
            )
    except Exception as error:  # noqa: BLE001  an error of closing; reported by the command like any other
        group.error = group.error or error
    for run in group.runs:
        if run.error is not None:
            note_failed(run.place, run.settings, run.error, app.options)
        if restarts and run.totals is not None:
            run.totals = replace(run.so_far, seconds=run.totals.seconds, epoch=run.totals.epoch)


def run_one(app: Application, group: StreamGroup) -> None:
    """Runs the opened streams of a file until they end; sets totals or the error on their runs."""
    query_id = str(uuid.uuid4())
    ready = [_ready(app, run, query_id) for run in group.runs]
    app.progress.loss_window(group.name, group.first.settings.policy)
    for name in left_tables(app.fs, app.layout, group):
        app.progress.remark(
            group.name,
            f"table {name} is not in the stream file any more, and takes no more rows of this feed. Its rows stay",
        )
    try:
        for one in ready:
            one.settle(app)
        decoders = tuple(one.decode for one in ready)
        routes = group.first.settings.spec.routes
        together = OneTable(decoders[0]) if routes is None else TablesDecoder(app.fs, routes, decoders)
        fed = FeedTables(tuple(one.fed for one in ready), together)
        totals = app.runner.run(StreamWork(app.fs, group.first.settings, fed, app.stop))
        for one, of_table in zip(ready, totals, strict=True):
            one.run.totals = of_table
            one.reporter.ended(of_table)
    except Exception as error:  # noqa: BLE001  reported by the command, after the other streams have ended
        group.error = app.runner.cause(error)
        app.progress.stopped(group.name, group.error or error)
    finally:
        for one in ready:
            one.metrics.ended()


@dataclass(frozen=True, slots=True)
class _ReadyTable:
    """A stream of one table, ready to run."""

    run: StreamRun
    fed: FeedTable
    decode: Decoder
    quarantine: Quarantine | None
    reporter: BatchReporter
    metrics: StreamSink

    def settle(self, app: Application) -> None:
        """Brings the quarantine into step with the log."""
        if self.quarantine is not None:
            place = TablePlace(app.fs, app.layout, self.run.settings.table)
            settle(place, self.run.log.state, self.quarantine, f"{self.run.settings.file}: bad_rows.quarantine")


def _ready(app: Application, run: StreamRun, query_id: str) -> _ReadyTable:
    fs, layout, options, settings = app.fs, app.layout, app.options, run.settings
    spec = settings.spec if settings.spec.bad_rows.allows_any else replace(settings.spec, bad_rows=NO_BAD_ROWS)
    quarantine = quarantine_of(fs, layout, settings) if spec.bad_rows.allows_any else None
    metrics = options.metrics.stream(str(settings.table), run.log, run.watch)
    metrics.on_disk(fs, layout, settings.policy, run.opened_s)
    budget = ErrorBudget(spec.bad_rows)
    reporter = BatchReporter(app, run, query_id, metrics, budget)
    decode = Decoder(fs, spec, run.schema)
    plan = StreamPlan(
        query_id=query_id,
        trigger=_trigger(settings, once=options.once),
        decode=decode,
        check_budget=budget,
        quarantine=quarantine.add if quarantine else None,
        progress=reporter.batch,
        report=reporter.source,
        warn=reporter.warn,
    )
    return _ReadyTable(run, FeedTable(run.log, run.target, plan), decode, quarantine, reporter, metrics)


def _trigger(settings: StreamSettings, *, once: bool) -> dict[str, Any]:
    if once:
        return {"availableNow": True}
    return {"processingTime": f"{max(0, round(settings.trigger_s * 1000))} milliseconds"}
