"""Commands on location indexes: ``metadata list|validate|update``."""

from __future__ import annotations

from collections.abc import Callable
from fnmatch import fnmatchcase
from typing import Annotated, Any

import typer

from sparkhaven.jobs.cli.context import CliContext, exit_with, report
from sparkhaven.jobs.cli.options import DryRun, group, help_end
from sparkhaven.jobs.cli.text_table import table
from sparkhaven.store.errors import EXIT_BAD_DATA, EXIT_DONE, SparkhavenError, TableNotFoundError
from sparkhaven.store.format.index.tlmi import IndexEntry
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout, TableName
from sparkhaven.store.places import TablePlace
from sparkhaven.store.schema.deployed.deploy import deployed_tables
from sparkhaven.writers.merge.location_index import (
    Difference,
    differences,
    recorded_entries,
    stored_entries,
    update_index,
)

TablesArgument = Annotated[
    str | None, typer.Argument(metavar="[NS.T|NS|GLOB]", help="A table, a namespace, or a pattern like 'Nyc*.Fl*'.")
]


def register(app: typer.Typer) -> None:
    usage, damaged = "no such table", "damaged records, or a damaged index"
    metadata = group("List, validate and update the location indexes of history.")
    metadata.command("list", epilog=help_end("metadata list Nyc13.Flight", usage=usage, bad_data=damaged))(list_)
    different = "an index differs from the merge records"
    metadata.command(epilog=help_end("metadata validate Nyc13", usage=usage, bad_data=different))(validate)
    lines = "metadata update Nyc13.Flight --dry-run", "metadata update 'Nyc*.*'"
    metadata.command(epilog=help_end(*lines, usage=usage, bad_data="damaged records", retry="a merge runs"))(update)
    app.add_typer(metadata, name="metadata")


def list_(ctx: typer.Context, tables: TablesArgument = None) -> None:
    """Lists the entries of location indexes.

    Each has internal partition, date, rows, time of its merge, and format.
    """
    cli: CliContext = ctx.obj

    def run(place: TablePlace) -> int:
        stored = stored_entries(place)
        entries = [_entry(entry) for _, entry in sorted((stored or {}).items())]
        header = ["internal", "date", "rows", "modified_ms", "format"]
        record = {"table": str(place.table), "index": stored is not None, "entries": entries}
        text = f"{place.table}: {len(entries):,} locations" if stored is not None else f"{place.table}: no index"

        def print_text() -> None:
            print(text)
            if entries:
                table(header, [[entry[column] for column in header] for entry in entries])

        cli.result(record, print_text)
        return EXIT_DONE

    _each(cli, tables, run)


def validate(ctx: typer.Context, tables: TablesArgument = None) -> None:
    """Compares location indexes with the merge records.

    An entry may be missing, extra, or have another size, format or time. Changes nothing.
    """
    cli: CliContext = ctx.obj

    def run(place: TablePlace) -> int:
        recorded = recorded_entries(place)
        different = list(differences(place, recorded))
        _show(
            cli,
            place.table,
            len(recorded),
            different,
            {},
            "right" if not different else f"{len(different):,} differences",
        )
        return EXIT_BAD_DATA if different else EXIT_DONE

    _each(cli, tables, run)


def update(ctx: typer.Context, tables: TablesArgument = None, dry_run: DryRun = False) -> None:
    """Writes location indexes from the merge records.

    Only where they differ. Reads and moves no data.
    """
    cli: CliContext = ctx.obj

    def run(place: TablePlace) -> int:
        done = update_index(place, dry_run=dry_run)
        verb = "would be written" if dry_run else "written"
        text = f"{len(done.differences):,} differences, {verb}" if done.differences else "right, nothing to write"
        _show(
            cli, place.table, len(done.entries), done.differences, {"written": done.written, "dry_run": dry_run}, text
        )
        return EXIT_DONE

    _each(cli, tables, run)


def _each(cli: CliContext, words: str | None, run: Callable[[TablePlace], int]) -> None:
    """Does it for each table that is asked for; an error of one does not stop the others."""
    fs, layout, code = Fs(), cli.database(), EXIT_DONE
    for name in _chosen(fs, layout, words):
        try:
            code = run(TablePlace(fs, layout, name)) or code
        except SparkhavenError as error:
            code = report(cli, error, table=str(name)) or code
    exit_with(code)


def _chosen(fs: Fs, layout: Layout, words: str | None) -> list[TableName]:
    deployed = deployed_tables(fs, layout)
    if words is None:
        return deployed
    pattern = words if "." in words else f"{words}.*"
    chosen = [name for name in deployed if fnmatchcase(str(name), pattern)]
    if not chosen:
        raise TableNotFoundError(
            f"no table matches {words}",
            where=layout.root,
            expected="a table NS.T, a namespace NS, or a pattern with * and ?",
            found=", ".join(map(str, deployed)) or "no tables",
            hint="`sparkhaven tables` lists the tables",
        )
    return chosen


def _show(
    cli: CliContext,
    name: TableName,
    entries: int,
    different: list[Difference] | tuple[Difference, ...],
    more: dict[str, object],
    text: str,
) -> None:
    listed = [_difference(difference) for difference in different]
    header = ["kind", "internal", "date", "expected", "found"]

    def print_text() -> None:
        print(f"{name}: {entries:,} locations, {text}")
        if listed:
            table(header, [[line.get(column) for column in header] for line in listed])

    cli.result({"table": str(name), "entries": entries, "differences": listed, **more}, print_text)


def _difference(difference: Difference) -> dict[str, Any]:
    key = difference.key
    location = {"internal": key and key.internal, "date": key and key.value}
    return {"kind": difference.kind, **location, "expected": difference.expected, "found": difference.found}


def _entry(entry: IndexEntry) -> dict[str, Any]:
    return {
        "internal": entry.key.internal,
        "date": entry.key.value,
        "rows": entry.rows,
        "modified_ms": entry.modified_ms,
        "format": entry.format,
    }
