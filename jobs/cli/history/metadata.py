"""Commands on location indexes and Locations tables: ``metadata list|validate|update``."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from fnmatch import fnmatchcase
from functools import partial
from typing import Annotated, Any

import typer

from sparkhaven.jobs.cli.context import CliContext, report
from sparkhaven.jobs.cli.groups import group
from sparkhaven.jobs.cli.options import DryRun, help_end
from sparkhaven.jobs.cli.text_table import table
from sparkhaven.readers.checks.location_index import (
    Difference,
    differences,
    index_finding,
    is_merging,
    stored_entries,
)
from sparkhaven.store import next_steps
from sparkhaven.store.errors import EXIT_BAD_DATA, SparkhavenError, TableNotFoundError, counted
from sparkhaven.store.format.index.tlmi import IndexEntry
from sparkhaven.store.format.table.locations import LocationEntry
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout, TableName
from sparkhaven.store.merges.merge_records import all_values
from sparkhaven.store.places import TablePlace
from sparkhaven.store.schema.deployed.deploy import deployed_tables
from sparkhaven.writers.merge.location_index import IndexUpdate
from sparkhaven.writers.transfer.locations import (
    ForeignLocations,
    LeafDifference,
    LocationsTable,
    OwnLocations,
    foreign_tables,
    has_foreign_locations,
    is_foreign,
    update_entries,
    wanted_entries,
)

CODE_OF_LEAVES = "E264"


@dataclass(frozen=True, slots=True)
class LocationsPart:
    """A part of a command's result. ``right``: nothing differs."""

    record: dict[str, Any]
    right: bool
    text: str
    header: tuple[str, ...]

    def show(self) -> None:
        print(self.text)
        rows = self.record.get("differences", self.record.get("entries"))
        if rows:
            table(self.header, [[row[name] for name in self.header] for row in rows])


def locations_of(place: TablePlace) -> LocationsTable | None:
    """The Locations table of a table; None where it has no tree with one."""
    if has_foreign_locations(place):
        return ForeignLocations(place)
    try:
        return OwnLocations.of(place)
    except TableNotFoundError:
        if is_foreign(place):
            return None
        raise


def listed(place: TablePlace) -> LocationsPart | None:
    """The rows of the Locations table; None for a table without such a tree."""
    locations = locations_of(place)
    return None if locations is None else _listed(place, locations.stored())


def _listed(place: TablePlace, stored: Mapping[str, LocationEntry] | None) -> LocationsPart:
    entries = [
        {
            "leaf": entry.filename,
            "date": entry.value,
            "columns": {name: str(value) if value.is_valid else None for name, value in entry.columns},
            "rows": entry.rows,
            "modified_ns": entry.modified,
            "format": entry.format,
            "column_version": entry.version,
        }
        for entry in (stored or {}).values()
    ]
    words = "no Locations table" if stored is None else f"Locations table, leaves: {len(entries):,}"
    record = {"index": stored is not None, "entries": entries}
    header = ("leaf", "date", "rows", "modified_ns", "format", "column_version")
    return LocationsPart(record, True, f"{place.table}: {words}", header)


def validated(place: TablePlace) -> LocationsPart | None:
    """Differences of the Locations table from the tree."""
    locations = locations_of(place)
    if locations is None:
        return None
    different = list(locations.differences())
    text = "right" if not different else counted(len(different), "difference")
    return _differences(place, different, {}, text)


def updated(place: TablePlace, *, dry_run: bool) -> LocationsPart | None:
    """Writes the Locations table where it differs from the tree; the differences."""
    locations = locations_of(place)
    if locations is None:
        return None
    different = list(locations.differences()) if dry_run else locations.write(now_ms=int(time.time() * 1000))
    verb = "would be written" if dry_run else "written"
    text = f"{counted(len(different), 'difference')}, {verb}" if different else "right, nothing to write"
    return _differences(place, different, {"written": bool(different) and not dry_run}, text)


def _differences(
    place: TablePlace, different: Iterable[LeafDifference], more: dict[str, Any], text: str
) -> LocationsPart:
    lines = [{"code": CODE_OF_LEAVES, **asdict(difference)} for difference in different]
    record = {"differences": lines, **more}
    header = ("code", "kind", "leaf", "date", "expected", "found")
    return LocationsPart(record, not record["differences"], f"{place.table}: Locations table, {text}", header)


TablesArgument = Annotated[
    str | None, typer.Argument(metavar="[NS.T|NS|GLOB]", help="A table, a namespace, or a pattern like 'Nyc*.Fl*'.")
]


