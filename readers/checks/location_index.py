"""The location index of a table's history: what it is to have, and how it differs.

It has what merge records say, as it stands in the tree, and all else that stands. An engine that finds an index
believes it, and lists no directories. So an index that lacks a location hides its rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal

from sparkhaven.readers.checks.findings import Finding, finding
from sparkhaven.store.errors import FormatError, UnsupportedVersionError
from sparkhaven.store.format.index.tlmi import DEEPHAVEN, PARQUET, IndexEntry, decode_tlmi
from sparkhaven.store.format.parquet.location_files import NAME, in_parquet
from sparkhaven.store.format.table import table_size
from sparkhaven.store.layout import LocationKey
from sparkhaven.store.merges.history import DateHistory, load_history
from sparkhaven.store.merges.merge_records import MergeOutput, MergeRecord, all_values, newest
from sparkhaven.store.places import TablePlace
from sparkhaven.store.scan.seen_history import SeenDate, refuse_lost, see_table

Kind = Literal["lost", "damaged", "missing", "extra", "size", "format", "time"]
Entries = dict[LocationKey, IndexEntry]
CODES: Mapping[Kind, str] = {"lost": "E261", "damaged": "E201", "time": "E263"}  # of the others E262


@dataclass(frozen=True, slots=True)
class Difference:
    """``lost`` and ``damaged`` are the whole index, ``missing`` and ``extra`` an entry, the others a part of one."""

    kind: Kind
    key: LocationKey | None = None
    expected: str | None = None
    found: str | None = None


def entry_of(record: MergeRecord, output: MergeOutput) -> IndexEntry:
    """The entry of one output of a merge."""
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
    """The entries of one date. Raises as ``seen_entries``."""
    if seen.unpublished:
        raise UnsupportedVersionError(
            "rows of a location are not known",
            where=place.history_location(seen.unpublished[0]),
            expected=f"{table_size.NAME}, or {NAME} alone",
            found=", ".join(place.fs.names(place.history_location(seen.unpublished[0]))[:3]) or "an empty directory",
            hint="nothing was written. Have the program that wrote the location publish it, or move it away",
        )
    return known_entries(seen, load_history(place, seen.value) if seen.record is not None else DateHistory(seen.value))


def known_entries(seen: SeenDate, history: DateHistory) -> Entries:
    """The entries of those locations of a date whose rows are known."""
    entries: Entries = {}
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


def differences(place: TablePlace, wanted: Entries) -> Iterator[Difference]:
    """How the index differs from the entries that it is to have."""
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


def _rows(entry: IndexEntry | None) -> str | None:
    return None if entry is None else f"{entry.rows} rows"


def is_merging(place: TablePlace) -> bool:
    """Whether a merge of any date runs, or was killed: it writes the index before it ends."""
    return any((last := newest(place, value, complete=False)) and not last.complete for value in all_values(place))


def index_finding(place: TablePlace, different: Difference, *, merging: bool, merged: bool = True) -> Finding:
    """A difference as a finding.

    Args:
        place: The table.
        different: The difference.
        merging: A merge runs or was killed, so the index is not written yet.
        merged: A merge of the table has written an index.

    Returns:
        The finding: a warning while a merge is under way, and where no merge has written an index.
    """
    code = CODES.get(different.kind, "E262")
    if code in ("E261", "E262") and (merging or not merged):
        code = f"W{code[1:]}" if merging or code == "E261" else code
    key, path = different.key, place.metadata_index
    partition = key and f"internal partition {key.internal}, {key.value}"
    what = f"location index is damaged: {different.found}" if different.kind == "damaged" else None
    wanted, there = (part or "no entry" for part in (different.expected, different.found))
    hint = finding("E262", path, table=place.table).hint
    return finding(code, path, what, at=partition, expected=wanted, found=there, hint=hint)
