"""What the ``metadata`` commands say of a Locations table, where the schema of a table asks for a tree with one."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from sparkhaven.jobs.cli.text_table import table
from sparkhaven.readers.arrow.opening import open_table
from sparkhaven.readers.arrow.snapshot import pinned_of
from sparkhaven.store.errors import TableNotFoundError
from sparkhaven.store.format.table.locations import LocationEntry
from sparkhaven.store.places import TablePlace
from sparkhaven.store.schema.deployed.deploy import load_deployed
from sparkhaven.store.types.datatypes import CHAR_NULL
from sparkhaven.store.types.model import TableSchema
from sparkhaven.writers.transfer.foreign_locations import ForeignLocations, has_foreign_locations, is_foreign
from sparkhaven.writers.transfer.locations import (
    LeafDifference,
    has_locations,
    location_differences,
    stored_locations,
    update_locations,
)


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


def listed(place: TablePlace) -> LocationsPart | None:
    """The rows of the Locations table; None for a table without such a tree."""
    if has_foreign_locations(place):
        return _listed(place, ForeignLocations(place).stored())
    schema = _schema(place)
    return None if schema is None else _listed(place, stored_locations(place, schema))


def _schema(place: TablePlace) -> TableSchema | None:
    """The deployed schema of a table with such a tree, which merges write."""
    try:
        schema = load_deployed(place)
    except TableNotFoundError:
        if is_foreign(place):
            return None
        raise
    return schema if has_locations(schema) else None


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
    words = "no Locations table" if stored is None else f"Locations table, {len(entries):,} leaves"
    record = {"index": stored is not None, "entries": entries}
    header = ("leaf", "date", "rows", "modified_ns", "format", "column_version")
    return LocationsPart(record, True, f"{place.table}: {words}", header)


def validated(place: TablePlace) -> LocationsPart | None:
    """Differences of the Locations table from the tree."""
    if has_foreign_locations(place):
        table = ForeignLocations(place)
        different = list(table.differences(table.on_disk()))
    else:
        schema = _schema(place)
        if schema is None:
            return None
        different = list(location_differences(place, schema))
    text = "right" if not different else f"{len(different):,} differences"
    return _differences(place, different, {}, text)


def updated(place: TablePlace, *, dry_run: bool) -> LocationsPart | None:
    """Writes the Locations table where it differs from the tree; the differences."""
    if has_foreign_locations(place):
        different, written = ForeignLocations(place).update(now_ms=int(time.time() * 1000), dry_run=dry_run)
        return _updated(place, different, written=written, dry_run=dry_run)
    schema = _schema(place)
    if schema is None:
        return None
    different, written = list(location_differences(place, schema)), False
    if different and not dry_run:
        opened = pinned_of(open_table(place.layout.root, str(place.table), null_char=CHAR_NULL, fs=place.fs))
        written = update_locations(place, opened, now_ms=int(time.time() * 1000))
    return _updated(place, different, written=written, dry_run=dry_run)


def _updated(place: TablePlace, different: list[LeafDifference], *, written: bool, dry_run: bool) -> LocationsPart:
    verb = "would be written" if dry_run else "written"
    text = f"{len(different):,} differences, {verb}" if different else "right, nothing to write"
    return _differences(place, different, {"written": written}, text)


def _differences(
    place: TablePlace, different: Iterable[LeafDifference], more: dict[str, Any], text: str
) -> LocationsPart:
    record = {"differences": [asdict(difference) for difference in different], **more}
    header = ("kind", "leaf", "date", "expected", "found")
    return LocationsPart(record, not record["differences"], f"{place.table}: Locations table, {text}", header)
