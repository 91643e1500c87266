"""Read-only commands that find damage and differences: ``verify``, ``inspect`` and ``compare``."""

from __future__ import annotations

import csv
import sys
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from sparkhaven.jobs.cli.context import CliContext, json_text, report
from sparkhaven.jobs.cli.options import AnyTableArgument, help_end
from sparkhaven.jobs.operations.comparing import ComparisonRequest, compare_roots
from sparkhaven.readers.checks.findings import Finding, finding, from_error
from sparkhaven.readers.checks.verify import verify as verify_tables
from sparkhaven.readers.compare import DateComparison, TableComparison
from sparkhaven.readers.inspect.any_file import inspect_file
from sparkhaven.store.errors import EXIT_BAD_DATA, FormatError, StorageError, counted
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.io.local_path import local_path
from sparkhaven.store.layout import TableName


def register(app: typer.Typer) -> None:
    app.command(epilog=help_end("verify Nyc13.Flight --deep", done="no damage", bad_data="damage was found"))(verify)
    line = "inspect db/Intraday/Nyc13/Flight/.streams/flights.log"
    app.command(epilog=help_end(line, done="no damage", bad_data="a file is damaged", usage="no such file"))(inspect)
    lines = "compare /backup/db", "compare /backup/db Nyc13.Flight --epochs flights=7..12"
    done, bad_data = "all rows are equal", "rows differ, damaged files"
    app.command(epilog=help_end(*lines, done=done, bad_data=bad_data, retry="rows were removed meanwhile"))(compare)


def verify(
    cli: CliContext,
    name: AnyTableArgument = None,
    deep: Annotated[bool, typer.Option("--deep", help="Read every committed byte. Default: lengths only.")] = False,
) -> None:
    """Checks tables for damage, read-only.

    Looks at lengths, checksums, symbols, source positions and indexes.
    """
    table = TableName.parse(name) if name is not None else None
    progress = cli.note if cli.verbose else lambda _: None
    report = verify_tables(Fs(), cli.database(), table, deep=deep, progress=progress)
    ending = (
        f"{counted(report.tables, 'table')}, {counted(report.streams, 'stream')}, "
        f"{counted(report.locations, 'location')}, {counted(report.rows, 'row')}, {counted(report.bytes, 'byte')}: "
        f"{counted(report.errors, 'error')}, {counted(len(report.findings) - report.errors, 'remark')}"
    )
    cli.result(report.to_json(), "\n".join([*(finding.text() for finding in report.findings), ending]))
    if report.errors:
        cli.fails(EXIT_BAD_DATA)


def inspect(
    cli: CliContext,
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE", parser=local_path, help="Files of a database, of any kind.")
    ],
    as_csv: Annotated[
        bool, typer.Option("--csv", help="Print CSV: file, name, value. Default: text, or JSON with --json.")
    ] = False,
) -> None:
    """Decodes single files, reports corruption by byte offset."""
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
        cli.fails(EXIT_BAD_DATA)


def compare(
    cli: CliContext,
    other_root: Annotated[
        Path, typer.Argument(metavar="OTHER_ROOT", parser=local_path, help="Database root to compare with.")
    ],
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NS.T]...", help="Default: all tables but log tables.")
    ] = None,
    every_row: Annotated[
        bool, typer.Option("--whole-rows", help="Read all rows of both roots, whatever digests are recorded.")
    ] = False,
    epochs: Annotated[
        str | None,
        typer.Option(
            "--epochs",
            metavar="[STREAM=]A..B",
            help="Only rows that these epochs have added to intraday. Needs one NS.T.",
        ),
    ] = None,
    named: Annotated[
        int, typer.Option(metavar="N", min=0, help="Most different rows that are named, of each side.")
    ] = 20,
) -> None:
    """Compares tables with those of another root, by digests.

    Order of rows, partitions and storage may differ. A digest is of whole rows, all columns together. Rows are read
    only where digests or checksums differ, or are not recorded.

    --epochs compares what a range of epochs of one stream has added, here and there. The epoch before it must be kept
    by both roots. Rows are read only where lengths or checksums in the commit logs differ, before the range or after.
    """
    asked = ComparisonRequest(names or (), every_row, epochs, named)
    progress = cli.note if cli.verbose else lambda _: None
    for done in compare_roots(cli.database(), other_root, asked, progress):
        name, error = str(done.table), done.error
        if error is not None:
            damage = {"code": from_error(error, "").code} if isinstance(error, FormatError | StorageError) else {}
            cli.code = report(cli, error, table=name, **damage)
        elif done.compared is None:
            findings = [finding("E361", done.table, found=f"only {done.only}").to_json()]
            record = {"table": name, "equal": False, "only": done.only, "findings": findings}
            cli.result(record, f"{name} is only {done.only}: different")
            cli.code = EXIT_BAD_DATA
        else:
            cli.result(_json(done.table, done.compared), "\n".join(_lines(done.table, done.compared)))
            cli.code = cli.code if done.equal else max(cli.code, EXIT_BAD_DATA)


def _json(table: TableName, compared: TableComparison) -> dict[str, Any]:
    return {
        "table": str(table),
        "equal": compared.equal,
        "epochs": dict(compared.epochs),
        "other_epochs": dict(compared.other_epochs),
        "columns": dict(compared.columns),
        "rows_read": compared.rows_read,
        "dates": [{**asdict(date), "equal": date.equal} for date in compared.dates],
        "differences": [asdict(row) for row in compared.differences],
        "findings": [_finding(table, date).to_json() for date in compared.dates if not date.equal],
    }


def _finding(table: TableName, date: DateComparison) -> Finding:
    here, there = (
        f"{counted(rows, 'row')}, {own:,} of them {side}"
        for rows, own, side in (
            (date.rows, date.only_here, "only here"),
            (date.other_rows, date.only_there, "only there"),
        )
    )
    return finding("E362", table, at=date.date, expected=here, found=there)


def _lines(table: TableName, compared: TableComparison) -> list[str]:
    rows, others = (sum(getattr(date, side) for date in compared.dates) for side in ("rows", "other_rows"))
    verdict = "equal" if compared.equal else "different"
    lines = [f"{table}: {verdict}, {counted(rows, 'row')} here, {others:,} there, {compared.rows_read:,} read"]
    lines += [f"  column {name}: {difference}" for name, difference in compared.columns.items()]
    lines += [f"  {_date(date)}" for date in compared.dates if not date.equal]
    for row in compared.differences:
        number = f"{row.date}, source {row.source}, row {row.row:,}"
        lines.append(f"  only {row.side}: {number}: {json_text(row.values)}")
    return lines


def _date(date: DateComparison) -> str:
    columns = ", ".join(name for name, equal in date.columns.items() if not equal) or "none by itself"
    sources = [source for source, equal in date.sources.items() if not all(equal.values())]
    parts = (
        f"{date.date}: {counted(date.only_here, 'row')} only here, {date.only_there:,} only there. Columns: {columns}"
    )
    return parts + (f". Sources: {', '.join(sources)}" if sources else "")
