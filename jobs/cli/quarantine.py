"""Commands on rows that were set aside: ``quarantine list|requeue|drop``."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jobs.cli.epochs import StreamArgument
from jobs.context import CliContext, DryRun, Json, Verbose, example, table
from jobs.operations.quarantine_lines import read_repairs, row_value
from jobs.operations.quarantine_rows import Dead, QuarantineRows
from jobs.settings.stream_file import load_stream_file
from jobs.streams.quarantines import settle
from store.epochs.files.ledger import Ledger, read_ledger
from store.epochs.files.load import list_streams, load_stream
from store.errors import EXIT_BAD_DATA, CorruptFileError, SettingsError, TableNotFoundError
from store.io.fs import Fs
from store.layout import Layout, TableName, check_stream
from store.schema.deployed.deploy import deployed_tables
from writers.quarantine.ledger import follow_log, leftovers

if TYPE_CHECKING:
    from jobs.operations.requeue import Requeued
    from writers.quarantine.table import Chosen, Quarantine

SHOWN = 1000

TableOption = Annotated[
    str | None, typer.Option("--table", metavar="NS.T", help="Where several tables have a stream of this name.")
]
ReasonOption = Annotated[str | None, typer.Option(metavar="CODE", help="Only rows with this reason code.")]
SourceOption = Annotated[
    str | None, typer.Option(metavar="TEXT", help="Only rows of this file or topic/partition; * stands for anything.")
]
EpochOption = Annotated[int | None, typer.Option(help="Only rows that were parked with this epoch.")]
StateOption = Annotated[str, typer.Option(metavar="all|pending|requeued", help="Only rows in this state.")]


def register(app: typer.Typer) -> None:
    """Adds the commands of this module."""
    group = typer.Typer(help="Rows that could not be stored.", no_args_is_help=True, rich_markup_mode=None)
    group.command("list", epilog=example("quarantine list flights --reason overflow --json > rows.jsonl"))(list_)
    group.command(epilog=example("quarantine requeue flights", "quarantine requeue flights --from rows.jsonl"))(requeue)
    group.command(epilog=example("quarantine drop flights --source '/data/flights/2013-01-*' --dry-run"))(drop)
    app.add_typer(group, name="quarantine")


@dataclass(frozen=True, slots=True)
class QuarantinedStream:
    """A stream that has a quarantine."""

    table: TableName
    stream: str
    ledger: Ledger


def list_(
    ctx: typer.Context,
    stream: StreamArgument,
    table_name: TableOption = None,
    reason: ReasonOption = None,
    source: SourceOption = None,
    epoch: EpochOption = None,
    state: StateOption = "all",
    limit: Annotated[int, typer.Option(min=0, help="At most this many rows; 0 = all.")] = SHOWN,
    as_json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Rows that were set aside, by source and position; with --json one line a row, as requeue --from takes them."""
    cli: CliContext = ctx.obj
    layout, chosen = cli.database(), _chosen(reason, source, epoch, state)
    found = find(layout, stream, table_name)
    listed: list[list[object]] = []
    count = 0
    if found is not None:
        sent = _sent(layout, found)
        for row in _rows(found, _dead(layout, found)).rows(chosen, limit):
            count += 1
            shown = row_value(row, sent)
            if cli.json:
                cli.result(shown, "")
            else:
                keys = ("source", "position", "epoch", "requeued_epoch", "reason", "column", "value", "expected")
                listed.append([_short(shown[key]) for key in keys])
    if not cli.json:
        table(["source", "position", "epoch", "requeued", "reason", "column", "value", "expected"], listed)
    if limit and count == limit:
        cli.note(f"{limit:,} rows shown, there may be more: --limit 0 shows all")


