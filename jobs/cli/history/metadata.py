"""Commands on location indexes and Locations tables: ``metadata list|validate|update``."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sized
from dataclasses import asdict, dataclass
from fnmatch import fnmatchcase
from functools import partial
from typing import Annotated, Any

import typer

from sparkhaven.jobs.cli.context import CliContext, report
from sparkhaven.jobs.cli.options import DryRun, group, help_end
from sparkhaven.jobs.cli.text_table import table
from sparkhaven.readers.checks.history import (
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
from sparkhaven.writers.merge.publish.staged_locations import IndexUpdate
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
ENTRY = ("internal", "date", "rows", "modified_ms", "format")
LEAF = ("leaf", "date", "rows", "modified_ns", "format", "column_version")
DIFFERENT_ENTRY = ("code", "kind", "internal", "date", "expected", "found")
DIFFERENT_LEAF = ("code", "kind", "leaf", "date", "expected", "found")


@dataclass(frozen=True, slots=True)
class Part:
    """What is said of a location index, or of a Locations table. ``right``: it ends no command with another code."""

    record: dict[str, Any]
    text: str
    header: tuple[str, ...]
    right: bool = True

    def show(self) -> None:
        print(self.text)
        rows = self.record["differences"] if "differences" in self.record else self.record["entries"]
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
    _each(cli, tables, _listed)


def validate(cli: CliContext, tables: TablesArgument = None) -> None:
    """Compares location indexes with the merge records.

    Those of history that other programs wrote are compared with its directories. An entry may be missing, extra, or
    have another size, format or time. Locations tables are compared with the trees that they belong to. Changes
    nothing.
    """
    _each(cli, tables, _validated)


def update(cli: CliContext, tables: TablesArgument = None, dry_run: DryRun = False) -> None:
    """Writes location indexes from the merge records.

    Those of history that other programs wrote are written from its directories. Only where they differ. Locations
    tables are written from their trees. Reads and moves no data.
    """
    _each(cli, tables, partial(_updated, dry_run=dry_run))


def _each(cli: CliContext, words: str | None, look: Callable[[TablePlace], Iterable[Part]]) -> None:
    """Shows each table that is asked for; an error of one does not stop the others."""
    fs, layout = Fs(), cli.database()
    for name in _chosen(fs, layout, words):
        try:
            parts = list(look(TablePlace(fs, layout, name)))
        except SparkhavenError as error:
            cli.code = report(cli, error, table=str(name))
            continue
        index, *locations = [part.record for part in parts]
        record = {"table": str(name), **index, **({"locations": locations[0]} if locations else {})}
        cli.result(record, lambda parts=parts: [part.show() for part in parts])  # type: ignore[misc]
        if not all(part.right for part in parts):
            cli.code = EXIT_BAD_DATA


def _listed(place: TablePlace) -> Iterator[Part]:
    stored, locations = stored_entries(place), locations_of(place)
    entries = [_entry(entry) for _, entry in sorted((stored or {}).items())]
    text = "no index" if stored is None else counted(len(entries), "location")
    yield Part({"index": stored is not None, "entries": entries}, f"{place.table}: {text}", ENTRY)
    if locations is not None:
        leaves = locations.stored()
        entries = [_leaf(entry) for entry in (leaves or {}).values()]
        text = "no Locations table" if leaves is None else f"Locations table, leaves: {len(entries):,}"
        yield Part({"index": leaves is not None, "entries": entries}, f"{place.table}: {text}", LEAF)


def _validated(place: TablePlace) -> Iterator[Part]:
    wanted = wanted_entries(place)
    index, locations = IndexUpdate(tuple(differences(place, wanted)), wanted), locations_of(place)
    text = "right" if not index.differences else counted(len(index.differences), "difference")
    yield _of_index(place, index, {}, text, right=not index.differences)
    if locations is not None:
        different = list(locations.differences())
        text = "right" if not different else counted(len(different), "difference")
        yield _of_locations(place, different, {}, text, right=not different)


def _updated(place: TablePlace, *, dry_run: bool) -> Iterator[Part]:
    def text(different: Sized) -> str:
        verb = "would be written" if dry_run else "written"
        return f"{counted(len(different), 'difference')}, {verb}" if different else "right, nothing to write"

    done = update_entries(place, dry_run=dry_run)
    yield _of_index(place, done, {"written": done.written, "dry_run": dry_run}, text(done.differences))
    if (locations := locations_of(place)) is not None:
        different = list(locations.differences()) if dry_run else locations.write(now_ms=int(time.time() * 1000))
        yield _of_locations(place, different, {"written": bool(different) and not dry_run}, text(different))


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


def _of_index(
    place: TablePlace, index: IndexUpdate, more: Mapping[str, object], text: str, *, right: bool = True
) -> Part:
    told = partial(index_finding, place, merging=is_merging(place), merged=bool(all_values(place)))
    lines = [{"code": told(difference).code, **_difference(difference)} for difference in index.differences]
    record = {"entries": len(index.entries), "differences": lines, **more}
    return Part(record, f"{place.table}: {counted(len(index.entries), 'location')}, {text}", DIFFERENT_ENTRY, right)


def _of_locations(
    place: TablePlace, different: Iterable[LeafDifference], more: Mapping[str, object], text: str, *, right: bool = True
) -> Part:
    lines = [{"code": CODE_OF_LEAVES, **asdict(difference)} for difference in different]
    return Part({"differences": lines, **more}, f"{place.table}: Locations table, {text}", DIFFERENT_LEAF, right)


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


def _leaf(entry: LocationEntry) -> dict[str, Any]:
    return {
        "leaf": entry.filename,
        "date": entry.value,
        "columns": {name: str(value) if value.is_valid else None for name, value in entry.columns},
        "rows": entry.rows,
        "modified_ns": entry.modified,
        "format": entry.format,
        "column_version": entry.version,
    }
