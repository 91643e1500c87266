"""The command ``ingest``: runs streams by their stream files, all in one process."""

from __future__ import annotations

import traceback
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sparkhaven.ingest.feeds.base import LOOK_S, ONCE_S, PATIENCE_S, Trial
from sparkhaven.jobs.cli.context import CliContext, report_failed
from sparkhaven.jobs.cli.options import (
    DryRun,
    LocalOption,
    SparkOption,
    StopOnErrorOption,
    WorkersOption,
    chosen_runner,
    help_end,
    memory_bytes,
    seconds_of,
)
from sparkhaven.jobs.monitor.waiting import other_fields, passed_lines, remarks_of
from sparkhaven.jobs.session.spark_or_local import Where
from sparkhaven.jobs.settings.stream_file import NotStarted, StreamSettings, load_streams, try_each
from sparkhaven.jobs.settings.stream_schema import checked_schema, deploy_schema, require_same_rule
from sparkhaven.jobs.streams.stream_run import joint_state
from sparkhaven.store.epochs.generation import is_other_rule
from sparkhaven.store.epochs.reading.stream_state import list_streams, load_stream
from sparkhaven.store.epochs.state.file_positions import NO_HORIZON
from sparkhaven.store.epochs.state.log_values import absent_in, ignored_in
from sparkhaven.store.epochs.state.replay import StreamState
from sparkhaven.store.epochs.state.resume_rules import rule_words
from sparkhaven.store.errors import SettingsError, counted
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.io.local_path import local_path
from sparkhaven.store.layout import Layout
from sparkhaven.store.places import StreamPlace
from sparkhaven.store.schema.deployed.schema_changes import ACCEPTED, ADDITIONS, Consent
from sparkhaven.store.schema.document.validator_rules import unbuilt_indexes

if TYPE_CHECKING:
    from sparkhaven.jobs.monitor.metrics.stream_metrics import Metrics
    from sparkhaven.jobs.streams.process import IdleRun
    from sparkhaven.jobs.streams.stream_run import StreamRun


@dataclass(frozen=True, slots=True)
class IngestRun:
    """How long streams run, where, and what the failure of one means."""

    once: Annotated[bool, typer.Option("--once", help="Process all available input, then exit.")] = False
    wait: Annotated[
        str | None,
        typer.Option(
            "--wait", metavar="TIME", help="With --once: how long a server may take to answer, like 1min. Default: 5s."
        ),
    ] = None
    local: LocalOption = False
    spark: SparkOption = False
    workers: WorkersOption = None
    memory: Annotated[str, typer.Option(metavar="SIZE", help="Heap of Spark's driver. Rows never pass it.")] = "1GiB"
    stop_on_error: StopOnErrorOption = False

    @property
    def where(self) -> Where:
        """Where the streams run. SettingsError: options that exclude each other."""
        chosen = chosen_runner(self.local, self.spark)
        if self.local and (self.workers or 1) > 1:
            raise SettingsError(
                "--local is given with several workers",
                expected="--local, without --workers",
                found=f"--workers {self.workers}",
                hint="leave --local out. Several workers are of Spark",
            )
        return "spark" if chosen == "auto" and not self.once else chosen

    @property
    def patience(self) -> float:
        """Seconds that a source has to answer. SettingsError: ``--wait`` is no time, or not beside ``--once``."""
        if self.wait is not None and not self.once:
            raise SettingsError(
                "--wait is given without --once",
                expected="--wait beside --once",
                found=f"--wait {self.wait}",
                hint="leave --wait out. A run that goes on waits for its source as long as it takes",
            )
        if self.wait is not None:
            return seconds_of(self.wait, "--wait", '"10s" or "1 min"')
        return ONCE_S if self.once else PATIENCE_S


@dataclass(frozen=True, slots=True)
class MetricsServer:
    """Where metrics are served, if they are."""

    metrics_port: Annotated[
        int | None, typer.Option(metavar="PORT", min=0, max=65535, help="Serve Prometheus metrics. 0: any free port.")
    ] = None
    metrics_address: Annotated[str, typer.Option(metavar="ADDRESS", help="Address to serve metrics on.")] = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class AcceptedChanges:
    """What a start may change of a table."""

    accept_schema: Annotated[
        bool,
        typer.Option("--accept-schema", help="Deploy the schema of the file also where it drops or changes columns."),
    ] = False
    accept_rule: Annotated[
        bool,
        typer.Option("--accept-rule", help="Take a partition rule that has changed. Stored rows stay where they are."),
    ] = False

    @property
    def consent(self) -> Consent:
        return ACCEPTED if self.accept_schema else ADDITIONS


