"""Checks of what history consists of: merge records, dates as they stand, directories, and the location index."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from sparkhaven.readers.checks.findings import Finding, finding, from_error
from sparkhaven.readers.checks.location_index import Entries, differences, index_finding, known_entries
from sparkhaven.store.epochs.state.replay import StreamState
from sparkhaven.store.errors import SparkhavenError
from sparkhaven.store.format.parquet.location_files import NAME
from sparkhaven.store.format.table import table_size
from sparkhaven.store.layout import LocationKey
from sparkhaven.store.merges import merge_records as merges
from sparkhaven.store.merges.history import DateHistory
from sparkhaven.store.merges.merge_records import MergeRecord
from sparkhaven.store.places import TablePlace
from sparkhaven.store.scan.ranges import Stream
from sparkhaven.store.scan.seen_history import SeenDate, recorded_date, see_date, standing_values
from sparkhaven.store.scan.standing import dated_partitions


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
                    yield finding("W278", path, expected=f"{table_size.NAME}, or {NAME} alone", found=names)
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
