"""Read-only commands that find damage: ``verify`` and ``inspect``."""

from __future__ import annotations

import csv
import sys
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from sparkhaven.jobs.cli.context import CliContext
from sparkhaven.jobs.cli.options import AnyTableArgument, help_end
from sparkhaven.readers.checks.verify import verify as verify_tables
from sparkhaven.readers.inspect.any_file import inspect_file
from sparkhaven.store.errors import EXIT_BAD_DATA
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.io.local_path import local_path
from sparkhaven.store.layout import TableName


def register(app: typer.Typer) -> None:
    app.command(epilog=help_end("verify Nyc13.Flight --deep", done="no damage", bad_data="damage was found"))(verify)
    line = "inspect db/Intraday/Nyc13/Flight/.streams/flights.log"
    app.command(epilog=help_end(line, done="no damage", bad_data="a file is damaged", usage="no such file"))(inspect)


def verify(
    ctx: typer.Context,
    name: AnyTableArgument = None,
    deep: Annotated[bool, typer.Option("--deep", help="Read every committed byte. Default: lengths only.")] = False,
) -> None:
    """Checks tables for damage, read-only.

    Looks at lengths, checksums, symbols, source positions and indexes.
    """
    cli: CliContext = ctx.obj
    table = TableName.parse(name) if name is not None else None
    progress = cli.note if cli.verbose else lambda _: None
    report = verify_tables(Fs(), cli.database(), table, deep=deep, progress=progress)
    ending = (
        f"{report.tables} tables, {report.streams} streams, {report.locations:,} locations, {report.rows:,} rows, "
        f"{report.bytes:,} bytes: {report.errors} errors, {len(report.findings) - report.errors} remarks"
    )
    cli.result(report.to_json(), "\n".join([*(finding.text() for finding in report.findings), ending]))
    if report.errors:
        raise typer.Exit(EXIT_BAD_DATA)


def inspect(
    ctx: typer.Context,
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE", parser=local_path, help="Files of a database, of any kind.")
    ],
    as_csv: Annotated[
        bool, typer.Option("--csv", help="Print CSV: file, name, value. Default: text, or JSON with --json.")
    ] = False,
) -> None:
    """Decodes single files, reports corruption by byte offset."""
    cli: CliContext = ctx.obj
    sound = True
    table = csv.writer(sys.stdout, lineterminator="\n")
    if as_csv and not cli.json:
        table.writerow(("file", "name", "value"))
    for path in files:
        inspection = inspect_file(Fs(), path)
        sound = sound and inspection.sound
        cli.result(
            inspection.to_json(),
            partial(table.writerows, inspection.cells()) if as_csv else "\n".join(inspection.lines()),
        )
    if not sound:
        raise typer.Exit(EXIT_BAD_DATA)