def register(app: typer.Typer) -> None:
    bad_data = "bad rows beyond the error budget, a source that does not continue where the commit log ends"
    retry = "a source or volume is away, another process runs the stream"
    line = "ingest conf/streams/flights.toml --once"
    app.command(epilog=help_end(line, done="all streams ended well", bad_data=bad_data, retry=retry))(ingest)


def ingest(
    cli: CliContext,
    files: Annotated[
        list[Path], typer.Argument(metavar="STREAM.toml", parser=local_path, help="Stream files, one a stream.")
    ],
    run: IngestRun,
    served: MetricsServer,
    accepted: AcceptedChanges,
    dry_run: DryRun = False,
) -> None:
    """Runs streams: ingests new input exactly once.

    They run in Spark. With --once and little input they run in this process, and write the same files. A line of
    progress says so. --local and --spark overrule it. Without --once, --local has the lowest latency. It runs one task
    at a time.

    SIGTERM and Ctrl-C end each stream after its batch. A failed stream that may recover is restarted (not with
    --once). With --stop-on-error a stream that fails for good ends the others after their batch.
    """
    fs, layout = Fs(), cli.layout()
    where, patience, heap = run.where, run.patience, f"{memory_bytes(run.memory) >> 10}k"
    streams, failed = load_streams(files)
    if dry_run:
        _, unusable = try_each(streams, lambda settings: _show_plan(cli, layout, settings, accepted))
        report_failed(cli, failed + unusable)
        return
    if not streams:
        report_failed(cli, failed)
        return
    # Spark and DuckDB take a second to import: only where a job starts
    from sparkhaven.jobs.monitor.logs.log_writer import LogWriter
    from sparkhaven.jobs.monitor.metrics.catalogue import NO_METRICS
    from sparkhaven.jobs.streams.process import run_streams
    from sparkhaven.jobs.streams.progress import Progress
    from sparkhaven.jobs.streams.stream import RunOptions

    progress = Progress(verbose=cli.verbose)
    for stream in failed:
        progress.stopped(str(stream.file), stream.error)
    with ExitStack() as opened:
        metrics = _metrics(cli, served, opened)
        logs = None
        if cli.logs and any(settings.logs for settings in streams):
            on_failure = None if metrics is None else metrics.log_failed
            logs = opened.enter_context(LogWriter(Fs(), layout, warn=cli.note, on_failure=on_failure))
        options = RunOptions(
            once=run.once,
            workers=run.workers,
            memory=heap,
            verbose=cli.verbose,
            metrics=metrics or NO_METRICS,
            stop_on_error=run.stop_on_error,
            where=where,
            logs=logs,
            consent=accepted.consent,
            accept_rule=accepted.accept_rule,
            limits=cli.limits,
            patience=patience,
        )
        runs = run_streams(fs, layout, streams, options, progress)
    _report(cli, runs, failed)


def _metrics(cli: CliContext, server: MetricsServer, opened: ExitStack) -> Metrics | None:
    """The metrics of this process, served until ``opened`` ends; None without a port."""
    if server.metrics_port is None:
        return None
    from sparkhaven.jobs.monitor.metrics.stream_metrics import Metrics, served

    metrics = Metrics()
    url = opened.enter_context(served(metrics, server.metrics_port, server.metrics_address))
    cli.note(f"metrics at {url}")
    return metrics


def _report(cli: CliContext, runs: list[StreamRun | IdleRun | NotStarted], failed: list[NotStarted]) -> None:
    """Prints the end of each stream; the exit code is that of the first that failed."""
    reported: list[Exception] = []  # the tables of a feed have one error together
    for run in runs:
        if isinstance(run, NotStarted):
            failed.append(run)
        elif run.error is not None:
            if not any(run.error is error for error in reported):
                reported.append(run.error)
                if cli.verbose:
                    traceback.print_exception(run.error)
                cli.report(run.error, stream=run.name)
        elif run.totals is not None:
            _show_run(cli, run)
    report_failed(cli, failed)


