"""Commands that look for damage and change nothing: ``verify`` and ``inspect``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from jobs.context import CliContext, Json, Verbose, example
from readers.checks.verify import verify as verify_tables
from readers.inspect.file import inspect_file
from store.errors import EXIT_BAD_DATA
from store.io.fs import Fs
from store.layout import TableName


def register(app: typer.Typer) -> None:
    """Adds the commands of this module."""
    app.command(epilog=example("verify Nyc13.Flight --deep"))(verify)
    app.command(epilog=example("inspect db/Intraday/Nyc13/Flight/.streams/flights.log"))(inspect)


def verify(
    ctx: typer.Context,
    name: Annotated[str | None, typer.Argument(metavar="[NS.T]", help="All tables unless told.")] = None,
    deep: Annotated[bool, typer.Option("--deep", help="Read every committed byte.")] = False,
    as_json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Lengths, checksums, symbols, positions, indexes; exit code 1 if something is damaged."""
    cli: CliContext = ctx.obj
    table = TableName.parse(name) if name is not None else None
    progress = cli.note if verbose else lambda _: None
    report = verify_tables(Fs(), cli.database(), table, deep=deep, progress=progress)
    ending = (
        f"{report.tables} tables, {report.streams} streams, {report.locations:,} locations, {report.rows:,} rows, "
        f"{report.bytes:,} bytes: {report.errors} errors, {len(report.findings) - report.errors} remarks"
    )
    cli.result(report.to_json(), "\n".join([*(found.text() for found in report.findings), ending]))
    if report.errors:
        raise typer.Exit(EXIT_BAD_DATA)


def inspect(
    ctx: typer.Context,
    files: Annotated[list[Path], typer.Argument(metavar="FILE", help="Files of the tree, of any kind.")],
    as_json: Json = False,
    verbose: Verbose = False,
) -> None:
    """What a file is and says, also when it is damaged: what is wrong, and at which byte; exit code 1 then."""
    cli: CliContext = ctx.obj
    sound = True
    for path in files:
        found = inspect_file(Fs(), path)
        sound = sound and found.sound
        cli.result(found.to_json(), "\n".join(found.lines()))
    if not sound:
        raise typer.Exit(EXIT_BAD_DATA)
