"""The location index of a table's history: what its merge records say, as it stands in the tree, and all that stands.

An engine that finds an index believes it, and lists no directories. So an index that lacks a location hides its rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal

from sparkhaven.store.errors import FormatError, UnsupportedVersionError
from sparkhaven.store.format.index.tlmi import DEEPHAVEN, PARQUET, IndexEntry, decode_tlmi, encode_tlmi
from sparkhaven.store.format.parquet.location_files import NAME, in_parquet
from sparkhaven.store.format.table import table_size
from sparkhaven.store.layout import LocationKey
from sparkhaven.store.merges.history import DateHistory, load_history
from sparkhaven.store.merges.merge_records import MergeOutput, MergeRecord, lock_table
from sparkhaven.store.places import TablePlace
from sparkhaven.store.scan.seen_history import SeenDate, refuse_lost, see_table

Kind = Literal["lost", "damaged", "missing", "extra", "size", "format", "time"]
Entries = dict[LocationKey, IndexEntry]


@dataclass(frozen=True, slots=True)
class Difference:
    """``lost`` and ``damaged`` are the whole index, ``missing`` and ``extra`` an entry, the others a part of one."""

    kind: Kind
    key: LocationKey | None = None
    expected: str | None = None
    found: str | None = None


@dataclass(frozen=True, slots=True)
class IndexUpdate:
    """What an update has found, and whether it has ``written`` the index. ``entries``: as they are to be."""

    differences: tuple[Difference, ...]
    entries: Mapping[LocationKey, IndexEntry]
    written: bool = False


def entry_of(record: MergeRecord, output: MergeOutput) -> IndexEntry:
    key = LocationKey(output.internal, record.value)
    return IndexEntry(key, output.rows, record.time_ms, PARQUET if in_parquet(output.files) else DEEPHAVEN)


def seen_entries(place: TablePlace, *, lossless: bool = False) -> Entries:
    """The entries of all locations that readers see, each with the time of the merge that wrote it, or with its own.

    ``lossless``: raises what ``refuse_lost`` raises. Raises what ``see_table`` raises. UnsupportedVersionError: the
    rows of a location are not known.
    """
    entries: Entries = {}
    for seen in see_table(place):
        if lossless:
            refuse_lost(place, seen)
        entries |= entries_of(place, seen)
    return entries


def entries_of(place: TablePlace, seen: SeenDate) -> Entries:
    """The entries of the locations of one date."""
    if seen.unpublished:
        raise UnsupportedVersionError(
            "rows of a location are not known",
            where=place.history_location(seen.unpublished[0]),
            expected=f"{table_size.NAME}, or {NAME} alone",
            found=", ".join(place.fs.names(place.history_location(seen.unpublished[0]))[:3]) or "an empty directory",
            hint="nothing was written. Have the program that wrote the location publish it, or move it away",
        )
    entries: Entries = {}
    history = load_history(place, seen.value) if seen.record is not None else DateHistory(seen.value)
    entries |= recorded_entries(history, seen.outputs, seen.moved)
    for location in seen.unvouched:
        entries[location.key] = IndexEntry(
            location.key, location.rows, location.modified_ms, PARQUET if location.in_parquet else DEEPHAVEN
        )
    return entries


def recorded_entries(history: DateHistory, outputs: Iterable[MergeOutput], moved: Mapping[str, str]) -> Entries:
    """The entries of outputs of a date, each with the time of the merge that wrote it, under the name of ``moved``."""
    entries: Entries = {}
    for output in outputs:
        name = moved.get(output.internal, output.internal)
        writer = next(record for record in history.complete if any(o.internal == name for o in record.outputs))
        entries[LocationKey(output.internal, history.value)] = entry_of(writer, output)
    return entries


def stored_entries(place: TablePlace) -> Entries | None:
    """The entries of the index; None if there is no index. Raises what ``decode_tlmi`` raises."""
    path = place.metadata_index
    if place.fs.stat(path) is None:
        return None
    return dict(_decoded(place.fs.read(path), path))


@lru_cache(maxsize=1)  # who proves a year of dates asks for the same bytes a date
def _decoded(data: bytes, path: Path) -> Mapping[LocationKey, IndexEntry]:
    return {entry.key: entry for entry in decode_tlmi(data, path)}


def store_entries(place: TablePlace, entries: Entries) -> None:
    path = place.metadata_index
    place.fs.keep_dirs(path.parent, place.layout.root)
    place.fs.replace(path, encode_tlmi(entries.values()))


def differences(place: TablePlace, wanted: Entries) -> Iterator[Difference]:
    try:
        stored = stored_entries(place)
    except FormatError as error:
        yield Difference("damaged", expected=f"{len(wanted)} entries", found=error.what)
        return
    if stored is None:
        if wanted:
            yield Difference("lost", expected=f"{len(wanted)} entries", found="no index")
        return
    for key in sorted({*stored, *wanted}):
        entry, right = stored.get(key), wanted.get(key)
        if entry is None or right is None:
            kind: Kind = "missing" if entry is None else "extra"
            yield Difference(kind, key, _rows(right), _rows(entry))
            continue
        if entry.rows != right.rows:
            yield Difference("size", key, f"{right.rows} rows", f"{entry.rows} rows")
        if entry.format != right.format:
            yield Difference("format", key, right.format, entry.format)
        if entry.modified_ms != right.modified_ms:
            yield Difference("time", key, str(right.modified_ms), str(entry.modified_ms))


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


def _rows(entry: IndexEntry | None) -> str | None:
    return None if entry is None else f"{entry.rows} rows"
