"""Commands on the quarantine of a stream, its dead-letter queue: ``quarantine list|requeue|drop``."""

from __future__ import annotations

import os
from collections.abc import Collection
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sparkhaven.jobs.cli.context import CliContext
from sparkhaven.jobs.cli.options import DryRun, TableArgument, group, help_end, old_spelling
from sparkhaven.jobs.cli.text_table import table
from sparkhaven.jobs.monitor.rejected import find, ledger_of, no_stream
from sparkhaven.jobs.operations.quarantine_lines import read_repairs, refuse_other_edits, row_value
from sparkhaven.jobs.settings.stream_file import load_stream_tables
from sparkhaven.jobs.streams.quarantines import settle
from sparkhaven.store.epochs.reading.stream_state import list_streams, load_stream
from sparkhaven.store.errors import EXIT_BAD_DATA, SettingsError, SparkhavenError
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.io.local_path import local_path
from sparkhaven.store.layout import Layout, TableName, check_stream
from sparkhaven.store.places import StreamPlace
from sparkhaven.store.schema.deployed.deploy import deployed_tables

if TYPE_CHECKING:
    from sparkhaven.jobs.operations.requeue import Requeued
    from sparkhaven.writers.quarantine.row_choice import Chosen

SHOWN = 1000

StreamArgument = Annotated[
    str | None,  # None: the old spelling, where the first word is the stream
    typer.Argument(metavar="STREAM", help="Name of the stream, as in its stream file."),
]
OldTableOption = Annotated[str | None, typer.Option("--table", hidden=True)]
ReasonOption = Annotated[str | None, typer.Option(metavar="CODE", help="Only rows with this reason code.")]
SourceOption = Annotated[
    str | None,
    typer.Option(metavar="TEXT", help="Only rows of this file or topic/partition. * matches any text."),
]
EpochOption = Annotated[int | None, typer.Option(metavar="N", help="Only rows that were rejected with this epoch.")]
StateOption = Annotated[str, typer.Option(metavar="all|pending|requeued", help="Only rows in this state.")]


def register(app: typer.Typer) -> None:
    quarantine = group("List, requeue and drop rows that could not be stored.")
    usage = "wrong options, no such table or stream"
    retry = "the stream runs, a volume is not mounted"
    line = "quarantine list Nyc13.Flight flights --reason overflow --json > rows.jsonl"
    quarantine.command("list", epilog=help_end(line, usage=usage))(list_)
    lines = (
        "quarantine requeue Nyc13.Flight flights",
        "quarantine requeue Nyc13.Flight flights conf/streams/flights.toml --from rows.jsonl",
    )
    bad_data = "rows are still bad, or are not pending"
    quarantine.command(epilog=help_end(*lines, bad_data=bad_data, usage=usage, retry=retry))(requeue)
    line = "quarantine drop Nyc13.Flight flights --source '/data/flights/2013-01-*' --dry-run"
    quarantine.command(epilog=help_end(line, usage=usage, retry=retry))(drop)
    app.add_typer(quarantine, name="quarantine")


def list_(
    ctx: typer.Context,
    name: TableArgument,
    stream: StreamArgument = None,
    old_table: OldTableOption = None,
    reason: ReasonOption = None,
    source: SourceOption = None,
    epoch: EpochOption = None,
    state: StateOption = "all",
    limit: Annotated[int, typer.Option(metavar="N", min=0, help="At most this many rows. 0: all.")] = SHOWN,
) -> None:
    """Lists rejected rows by source and position.

    With --json one line a row, as `quarantine requeue --from` takes them.
    """
    cli: CliContext = ctx.obj
    layout, chosen = cli.database(), _chosen(reason, source, epoch, state)
    rejected = find(_named(cli, layout, name, stream, old_table))
    listed: list[list[object]] = []
    count = 0
    if rejected is not None:
        requeued = rejected.requeued()
        for row in rejected.rows(chosen, limit):
            count += 1
            shown = row_value(row, requeued)
            if cli.json:
                cli.result(shown, "")
            else:
                keys = ("source", "position", "epoch", "requeued_epoch", "reason", "column", "value", "expected")
                listed.append([_short(shown[key], end=key == "source") for key in keys])
    if not cli.json:
        table(["source", "position", "epoch", "requeued", "reason", "column", "value", "expected"], listed)
    if limit and count == limit:
        cli.note(f"{limit:,} rows shown, there may be more: --limit 0 shows all")


