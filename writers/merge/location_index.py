"""Writes the location index of a table's history; ``readers.checks.history`` says what it is to have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sparkhaven.readers.checks.history import Difference, Entries, differences, seen_entries
from sparkhaven.store.format.index.tlmi import IndexEntry, encode_tlmi
from sparkhaven.store.layout import LocationKey
from sparkhaven.store.merges.merge_records import lock_table
from sparkhaven.store.places import TablePlace


@dataclass(frozen=True, slots=True)
class IndexUpdate:
    """What an update has found, and whether it has ``written`` the index. ``entries``: as they are to be."""

    differences: tuple[Difference, ...]
    entries: Mapping[LocationKey, IndexEntry]
    written: bool = False


def store_entries(place: TablePlace, entries: Entries) -> None:
    """Writes an index with these entries."""
    path = place.metadata_index
    place.fs.keep_dirs(path.parent, place.layout.root)
    place.fs.replace(path, encode_tlmi(entries.values()))


def update_index(place: TablePlace, *, dry_run: bool = False) -> IndexUpdate:
    """Writes the index where it differs. LockLostError: a merge is running."""
    if dry_run:
        return updated_index(place, seen_entries(place), write=False)
    with lock_table(place):
        return updated_index(place, seen_entries(place, lossless=True), write=True)


def updated_index(place: TablePlace, wanted: Entries, *, write: bool) -> IndexUpdate:
    """Compares the index with the entries that it is to have; ``write``: and writes it where it differs."""
    different = tuple(differences(place, wanted))
    if different and write:
        store_entries(place, wanted)
    return IndexUpdate(different, wanted, written=bool(different) and write)
