"""The command ``doctor``: runs every check and names the next command to run."""

from __future__ import annotations

import os
import socket
import time
from typing import Annotated

import typer

from sparkhaven.jobs.cli.context import CliContext
from sparkhaven.jobs.cli.options import Json, OldFeedOption, TableAndFilesArgument, Verbose, help_end, table_and_files
from sparkhaven.jobs.doctor.checks import findings
from sparkhaven.jobs.doctor.finding import CheckContext, DoctorFinding, headline
from sparkhaven.jobs.streams.starting import load_streams
from sparkhaven.store.errors import EXIT_BAD_DATA
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import TableName


def register(app: typer.Typer) -> None:
    """Adds the command."""
    lines = "doctor", "doctor Nyc13.Flight conf/streams/flights.toml"
    app.command(epilog=help_end(*lines, done="nothing is wrong", bad_data="something is wrong"))(doctor)


def doctor(
    ctx: typer.Context,
    words: TableAndFilesArgument = None,
    feeds: OldFeedOption = None,
    every: Annotated[bool, typer.Option("--all", help="Show what is well, too.")] = False,
    as_json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Checks the database and names the next command to run.

    Looks at machine, volumes, streams, dates, logs, and at what `verify` finds without --deep. Shows what is wrong.
    Read-only and without Spark. Works for a database that is empty, damaged or mounted read-only.
    """
    cli: CliContext = ctx.obj
    name, files = table_and_files(cli, words, feeds)
    only = [TableName.parse(name)] if name is not None else []
    asked, unread = load_streams(files)
    context = CheckContext(Fs(), cli.layout(), time.time(), socket.gethostname(), os.environ, only, asked)
    found = findings(context)
    for one in unread:
        found.append(
            DoctorFinding("feed", "wrong", headline(one.error), getattr(one.error, "hint", None) or "correct the file")
        )
    wrong = sum(each.state == "wrong" for each in found)
    notes = sum(each.state == "note" for each in found)
    value = {"root": str(context.layout.root), "wrong": wrong, "notes": notes}
    value["findings"] = [each.to_json() for each in found]
    shown = [each for each in found if every or each.state != "ok"]
    well = f", {len(found) - wrong - notes} ok" + ("" if every else " (--all shows them)")
    cli.result(value, "\n".join([*map(_line, shown), f"{wrong} wrong, {notes} notes{well}"]))
    if wrong:
        raise typer.Exit(EXIT_BAD_DATA)


def _line(found: DoctorFinding) -> str:
    text = f"{found.state:<6}{found.check + ':':<13}{found.what}"
    return text + (f"\n{'':<6}{'':<13}next: {found.next}" if found.next else "")