def requeue(
    ctx: typer.Context,
    name: TableArgument,
    stream: StreamArgument = None,
    stream_file: Annotated[
        Path | None,
        typer.Argument(metavar="[STREAM.toml]", parser=local_path, help="Stream file. Default: that of the last run."),
    ] = None,
    old_table: OldTableOption = None,
    repaired: Annotated[
        Path | None,
        typer.Option(
            "--from", metavar="FILE.jsonl", parser=local_path, help="Only the rows of this file, with its payloads."
        ),
    ] = None,
    old_file: Annotated[Path | None, typer.Option("--file", parser=local_path, hidden=True)] = None,
    reason: ReasonOption = None,
    source: SourceOption = None,
    epoch: EpochOption = None,
    dry_run: DryRun = False,
) -> None:
    """Ingests pending rows again, each exactly once.

    Rows that are still bad stay in the quarantine. The current schema and stream file apply. The stream must not be
    running.
    """
    cli: CliContext = ctx.obj
    layout = cli.database()
    if old_file is not None:
        old_spelling(cli, "--file STREAM.toml", "STREAM.toml after the stream")
    place = _named(cli, layout, name, stream, old_table)
    rejected, stream = find(place), place.stream
    repairs = read_repairs(Fs(), repaired, f"{place.table} {stream}") if repaired is not None else None
    if rejected is None:
        _show_requeued(cli, stream, None, repairs or (), frozenset(), dry_run)
        return
    if not rejected.ledger.file:
        raise SettingsError(
            "rows of data frames cannot be requeued. Only their program knows how they are routed",
            where=f"stream {stream} of {place.table}",
            expected="a stream with a stream file",
            found="rows that a data frame writer has rejected",
            hint="repair them in a program and write them with write_frame(..., label=...), which writes them once."
            f" Then run `sparkhaven quarantine drop {place.table} {stream}`",
        )
    tables = load_stream_tables(Fs(), stream_file or old_file or Path(rejected.ledger.file), os.environ)
    settings = next((settings for settings in tables if settings.table == place.table), tables[0])
    if (settings.table, settings.spec.stream) != (place.table, stream):
        raise SettingsError(
            "the stream file describes another stream",
            where=settings.file,
            expected=f"stream {stream} of {place.table}",
            found=f"stream {settings.spec.stream} of {settings.table}",
        )
    chosen = _chosen(reason, source, epoch, "pending")
    from sparkhaven.jobs.operations.requeue import Requeued, requeue_pending, try_pending
    from sparkhaven.jobs.streams.reports.progress import Progress
    from sparkhaven.jobs.streams.stream import open_stream

    fs, done, before = Fs(), Requeued(), frozenset[tuple[str, int]]()
    if repairs is not None:
        refuse_other_edits(repairs, rejected.rows(_chosen(None, None, None, "all")))
        before = rejected.ingested(repairs)
    if dry_run:
        try_pending(fs, layout, settings, rejected.pending(chosen), repairs, done)
    else:
        with ExitStack() as opened:
            run = open_stream(fs, layout, settings, opened, Progress())
            quarantine = rejected.quarantine()
            where = f"{settings.file}: bad_rows.quarantine"
            settle(place, run.log.state, quarantine, where)
            try:
                requeue_pending(fs, layout, run, quarantine, chosen, repairs, done)
            except (SparkhavenError, OSError):
                if done.epochs:
                    _show_requeued(cli, stream, done, (), before, dry_run)
                raise
    unknown = set(repairs or ()) - before
    _show_requeued(cli, stream, done, unknown, before, dry_run)
    if done.refused or done.cut or unknown:
        raise typer.Exit(EXIT_BAD_DATA)