def _show_run(cli: CliContext, run: StreamRun | IdleRun) -> None:
    assert run.totals is not None  # noqa: S101  a run has an error or totals
    from sparkhaven.jobs.streams.progress import taken

    done, state = run.totals, run.state
    unit = run.settings.spec.feed.traits.unit
    amount = taken(done, unit)
    record = {
        "stream": run.name,
        "table": run.settings.spec.table,
        "rows": done.rows,
        "rejected": done.rejected,
        "epochs": done.epochs,
        "epoch": done.epoch,
        "seconds": round(done.seconds, 3),
        unit: amount,
        "replayed": done.replayed,
        "older": run.older,
        "counts": done.counts,
        "ignored": ignored_in(done.counts),
        "absent": absent_in(done.counts),
        "positions": _positions(state),
    }
    read = f"{counted(done.rows, 'row')} from {counted(amount, unit)} in {counted(done.epochs, 'epoch')}"
    text = f"{_label(run.settings)}: {read}, now epoch {done.epoch}"
    cli.result(record, text)


def _label(settings: StreamSettings) -> str:
    """The stream in a line; with its table, where the feed has several."""
    spec = settings.spec
    return f"{spec.stream} {spec.table}" if len(spec.fed_tables) > 1 else spec.stream


def _positions(state: StreamState) -> dict[str, int | None]:
    """Source positions: the end of each topic partition, or how many files are remembered, and since when."""
    ends = state.offsets.positions()
    if ends:
        return dict(ends)
    return {"files": len(state.files), "horizon_ns": None if state.horizon == NO_HORIZON else state.horizon}


def _show_plan(cli: CliContext, layout: Layout, settings: StreamSettings, accepted: AcceptedChanges) -> None:
    """Reports what a run would ingest; nothing is opened for writing."""
    spec = settings.spec
    schema = checked_schema(Fs(), settings)
    done = deploy_schema(Fs(), layout, settings.schema_file, consent=accepted.consent, dry_run=True)
    own = StreamPlace(Fs(), layout, settings.table, spec.stream)
    stored = load_stream(own) if spec.stream in list_streams(own) else StreamState(spec.stream)
    if not accepted.accept_rule:
        require_same_rule(own, settings)
    state = joint_state(Fs(), layout, settings)
    waiting = settings.feed.waiting(Fs(), state, LOOK_S)
    record = {"stream": spec.stream, "table": spec.table, "feed": spec.feed.path, "epoch": stored.epoch}
    trial = settings.feed.trial(Fs(), state, schema)
    record |= {**waiting.counts, "columns": len(schema.stored), "sample": _trial_json(trial), "dry_run": True}
    remarks = remarks_of(waiting.counts, settings.feed.resume.remember_s)
    record["remarks"] = remarks
    record["schema"] = {"version": done.schema.version, "before": done.before, **done.change.to_json()}
    text = f"{_label(settings)}: would ingest {waiting.words} of {spec.feed.path} into {spec.table}"
    new = ""
    if done.written and done.before is not None:
        new = f"\n  would deploy schema version {done.schema.version}, which {done.change.words()}"
    passed = "".join(f"\n  not ingested: {line}" for line in passed_lines(waiting.counts.get("passed", {})))
    if stored.rule is not None and is_other_rule(stored, spec.rule):
        record["rule"] = {"before": stored.rule.to_json(), "now": spec.rule.to_json()}
        new += f"\n  would take another partition rule: {rule_words(stored.rule, spec.rule)}"
    if (unbuilt := unbuilt_indexes(schema)) is not None:
        cli.note(f"{spec.stream}: {unbuilt}")
    passed += "".join(f"\n  {remark}" for remark in remarks)
    if trial is not None and trial.rejected:
        passed += f"\n  would reject {trial.rejected:,} of the first {counted(trial.rows, 'row')}: {trial.first[0]}"
    passed += "".join(f"\n  {line}" for line in other_fields(trial, spec.contract))
    cli.result(record, f"{text}, after epoch {record['epoch']}{new}{passed}")


def _trial_json(trial: Trial | None) -> dict[str, Any] | None:
    if trial is None:
        return None
    fields = {"ignored": dict(trial.ignored), "absent": dict(trial.absent)}
    return {"rows": trial.rows, "rejected": trial.rejected, "first": [str(row) for row in trial.first], **fields}
