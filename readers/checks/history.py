"""Checks of what history consists of: merge records, dates as they stand, directories, and the location index.

The index has what merge records say, as it stands in the tree, and all else that stands. An engine that finds an index
believes it, and lists no directories. So an index that lacks a location hides its rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Literal

from sparkhaven.readers.checks.findings import Finding, finding, from_error
from sparkhaven.store.epochs.state.replay import StreamState
from sparkhaven.store.errors import FormatError, SparkhavenError, UnsupportedVersionError
from sparkhaven.store.format.index.tlmi import DEEPHAVEN, PARQUET, IndexEntry, decode_tlmi
from sparkhaven.store.format.table import table_size
from sparkhaven.store.layout import PARQUET as PARQUET_FILE
from sparkhaven.store.layout import LocationKey, in_parquet
from sparkhaven.store.merges import merge_records as merges
from sparkhaven.store.merges.history import DateHistory, load_history
from sparkhaven.store.merges.merge_records import MergeOutput, MergeRecord, all_values, newest
from sparkhaven.store.places import TablePlace
from sparkhaven.store.scan.ranges import Stream
from sparkhaven.store.scan.seen_history import (
    SeenDate,
    recorded_date,
    refuse_lost,
    see_date,
    see_table,
    standing_values,
)
from sparkhaven.store.scan.standing import dated_partitions

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
            expected=f"{table_size.NAME}, or {PARQUET_FILE} alone",
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


@dataclass(slots=True)
class HistoryState:
    """The history of a table, as one look has loaded it.

    ``records``: by date the newest complete one; ``unfinished``: the newest one that is not complete. ``damaged``:
    dates with a record that cannot be read. ``seen``: dates as they stand.
    """

    place: TablePlace
    histories: dict[str, DateHistory] = field(default_factory=dict)
    damaged: set[str] = field(default_factory=set)
    seen: dict[str, SeenDate] = field(default_factory=dict)

    @property
    def records(self) -> dict[str, MergeRecord]:
        """The record of each date that decides what is read."""
        return {value: record for value, known in self.histories.items() if (record := known.current) is not None}

    @property
    def unfinished(self) -> dict[str, MergeRecord]:
        """The merges that are not complete."""
        pending = ((value, [r for r in known.records if not r.complete]) for value, known in self.histories.items())
        return {value: records[-1] for value, records in pending if records}

    def check_records(self, streams: Iterable[StreamState]) -> Iterator[Finding]:
        """Loads the merge records, and checks them and their proofs against the streams that they took from."""
        states = {stream.stream: stream for stream in streams}
        for value in merges.all_values(self.place):
            directory = self.place.merges / value
            known: list[MergeRecord] = []
            try:
                for number in merges.generations(self.place, value):
                    known.append(merges.load_record(self.place, value, number))  # noqa: PERF401  kept where one fails
            except (SparkhavenError, OSError) as error:
                yield from_error(error, directory)
                self.damaged.add(value)
            self.histories[value] = history = DateHistory(value, tuple(known))
            if value in self.damaged:
                continue
            last = history.last
            if last is not None and not last.complete:
                yield finding("N273", directory / f"{last.generation}.json", phase=last.phase)
            if history.current is not None:
                yield from _proof(history.current, f"{directory}/{history.current.generation}.json", states)
        located = (item for stream in states.values() for item in stream.locations.items())
        emptied = {key.value for key, location in located if location.truncated}
        for value in sorted(emptied - self.records.keys()):
            yield from_error(merges.record_missing(self.place, value), self.place.merges / value, "E274")

    def look(self) -> Iterator[Finding]:
        """Sees every date as it stands."""
        place, records = self.place, self.records
        dated = dated_partitions(place)
        for value in sorted(records.keys() | standing_values(place, dated.keys() - self.damaged, dated)):
            record = records.get(value)
            try:
                self.seen[value] = see_date(place, value, record, dated)
            except (SparkhavenError, OSError) as error:
                yield from_error(error, place.partitions)
                self.seen[value] = SeenDate(value, None) if record is None else recorded_date(record)

    def check_directories(self) -> Iterator[Finding]:
        """Directories of history that no merge record names, and broken links of storage partitions."""
        place, root, records = self.place, self.place.partitions, self.records
        current = {LocationKey(out.internal, value) for value, r in records.items() for out in r.outputs}
        standing: set[LocationKey] = set()
        unpublished: set[LocationKey] = set()
        for seen in self.seen.values():
            current |= {LocationKey(internal, seen.value) for internal in seen.moved}
            standing |= {location.key for location in seen.unvouched}
            unpublished |= set(seen.unpublished)
            yield from _differing(place, seen)
        coming = {LocationKey(out.internal, value) for value, r in self.unfinished.items() for out in r.outputs}
        for internal in place.fs.names(root):
            for value in place.fs.names(root / internal):
                path = root / internal / value / place.table.table
                key = LocationKey(internal, value)
                if key in current or key in standing or place.fs.stat(path) is None:
                    continue
                if key in unpublished:
                    names = ", ".join(place.fs.names(path)[:3]) or "an empty directory"
                    yield finding("W278", path, expected=f"{table_size.NAME}, or {PARQUET_FILE} alone", found=names)
                elif key in coming:
                    yield finding("N279", path)
                elif value in records:
                    yield finding("N280", path, table=place.table)
        writable = place.layout.writable_partitions(place.table.namespace)
        for name in place.fs.names(writable):
            if place.fs.stat(writable / name) is None:
                yield finding("E236", writable / name)

    def check_index(self) -> Iterator[Finding]:
        """The location index against the dates as they stand."""
        wanted: Entries = {}
        for value, seen in self.seen.items():
            wanted |= known_entries(seen, self.histories.get(value, DateHistory(value)))
        merging, merged = bool(self.unfinished), bool(self.records)
        try:
            for different in differences(self.place, wanted):
                yield index_finding(self.place, different, merging=merging, merged=merged)
        except (SparkhavenError, OSError) as error:
            yield from_error(error, self.place.metadata_index)


def _differing(place: TablePlace, seen: SeenDate) -> Iterator[Finding]:
    """Locations of a date that were moved or added by other means than a command."""
    for internal, before in seen.moved.items():
        where = place.history_location(LocationKey(internal, seen.value))
        yield finding("N275", where, before=before)
    for location in seen.unvouched:
        where = place.history_location(location.key)
        yield finding("W276", where, expected=f"a record in {place.merges / seen.value}", found="none")
        for column in location.lost:
            yield finding("W277", where / f"{column}.dat", column=column)


def _proof(record: MergeRecord, path: str, streams: Mapping[str, Stream]) -> Iterator[Finding]:
    """The proof of a complete merge, and that its rows are still those of the streams."""
    yield from check_proof(record, path)
    for taken in record.inputs:
        stream = streams.get(taken.stream)
        location = stream and stream.locations.get(LocationKey(taken.internal, record.value))
        if location and location.since == taken.since and not location.truncated and location.rows < taken.rows:
            source = f"source {taken.internal} of stream {taken.stream}"
            yield finding("E272", path, at=source, expected=f"{taken.rows} rows", found=f"{location.rows} rows")


def check_proof(record: MergeRecord, path: object) -> Iterator[Finding]:
    """A complete merge has a proof that holds."""
    if record.complete and (record.proof is None or not record.proof.holds):
        sums = record.proof and f"{record.proof.rows_in} in, {record.proof.rows_out} out"
        yield finding("E271", path, expected="equal rows and digests", found=sums)
