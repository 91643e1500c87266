"""The command ``doctor``: runs every check and names the next command to run."""

from __future__ import annotations

import os
import socket
import time
from typing import Annotated

import typer

from sparkhaven.jobs.context import CliContext
from sparkhaven.jobs.doctor.dates import dates
from sparkhaven.jobs.doctor.finding import Check, CheckContext, Finding, Found, checked, headline
from sparkhaven.jobs.doctor.locks import locks
from sparkhaven.jobs.doctor.machine import jdk, spark, versions
from sparkhaven.jobs.doctor.quarantine import quarantined
from sparkhaven.jobs.doctor.schemas import schemas
from sparkhaven.jobs.doctor.streams import clock, epochs, lag, logs
from sparkhaven.jobs.doctor.tables import tables
from sparkhaven.jobs.doctor.volumes import file_systems, free_space
from sparkhaven.jobs.options import Json, OldFeedOption, TableAndFilesArgument, Verbose, help_end, table_and_files
from sparkhaven.jobs.streams.starting import load_streams
from sparkhaven.store.errors import EXIT_BAD_DATA, TableNotFoundError
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import TableName
from sparkhaven.store.schema.deployed.deploy import deployed_tables

CHECKS: dict[str, Check] = {
    "versions": versions,
    "spark": spark,
    "jdk": jdk,
    "file system": file_systems,
    "free space": free_space,
}
OF_DATA: dict[str, Check] = {
    "schemas": schemas,
    "logs": logs,
    "streams": epochs,
    "locks": locks,
    "lag": lag,
    "clock": clock,
    "dates": dates,
    "quarantine": quarantined,
}


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
            Finding("feed", "wrong", headline(one.error), getattr(one.error, "hint", None) or "correct the file")
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


def findings(context: CheckContext) -> list[Finding]:
    """All findings, in the order of the checks."""
    return [*of_machine(context), *of_data(context, verified=True)]


def of_machine(context: CheckContext) -> list[Finding]:
    """The findings about machine and volumes; they start the JDK to ask its version."""
    return [each for name, check in CHECKS.items() for each in checked(name, check, context)]


def of_data(context: CheckContext, *, verified: bool = False) -> list[Finding]:
    """The findings about the root, its streams and dates. ``verified``: also of tables, which takes longest."""
    if context.fs.stat(context.layout.root) is None:
        what = f"{context.layout.root} does not exist: ingest creates it"
        return [Finding("root", "note", what, context.command("ingest", "STREAM.toml"))]
    found = checked("root", _root, context)
    if not any(each.state == "wrong" for each in found):
        checks = OF_DATA | ({"tables": tables} if verified else {})
        found += [each for name, check in checks.items() for each in checked(name, check, context)]
    return found


def _root(context: CheckContext) -> list[Found]:
    tables = deployed_tables(context.fs, context.layout)
    missing = [name for name in context.only if name not in tables]
    if missing:
        raise TableNotFoundError(
            f"no table {missing[0]}", where=context.layout.root, found=", ".join(map(str, tables)) or "no table",
            hint=context.command("stats"),
        )  # fmt: skip
    return [("ok", f"{context.layout.root} has {len(tables):,} tables", None)]


def _line(found: Finding) -> str:
    text = f"{found.state:<6}{found.check + ':':<13}{found.what}"
    return text + (f"\n{'':<6}{'':<13}next: {found.next}" if found.next else "")
