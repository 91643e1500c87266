"""Commands on whole streams: ``streams list|remove``."""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import Any

import typer

from sparkhaven.jobs.cli.context import CliContext, exit_with, report
from sparkhaven.jobs.cli.options import AnyTableArgument, DryRun, StreamArgument, TableArgument, group, help_end
from sparkhaven.jobs.cli.text_table import table
from sparkhaven.jobs.monitor.streams import StreamFacts, table_streams
from sparkhaven.jobs.monitor.texts import ago, iso_time
from sparkhaven.store.epochs.files.failure_note import StreamFailure
from sparkhaven.store.errors import EXIT_DONE, SparkhavenError
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import TableName
from sparkhaven.store.places import StreamPlace, TablePlace
from sparkhaven.store.schema.deployed.deploy import load_deployed, user_tables
from sparkhaven.writers.removal.stream_removal import remove_stream


def register(app: typer.Typer) -> None:
    streams = group("List streams, and remove those of which no row is left.")
    end = help_end("streams list Nyc13.Flight", bad_data="a stream cannot be read", usage="no such database or table")
    streams.command("list", epilog=end)(list_)
    end = help_end(
        "streams remove Nyc13.Flight flights --dry-run",
        done="removed",
        usage="no such table or stream, the stream has rows or locations, or is running",
        retry="a merge or removal of the table is running",
    )
    streams.command(epilog=end)(remove)
    app.add_typer(streams, name="streams")


def list_(ctx: typer.Context, name: AnyTableArgument = None) -> None:
    """Lists streams with source, epochs, rows and last commit.

    `left` says what is left of a stream: rows, truncated locations, or only its commit log. A start or a removal that
    was killed leaves files. `running` is the process that holds its lock. `failed` is its last failure, unless it has
    succeeded since. --json has all parts of the error.
    """
    cli: CliContext = ctx.obj
    fs, layout, code = Fs(), cli.database(), EXIT_DONE
    if name is not None:
        load_deployed(TablePlace(fs, layout, TableName.parse(name)))
    summaries: list[StreamFacts] = []
    for table_name in user_tables(fs, layout) if name is None else [TableName.parse(name)]:
        try:
            summaries += table_streams(TablePlace(fs, layout, table_name))
        except SparkhavenError as error:  # list the streams of the other tables all the same
            failed = report(cli, error, table=str(table_name))
            code = code or failed
    now = time.time()
    header = ["table", "stream", "feed", "epochs", "rows", "last commit", "running", "left", "failed"]

    def print_text() -> None:
        table(header, [_cells(summary, now) for summary in summaries])

    cli.result({"streams": [_json(summary) for summary in summaries]}, print_text)
    exit_with(code)


def remove(ctx: typer.Context, name: TableArgument, stream: StreamArgument, dry_run: DryRun = False) -> None:
    """Removes a stream of which no row is left.

    It has never committed, or its rows are all merged, truncated and deleted. Its commit log and positions go, and
    Spark's checkpoint. History and the quarantine stay.

    A stream that is started under this name later begins at the beginning of its source. It ingests again what the
    source still has.

    It is safe to kill: a repeat finishes the removal.
    """
    cli: CliContext = ctx.obj
    layout, parsed = cli.database(), TableName.parse(name)
    done = remove_stream(StreamPlace(Fs(), layout, parsed, stream), clock=time.time, dry_run=dry_run)
    files = [str(path) for path in done.files]
    record: dict[str, Any] = {"table": name, "stream": stream, "epoch": done.epoch, "files": files}
    words = "would remove" if dry_run else "removed"
    lines = [*done.recovered, *(f"{words} {path}" for path in files)]

    def print_text() -> None:
        for line in lines:
            print(line)
        print(f"{words} stream {stream} of {name}. A new one begins at the beginning of its source")

    cli.result({**record, "recovered": list(done.recovered), "dry_run": dry_run}, print_text)


def _cells(summary: StreamFacts, now: float) -> list[object]:
    last = None if summary.last_ms is None else f"{ago(now - summary.last_ms / 1000)} ago"
    running = None if summary.running is None else f"process {summary.running}" if summary.running > 0 else "yes"
    failure = summary.failure
    failed = (
        f"{ago(now - failure.time_ms / 1000)} ago: {failure.error}" if isinstance(failure, StreamFailure) else failure
    )
    counts = [summary.epochs, summary.rows, last, running, summary.left, failed]
    return [summary.table, summary.stream, summary.feed, *counts]


def _json(stream: StreamFacts) -> dict[str, Any]:
    shown = ("table", "stream", "feed", "epoch", "epochs", "rows", "locations", "running", "left")
    failure = asdict(stream.failure) if isinstance(stream.failure, StreamFailure) else stream.failure
    last = None if stream.last_ms is None else iso_time(stream.last_ms, "milliseconds")
    return {**{name: getattr(stream, name) for name in shown}, "failure": failure, "last_commit": last}
