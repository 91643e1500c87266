"""The command ``scrub``: every committed byte is read again, at a bounded rate."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from sparkhaven.ingest.settings.base_model import parse_size
from sparkhaven.jobs.cli.context import CliContext
from sparkhaven.jobs.cli.options import AnyTableArgument, DryRun, help_end, seconds_of
from sparkhaven.jobs.operations.scrub import Pace, ScrubRound, load_position, only_scrub, tables
from sparkhaven.readers.checks.committed_files import committed_files
from sparkhaven.store.errors import EXIT_BAD_DATA, SettingsError
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout, TableName
from sparkhaven.store.places import TablePlace
from sparkhaven.store.schema.deployed.deploy import load_deployed

RATE = "50MB"
RETRY = "another scrub of the database runs"
LEAST_ROUND = 60.0  # seconds from one round to the next with --forever


def register(app: typer.Typer) -> None:
    lines = "scrub --rate 50MB", "scrub --for 2h", "scrub Nyc13.Flight --rate 200MB"
    ending = help_end(*lines, done="no damage so far", bad_data="the round has found damage", retry=RETRY)
    app.command(epilog=ending)(scrub)


def scrub(
    ctx: typer.Context,
    name: AnyTableArgument = None,
    rate: Annotated[
        str, typer.Option("--rate", metavar="SIZE", help="Bytes a second, like 50MB. A plain number is MB.")
    ] = RATE,
    time_limit: Annotated[
        str | None,
        typer.Option("--for", metavar="TIME", help="Pause after this time, like 2h. Default: a whole round."),
    ] = None,
    forever: Annotated[bool, typer.Option("--forever", help="Begin the next round after each round.")] = False,
    dry_run: DryRun = False,
) -> None:
    """Reads all committed bytes again, at a bounded rate.

    Compares the checksum of each committed file with its record, beside ingest, merge and maintenance. A round that
    pauses or is killed goes on where it stopped. A round over a named table, or over a snapshot or mirror, begins anew.
    """
    cli: CliContext = ctx.obj
    fs, layout = Fs(), cli.database()
    table = None if name is None else TableName.parse(name)
    if table is not None and table not in tables(fs, layout):
        load_deployed(TablePlace(fs, layout, table))  # raises: no such table
    pace = Pace(_rate(rate))
    seconds = float("inf") if time_limit is None else seconds_of(time_limit, "--for", '"30 min" or "2h"')
    until = time.monotonic() + seconds
    if dry_run:
        _plan(cli, fs, layout, table, pace)
        return
    defects = 0
    with only_scrub(fs, layout) as keeps:
        while True:
            began = time.monotonic()
            running = ScrubRound(fs, layout, pace, cli.note, table, until, keeps)
            defects += _round(cli, running)
            if not forever or time.monotonic() >= until:
                break
            time.sleep(max(0.0, LEAST_ROUND - (time.monotonic() - began)))
    if defects:
        raise typer.Exit(EXIT_BAD_DATA)


def _round(cli: CliContext, running: ScrubRound) -> int:
    """Runs or continues a round and reports it; the number of its findings."""
    if running.table is None and running.keeps:
        running.position = load_position(running.fs, running.layout, cli.note)
    began = time.monotonic()
    complete = running.run()
    done = running.position
    if complete:
        running.end()
    record = {
        "round": done.round,
        "complete": complete,
        "files": done.files,
        "bytes": done.size,
        "seconds": round(time.monotonic() - began, 3),
        "errors": len(done.findings),
        "findings": list(done.findings),
    }
    state = "complete" if complete else f"paused in {done.table}"
    cli.result(
        record, f"round {done.round} {state}: {done.files:,} files, {done.size:,} bytes, {len(done.findings)} errors"
    )
    return len(done.findings)


def _plan(cli: CliContext, fs: Fs, layout: Layout, table: TableName | None, pace: Pace) -> None:
    position = load_position(fs, layout, cli.note)
    names = tables(fs, layout) if table is None else [table]
    sizes = [file.state.size for name in names for file in committed_files(TablePlace(fs, layout, name))[0]]
    seconds = sum(sizes) / pace.rate
    record = {"round": position.round, "files": len(sizes), "bytes": sum(sizes), "seconds": round(seconds, 3)}
    cli.result(record, f"a whole round: {len(sizes):,} files, {sum(sizes):,} bytes, {seconds:,.0f} seconds")


def _rate(text: str) -> int:
    try:
        return parse_size(f"{text}MB" if text.strip().isdigit() else text)
    except ValueError:
        raise SettingsError("--rate is not a size", expected='bytes a second like "50MB"', found=text) from None
