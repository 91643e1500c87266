"""The command ``doctor``: runs every check and names the next command to run."""

from __future__ import annotations

import os
import socket
import time
from typing import Annotated

import typer

from sparkhaven.jobs.cli.context import CliContext
from sparkhaven.jobs.cli.options import TableAndFilesArgument, help_end, table_and_files
from sparkhaven.jobs.monitor.doctor.checks import findings
from sparkhaven.jobs.monitor.doctor.finding import CheckContext, DoctorFinding, line_of, unread
from sparkhaven.jobs.monitor.texts import headline
from sparkhaven.jobs.settings.stream_file import load_streams
from sparkhaven.store.errors import EXIT_BAD_DATA, counted
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import TableName


def register(app: typer.Typer) -> None:
    lines = "doctor", "doctor Nyc13.Flight conf/streams/flights.toml"
    app.command(epilog=help_end(*lines, done="nothing is wrong", bad_data="something is wrong"))(doctor)


def doctor(
    cli: CliContext,
    words: TableAndFilesArgument = None,
    show_all: Annotated[bool, typer.Option("--all", help="Show what is well, too.")] = False,
) -> None:
    """Checks the database and names the next command to run.

    Looks at machine, volumes, streams, dates, logs, and at what `verify` finds without --deep. Shows what is wrong.
    Read-only and without Spark. Works for a database that is empty, damaged or mounted read-only.
    """
    name, files = table_and_files(words)
    only = [TableName.parse(name)] if name is not None else []
    feed_settings, refused = load_streams(files)
    layout = cli.layout()
    if layout.root.exists():
        layout = cli.database()
    context = CheckContext(Fs(), layout, time.time(), socket.gethostname(), os.environ, only, feed_settings)
    results = findings(context)
    for stream in refused:
        refusal = unread(stream.error, headline(stream.error), "correct the file", "E422")
        results.append(line_of("feed", refusal))
    wrong = sum(finding.state == "wrong" for finding in results)
    notes = sum(finding.state == "note" for finding in results)
    record = {"root": str(context.layout.root), "wrong": wrong, "notes": notes}
    record["findings"] = [finding.to_json() for finding in results]
    shown = [finding for finding in results if show_all or finding.state != "ok"]
    well = f", {len(results) - wrong - notes} ok" + ("" if show_all else " (--all shows them)")
    cli.result(record, "\n".join([*map(_line, shown), f"{wrong} wrong, {counted(notes, 'note')}{well}"]))
    if wrong:
        cli.fails(EXIT_BAD_DATA)


def _line(finding: DoctorFinding) -> str:
    code = f"{finding.code}: " if finding.code else ""
    text = f"{finding.state:<6}{finding.check + ':':<13}{code}{finding.what}"
    return text + (f"\n{'':<6}{'':<13}next: {finding.next}" if finding.next else "")