def drop(
    ctx: typer.Context,
    name: TableArgument,
    stream: StreamArgument = None,
    old_table: OldTableOption = None,
    reason: ReasonOption = None,
    source: SourceOption = None,
    epoch: EpochOption = None,
    state: StateOption = "all",
    everything: Annotated[bool, typer.Option("--all", help="Drop all rows.")] = False,
    dry_run: DryRun = False,
) -> None:
    """Deletes rows from the quarantine.

    Rows that were ingested again stay in the table.
    """
    cli: CliContext = ctx.obj
    layout = cli.database()
    chosen = _chosen(reason, source, epoch, state)
    place = _named(cli, layout, name, stream, old_table)
    if not everything and (reason, source, epoch, state) == (None, None, None, "all"):
        raise SettingsError(
            "no rows are selected", expected="--reason, --source, --epoch, --state, or --all", found="none of them"
        )
    rejected, dropped = find(place), 0
    if rejected is not None:
        now = load_stream(place).epoch  # rows of a running batch stay
        if dry_run:
            dropped = rejected.count(chosen, now)
        else:
            dropped = rejected.quarantine().drop(chosen, now)
    words = "would drop" if dry_run else "dropped"
    record = {"stream": place.stream, "dropped": dropped, "dry_run": dry_run}
    cli.result(record, f"{place.stream}: {words} {dropped:,} rows")


def _named(cli: CliContext, layout: Layout, name: str, stream: str | None, table: str | None) -> StreamPlace:
    """The stream that the words name; without a stream they have the old spelling."""
    if stream is not None:
        return StreamPlace(Fs(), layout, TableName.parse(name), check_stream(stream))
    old_spelling(cli, f"{name}{f' --table {table}' if table else ''}", "NS.T STREAM")
    fs = Fs()
    tables = [TableName.parse(table)] if table else deployed_tables(fs, layout)
    places = [StreamPlace(fs, layout, candidate, check_stream(name)) for candidate in tables]
    having = [place for place in places if name in list_streams(place)]
    if not having:
        raise no_stream(layout.root, name)
    rejecting = [place for place in having if ledger_of(place) is not None]
    if len(rejecting) > 1:
        several = ", ".join(str(place.table) for place in rejecting)
        raise SettingsError(f"several tables have a stream {name}", expected="NS.T STREAM", found=several)
    return (rejecting or having)[0]


def _show_requeued(
    cli: CliContext,
    stream: str,
    done: Requeued | None,
    unknown: Collection[tuple[str, int]],
    before: Collection[tuple[str, int]],
    dry_run: bool,
) -> None:
    """``unknown``: rows of the file that are not pending; ``before``: those that an earlier requeue has ingested."""
    sent, cut, epochs, refused = (done.sent, done.cut, done.epochs, done.refused) if done else (0, 0, [], [])
    record = {"stream": stream, "sent": sent, "refused": len(refused), "cut": cut, "not_pending": len(unknown)}
    record["ingested_before"] = len(before)
    record |= {"epochs": epochs, "epoch": epochs[-1] if epochs else None, "dry_run": dry_run}
    record["refusals"] = [str(row) for row in refused[:10]]
    where = f" in epoch {', '.join(map(str, epochs))}" if epochs else ""
    lines = [f"{stream}: {'would ingest' if dry_run else 'ingested'} {sent:,} rows{where}"]
    if refused:
        lines += [
            f"{len(refused):,} rows are still bad and stay in the quarantine:",
            *(f"  {row}" for row in refused[:10]),
        ]
    if cut:
        lines.append(f"{cut:,} rows are longer than 1 MiB and were cut. Requeue them with --from and a whole payload")
    if before:
        lines.append(f"{len(before):,} rows of the file were ingested before")
    if unknown:
        lines.append(f"{len(unknown):,} rows of the file are not pending: dropped, or never rejected")
    cli.result(record, "\n".join(lines))
    if done is not None and done.unmarked is not None:
        cli.note(f"they are committed. The next start of the stream marks them in the quarantine: {done.unmarked}")


def _chosen(reason: str | None, source: str | None, epoch: int | None, state: str) -> Chosen:
    from sparkhaven.writers.quarantine.row_choice import Chosen

    if state not in ("all", "pending", "requeued"):
        raise SettingsError("unknown state", expected="all, pending or requeued", found=state)
    return Chosen(reason, source, epoch, state)  # type: ignore[arg-type]


def _short(value: object, *, end: bool) -> object:
    """A text in at most 60 characters; ``end``: its end says most, as that of a path does."""
    if not isinstance(value, str) or len(value) <= 60:
        return value
    return f"...{value[-57:]}" if end else f"{value[:57]}..."