def register(app: typer.Typer) -> None:
    usage, damaged = "no such table", "damaged records, or a damaged index"
    metadata = group("List, validate and update location indexes and Locations tables.")
    metadata.command("list", epilog=help_end("metadata list Nyc13.Flight", usage=usage, bad_data=damaged))(list_)
    different = "an index differs from the merge records, or a Locations table from its tree"
    metadata.command(epilog=help_end("metadata validate Nyc13", usage=usage, bad_data=different))(validate)
    lines = "metadata update Nyc13.Flight --dry-run", "metadata update 'Nyc*.*'"
    metadata.command(epilog=help_end(*lines, usage=usage, bad_data="damaged records", retry="a merge runs"))(update)
    app.add_typer(metadata, name="metadata")


def list_(cli: CliContext, tables: TablesArgument = None) -> None:
    """Lists the entries of location indexes.

    Each has internal partition, date, rows, time of its merge, and format. For a table with a tree of type
    coreplus:hive the leaves of its Locations table are listed too.
    """

    def run(place: TablePlace) -> None:
        stored, locations = stored_entries(place), listed(place)
        entries = [_entry(entry) for _, entry in sorted((stored or {}).items())]
        header = ["internal", "date", "rows", "modified_ms", "format"]
        record = {"table": str(place.table), "index": stored is not None, "entries": entries}
        text = (
            f"{place.table}: {counted(len(entries), 'location')}" if stored is not None else f"{place.table}: no index"
        )

        def print_text() -> None:
            print(text)
            if entries:
                table(header, [[entry[column] for column in header] for entry in entries])
            if locations is not None:
                locations.show()

        cli.result(record | _record(locations), print_text)

    _each(cli, tables, run)


def validate(cli: CliContext, tables: TablesArgument = None) -> None:
    """Compares location indexes with the merge records.

    Those of history that other programs wrote are compared with its directories. An entry may be missing, extra, or
    have another size, format or time. Locations tables are compared with the trees that they belong to. Changes
    nothing.
    """

    def run(place: TablePlace) -> None:
        wanted = wanted_entries(place)
        index, locations = IndexUpdate(tuple(differences(place, wanted)), wanted), validated(place)
        text = "right" if not index.differences else counted(len(index.differences), "difference")
        _show(cli, place, index, {}, text, locations)
        if index.differences or not (locations is None or locations.right):
            cli.code = EXIT_BAD_DATA

    _each(cli, tables, run)


def update(cli: CliContext, tables: TablesArgument = None, dry_run: DryRun = False) -> None:
    """Writes location indexes from the merge records.

    Those of history that other programs wrote are written from its directories. Only where they differ. Locations
    tables are written from their trees. Reads and moves no data.
    """

    def run(place: TablePlace) -> None:
        done = update_entries(place, dry_run=dry_run)
        verb = "would be written" if dry_run else "written"
        text = (
            f"{counted(len(done.differences), 'difference')}, {verb}" if done.differences else "right, nothing to write"
        )
        more = {"written": done.written, "dry_run": dry_run}
        _show(cli, place, done, more, text, updated(place, dry_run=dry_run))

    _each(cli, tables, run)


def _each(cli: CliContext, words: str | None, run: Callable[[TablePlace], None]) -> None:
    """Does it for each table that is asked for; an error of one does not stop the others."""
    fs, layout = Fs(), cli.database()
    for name in _chosen(fs, layout, words):
        try:
            run(TablePlace(fs, layout, name))
        except SparkhavenError as error:
            cli.code = report(cli, error, table=str(name))


def _chosen(fs: Fs, layout: Layout, words: str | None) -> list[TableName]:
    deployed = deployed_tables(fs, layout)
    if named := [name for name in deployed if str(name) == words]:
        return named
    tables = sorted({*deployed, *foreign_tables(fs, layout)})
    if words is None:
        return tables
    pattern = words if "." in words else f"{words}.*"
    chosen = [name for name in tables if fnmatchcase(str(name), pattern)]
    if not chosen:
        raise TableNotFoundError(
            f"no table matches {words}",
            where=layout.root,
            expected="a table NS.T, a namespace NS, or a pattern with * and ?",
            found=", ".join(map(str, tables)) or "no tables",
            hint=next_steps.TABLES,
        )
    return chosen


def _show(
    cli: CliContext,
    place: TablePlace,
    index: IndexUpdate,
    more: Mapping[str, object],
    text: str,
    locations: LocationsPart | None,
) -> None:
    told = partial(index_finding, place, merging=is_merging(place), merged=bool(all_values(place)))
    lines = [{"code": told(difference).code, **_difference(difference)} for difference in index.differences]
    header = ["code", "kind", "internal", "date", "expected", "found"]

    def print_text() -> None:
        print(f"{place.table}: {counted(len(index.entries), 'location')}, {text}")
        if lines:
            table(header, [[line.get(column) for column in header] for line in lines])
        if locations is not None:
            locations.show()

    record = {"table": str(place.table), "entries": len(index.entries), "differences": lines, **more}
    cli.result(record | _record(locations), print_text)


def _record(locations: LocationsPart | None) -> dict[str, Any]:
    return {} if locations is None else {"locations": locations.record}


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