def requeue(
    ctx: typer.Context,
    stream: StreamArgument,
    table_name: TableOption = None,
    repaired: Annotated[
        Path | None, typer.Option("--from", metavar="FILE.jsonl", help="Only these rows, with these payloads.")
    ] = None,
    file: Annotated[
        Path | None, typer.Option("--file", metavar="FILE.toml", help="The stream's file, if it has moved.")
    ] = None,
    reason: ReasonOption = None,
    source: SourceOption = None,
    epoch: EpochOption = None,
    dry_run: DryRun = False,
    as_json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Sends pending rows into the table again, each exactly once; those that are still bad stay where they are.

    Schema and settings are those of now. The stream must not be running.
    """
    cli: CliContext = ctx.obj
    layout = cli.database()
    found = find(layout, stream, table_name)
    repairs = read_repairs(Fs(), repaired) if repaired is not None else None
    if found is None:
        _told(cli, stream, None, len(repairs or ()), dry_run)
        return
    if not found.ledger.file:
        raise SettingsError(
            "rows of data frames are not sent again by a command, which does not know how their program routes them",
            where=f"stream {stream} of {found.table}",
            expected="a stream with a stream file",
            found="rows parked by jobs.streams.frames",
            hint="mend them in a program and write them with write_frame(..., label=...), which takes them once; then"
            " `quarantine drop`",
        )
    settings = load_stream_file(Fs(), file or Path(found.ledger.file), os.environ)
    if (settings.table, settings.spec.stream) != (found.table, stream):
        raise SettingsError(
            "the stream file is of another stream",
            where=settings.file,
            expected=f"stream {stream} of {found.table}",
            found=f"stream {settings.spec.stream} of {settings.table}",
        )
    chosen = _chosen(reason, source, epoch, "pending")
    from jobs.operations.requeue import Requeued, requeue_pending, try_pending
    from jobs.streams.progress import Progress
    from jobs.streams.run import open_stream

    fs, done = Fs(), Requeued()
    if dry_run:
        try_pending(fs, layout, settings, _pending(layout, found, chosen), repairs, done)
    else:
        with ExitStack() as opened:
            run = open_stream(fs, layout, settings, opened, Progress())
            quarantine = opened.enter_context(session(cli, layout, found))
            where = f"{settings.file}: bad_rows.quarantine"
            settle(fs, layout, settings.table, run.log.state, quarantine, where)
            requeue_pending(fs, layout, run, quarantine, chosen, repairs, done)
    _told(cli, stream, done, len(repairs or ()), dry_run)
    if done.refused or done.cut or repairs:
        raise typer.Exit(EXIT_BAD_DATA)


def drop(
    ctx: typer.Context,
    stream: StreamArgument,
    table_name: TableOption = None,
    reason: ReasonOption = None,
    source: SourceOption = None,
    epoch: EpochOption = None,
    state: StateOption = "all",
    everything: Annotated[bool, typer.Option("--all", help="Without any of the options that choose.")] = False,
    dry_run: DryRun = False,
    as_json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Deletes rows from the quarantine; rows that were sent again stay in the table."""
    cli: CliContext = ctx.obj
    layout = cli.database()
    chosen = _chosen(reason, source, epoch, state)
    if not everything and (reason, source, epoch, state) == (None, None, None, "all"):
        raise SettingsError(
            "nothing says which rows to drop", expected="--reason, --source, --epoch, --state, or --all", found="none"
        )
    found, dropped = find(layout, stream, table_name), 0
    if found is not None:
        now = load_stream(Fs(), layout, found.table, found.stream).epoch  # a running batch is left alone
        if dry_run:
            dropped = _rows(found, [(now, None)]).count(chosen)
        else:
            with session(cli, layout, found) as quarantine:
                dropped = quarantine.drop(chosen, now)
    words = "would drop" if dry_run else "dropped"
    value = {"stream": stream, "dropped": dropped, "dry_run": dry_run}
    cli.result(value, f"{stream}: {words} {dropped:,} rows")


# --- the stream and its quarantine ----------------------------------------------------------------------------


def find(layout: Layout, stream: str, table_name: str | None) -> QuarantinedStream | None:
    """The stream of that name, None if it has no rows parked; one that is not known is a TableNotFoundError."""
    fs = Fs()
    check_stream(stream)
    tables = [TableName.parse(table_name)] if table_name else deployed_tables(fs, layout)
    having = [each for each in tables if stream in list_streams(fs, layout, each)]
    if not having:
        raise TableNotFoundError(
            f"no stream {stream}", where=layout.root, found="no commit log", hint="`sparkhaven stats` lists the streams"
        )
    parked = [(each, _ledger(fs, layout, each, stream)) for each in having]
    known = [QuarantinedStream(each, stream, ledger) for each, ledger in parked if ledger is not None]
    if len(known) > 1:
        raise SettingsError(
            f"several tables have a stream {stream}",
            found=", ".join(str(each.table) for each in known),
            hint="name one with --table",
        )
    return known[0] if known and fs.stat(Path(known[0].ledger.place) / "_delta_log") is not None else None


def _ledger(fs: Fs, layout: Layout, table: TableName, stream: str) -> Ledger | None:
    """That of a stream; in place of one that is lost, what the commit log and the usual place of quarantines tell."""
    ledger = read_ledger(fs, layout, table, stream)
    if ledger is not None:
        return ledger
    ledger = follow_log(fs, layout, table, load_stream(fs, layout, table, stream), read_only=True)
    if ledger is not None and not ledger.place:
        raise CorruptFileError(
            "the ledger of a quarantine is missing, and its rows are not in the usual place",
            where=layout.stream_quarantine(table, stream),
            expected=f"the ledger, or rows in {layout.quarantine(stream)}",
            found="neither",
            hint="start the stream once: it makes the ledger again, with the place that its settings name",
        )
    return ledger


def _rows(found: QuarantinedStream, dead: Dead) -> QuarantineRows:
    owner = found.table.namespace, found.table.table, found.stream
    return QuarantineRows(Fs(), Path(found.ledger.place), owner, dead)


@contextmanager
def session(cli: CliContext, layout: Layout, found: QuarantinedStream) -> Iterator[Quarantine]:
    """A Spark session with the quarantine of a stream."""
    # Spark takes a second to import: only where a command needs it
    from jobs.session.delta_session import delta_conf, require_delta
    from jobs.session.spark_session import build_session, require_jdk
    from writers.quarantine.table import Quarantine
    from writers.spark.stream import STREAM_CONF

    fs = Fs()
    require_jdk(fs, os.environ)
    extra = STREAM_CONF | delta_conf(fs)
    spark = build_session("sparkhaven quarantine", extra=extra, verbose=cli.verbose)
    try:
        require_delta(spark)
        place, file = Path(found.ledger.place), found.ledger.file
        yield Quarantine(spark, fs, layout, found.table, found.stream, place, clock=time.time, file=file)
    finally:
        spark.stop()


def _told(cli: CliContext, stream: str, done: Requeued | None, unknown: int, dry_run: bool) -> None:
    sent, cut, epochs, refused = (done.sent, done.cut, done.epochs, done.refused) if done else (0, 0, [], [])
    value = {"stream": stream, "sent": sent, "refused": len(refused), "cut": cut, "not_pending": unknown}
    value |= {"epochs": epochs, "epoch": epochs[-1] if epochs else None, "dry_run": dry_run}
    value["refusals"] = [str(row) for row in refused[:10]]
    where = f" in epoch {', '.join(map(str, epochs))}" if epochs else ""
    lines = [f"{stream}: {'would send' if dry_run else 'sent'} {sent:,} rows{where}"]
    if refused:
        lines += [f"{len(refused):,} rows are still bad and stay:", *(f"  {row}" for row in refused[:10])]
    if cut:
        lines.append(f"{cut:,} rows are longer than 1 MiB and were cut: send them with --from and a whole payload")
    if unknown:
        lines.append(f"{unknown:,} rows of the file are not pending: sent already, dropped, or never parked")
    cli.result(value, "\n".join(lines))


def _chosen(reason: str | None, source: str | None, epoch: int | None, state: str) -> Chosen:
    from writers.quarantine.table import Chosen

    if state not in ("all", "pending", "requeued"):
        raise SettingsError("unknown state", expected="all, pending or requeued", found=state)
    return Chosen(reason, source, epoch, state)  # type: ignore[arg-type]


def _dead(layout: Layout, found: QuarantinedStream) -> list[tuple[int, int | None]]:
    """Epochs whose rows do not count, as the log says now; the running batch of a stream is among them."""
    state = load_stream(Fs(), layout, found.table, found.stream)
    ledger = follow_log(Fs(), layout, found.table, state, read_only=True)
    return [*(ledger.dead if ledger else ()), (state.epoch, None)]


def _pending(layout: Layout, found: QuarantinedStream, chosen: Chosen) -> Iterator[dict[str, Any]]:
    """Rows that fit and would be sent, were the stream settled; read without Spark."""
    sent = _sent(layout, found)
    rows = _rows(found, _dead(layout, found)).rows(chosen)
    return (row for row in rows if (row["SourcePartition"], row["Position"]) not in sent)


def _sent(layout: Layout, found: QuarantinedStream) -> dict[tuple[str, int], int]:
    """Rows that a requeue has committed and not marked yet, with its epoch."""
    from writers.quarantine.table import requeued_rows

    state = load_stream(Fs(), layout, found.table, found.stream)
    committed, _ = leftovers(Fs(), layout, found.table, state)
    return {key: requeue.epoch for requeue in committed for key in requeued_rows(Fs(), requeue)}


def _short(value: object) -> object:
    return f"{value[:57]}..." if isinstance(value, str) and len(value) > 60 else value
