"""Read-only checks of whole tables: logs, locations, merge records, and stray files.

Shallow checks read records, prefixes and lengths. ``deep`` reads every committed byte: checksums, symbols, offsets,
values against statistics and grouping. A stream, merge, removal or rollback may run meanwhile. Uncommitted data of a
stream is a warning. An error is reported once a later look, with the state loaded anew, finds it again in that state.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path

from sparkhaven.readers.checks.column_values import Expected
from sparkhaven.readers.checks.directories import check_history_directories, check_intraday_directories
from sparkhaven.readers.checks.drop_records import damaged_drops
from sparkhaven.readers.checks.extended_tree import check_extended
from sparkhaven.readers.checks.findings import CheckFinding, Report, finding, from_error
from sparkhaven.readers.checks.location import check_location
from sparkhaven.readers.checks.location_index import check_index
from sparkhaven.readers.checks.published_size import LaterEpochs
from sparkhaven.readers.checks.stream_files import (
    check_beside,
    check_failures,
    check_head,
    check_log,
    check_positions,
    check_removals,
    check_withdrawn,
    stray_stream_files,
)
from sparkhaven.readers.checks.user_tables import check_user_table, undefined_tables
from sparkhaven.store import next_steps
from sparkhaven.store.epochs.files.published_size import record_bytes
from sparkhaven.store.epochs.reading.stream_state import list_streams, load_stream
from sparkhaven.store.epochs.recovery.set_aside import list_set_aside
from sparkhaven.store.epochs.recovery.witnesses import Witnesses
from sparkhaven.store.epochs.state.log_values import LocationState
from sparkhaven.store.epochs.state.replay import StreamState
from sparkhaven.store.errors import SparkhavenError
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import INTERNAL_NAMESPACE, Layout, LocationKey, TableName
from sparkhaven.store.merges import merge_records as merges
from sparkhaven.store.merges.merge_records import MergeOutput, MergeRecord
from sparkhaven.store.places import StreamPlace, TablePlace
from sparkhaven.store.scan.ranges import Stream
from sparkhaven.store.scan.seen_history import SeenDate, recorded_date, see_date, standing_values
from sparkhaven.store.scan.standing import dated_partitions
from sparkhaven.store.schema.deployed.deploy import load_deployed, standing_tables
from sparkhaven.store.schema.deployed.schema_versions import definitions
from sparkhaven.store.types.model import TableSchema
from sparkhaven.store.users.user_table import list_user_tables
from sparkhaven.store.volumes import require_volume

_Looked = dict[Path, tuple[Expected, Hashable, list[CheckFinding]]]

LOOKS = 4  # at a table with errors, at most
UNCONFIRMED = "the table changed while it was read, and only one look found this. Run `sparkhaven verify` again"


def verify(
    fs: Fs,
    layout: Layout,
    table: TableName | None = None,
    *,
    deep: bool = False,
    progress: Callable[[str], None] = lambda _: None,
) -> Report:
    """Checks one table or all; ``progress`` gets each location. Damage on disk is never raised.

    Log tables are checked with all others, and counted where one is named. TableNotFoundError for a table without any
    files.
    """
    report = Report()
    users = [name for name in list_user_tables(fs, layout) if table in (None, name)]
    for name in users:
        checked = check_user_table(TablePlace(fs, layout, name), deep=deep, progress=progress)
        report.findings += checked.findings
        report.count(checked)
    report.findings += damaged_drops(fs, layout, table)
    if table is None:
        report.findings += undefined_tables(fs, layout, users)
    if table is not None and table not in standing_tables(fs, layout):
        if users:
            return report
        load_deployed(TablePlace(fs, layout, table))  # raises: no such table
    for name in [table] if table else standing_tables(fs, layout):
        checked = _settled(TablePlace(fs, layout, name), deep=deep, progress=progress)
        report.findings += checked.findings
        if table is not None or name.namespace != INTERNAL_NAMESPACE:
            report.count(checked)
    return report


def _settled(place: TablePlace, *, deep: bool, progress: Callable[[str], None]) -> Report:
    """The last look at a table: one whose errors earlier looks have found in the same state, or the last of ``LOOKS``.

    Each look loads the state anew. Damage stays, what a command did after the state was loaded does not: an error that
    one look only has found is a warning. A location is read once in one state: damage that a second read would not
    meet is damage all the same.
    """
    looked: _Looked = {}
    known: set[Hashable] = set()
    for _ in range(LOOKS):
        check = _TableCheck(place, looked, deep=deep, progress=progress)
        findings = list(dict.fromkeys(check.run()))  # damage that two checks find is one finding
        sightings = {defect: check.sighting(defect) for defect in findings if defect.severity == "error"}
        new = {defect for defect, sighting in sightings.items() if sighting not in known}
        check.report.findings = [
            replace(defect, severity="warning", hint=UNCONFIRMED) if defect in new else defect for defect in findings
        ]
        if not new:
            break
        known.update(sightings.values())
    return check.report


class _TableCheck:
    """One look at a table: later steps use what earlier ones have loaded.

    ``looked``: by directory the state in which a location was last read, the definitions then, and what was found.
    """

    def __init__(self, place: TablePlace, looked: _Looked, *, deep: bool, progress: Callable[[str], None]) -> None:
        self._place, self.looked = place, looked
        self.deep, self.progress = deep, progress
        self.report = Report(tables=1)
        self.streams: list[StreamState] = []
        self.located: dict[LocationKey, LocationState] = {}
        self.records: dict[str, MergeRecord] = {}
        self.unfinished: dict[str, MergeRecord] = {}
        self.damaged: set[str] = set()  # dates with a record that cannot be read
        self.seen: dict[str, SeenDate] = {}
        self.definitions: frozenset[bytes] = frozenset()
        self.times: dict[str, set[int]] = {}
        self.aside: set[tuple[LocationKey, str]] = set()
        self.located_in: dict[CheckFinding, Hashable] = {}  # findings of locations: the state that each was found in

    def sighting(self, defect: CheckFinding) -> Hashable:
        """What a finding is about, and the state that it was found in. Details change while a stream appends."""
        return defect.path, defect.what, self.located_in.get(defect) or self._standing

    @cached_property
    def _standing(self) -> Hashable:
        """The state of the table apart from appends, which no finding depends on."""
        streams = ((s.stream, s.generation, s.rolled_back, _emptied(s)) for s in self.streams)
        phases = ((r.value, r.generation, r.phase) for r in (*self.records.values(), *self.unfinished.values()))
        return frozenset(streams), frozenset(phases), self.definitions

    def run(self) -> Iterator[CheckFinding]:
        place = self._place
        try:
            schema = load_deployed(place)
            self.definitions = frozenset(definitions(place).values())
        except (SparkhavenError, OSError) as error:
            yield from_error(error, place.schema)
            return
        yield from self._streams()
        yield from self._merges()
        yield from self._witnesses()
        yield from self._set_aside()
        for stream in self.streams:
            later = LaterEpochs(place, stream)
            for key in sorted(stream.locations):
                location = stream.locations[key]
                state = location.since, location.made_ms, location.truncated, stream.rolled_back
                expected = _intraday(self._place.of_stream(stream.stream), location)
                yield from self._location(schema, expected, state, later)
        yield from self._history(schema)
        yield from check_intraday_directories(place, self.located, self.aside)
        yield from check_history_directories(place, self.records, self.unfinished, self.seen)
        yield from check_index(place, self.records, self.seen, self.times, merging=bool(self.unfinished))
        yield from check_extended(place, schema, self.records, deep=self.deep)

    def _history(self, schema: TableSchema) -> Iterator[CheckFinding]:
        """The locations of history, where they stand."""
        dated = dated_partitions(self._place)
        for value in sorted(self.records.keys() | standing_values(self._place, dated.keys() - self.damaged, dated)):
            record = self.records.get(value)
            try:
                seen = see_date(self._place, value, record, dated)
            except (SparkhavenError, OSError) as error:
                yield from_error(error, self._place.partitions)
                seen = SeenDate(value, record) if record is None else recorded_date(record)
            self.seen[value] = seen
            generation = record.generation if record is not None else 0
            empty = () if record is None else (output for output in record.outputs if not output.rows)
            for output in (*seen.outputs, *seen.gone, *empty):
                yield from self._output(schema, LocationKey(output.internal, value), output, generation)
            for location in seen.unvouched:
                files, named = dict(location.files), location.named_by
                output = MergeOutput(location.key.internal, location.rows, files=files, named_by=named)
                yield from self._output(schema, location.key, output, generation, vouched=False)

    def _output(
        self, schema: TableSchema, key: LocationKey, output: MergeOutput, generation: int, *, vouched: bool = True
    ) -> Iterator[CheckFinding]:
        directory = self._place.history_location(key)
        try:
            require_volume(self._place.fs, directory)
        except SparkhavenError as error:
            yield from_error(error, directory)
            return
        committed, named = (output.rows, output.files, output.stats), output.named_by
        expected = Expected("history", directory, *committed, indexes=output.indexes, vouched=vouched, named_by=named)
        yield from self._location(schema, expected, (generation,))

    def _location(
        self, schema: TableSchema, expected: Expected, state: Hashable, later: LaterEpochs | None = None
    ) -> Iterator[CheckFinding]:
        """Findings of one location, each in its ``state``: that lasts while rows are only appended."""
        self.report.locations += 1
        self.report.rows += expected.rows
        self.report.bytes += sum(file.size for file in expected.files.values())
        before, versions, findings = self.looked.get(expected.directory, (None, None, []))
        if (before, versions) != (expected, self.definitions):
            self.progress(str(expected.directory))
            checked = check_location(self._place.fs, schema, expected, self.definitions, deep=self.deep, later=later)
            findings = list(checked)
            self.looked[expected.directory] = expected, self.definitions, findings
        self.located_in |= dict.fromkeys(findings, (state, self.definitions))
        yield from findings

    def _streams(self) -> Iterator[CheckFinding]:
        yield from stray_stream_files(self._place)
        yield from check_failures(self._place)
        for name in list_streams(self._place):
            self.report.streams += 1
            place = self._place.of_stream(name)
            try:
                state = load_stream(place, cached=False)
                yield from check_log(place)
                yield from check_head(place)
                yield from check_removals(place, state)
            except (SparkhavenError, OSError) as error:
                yield from_error(error, place.stream_log)
                continue
            self.streams.append(state)
            yield from check_beside(place, state)
            yield from check_positions(place, state)
            yield from check_withdrawn(place, state)
            for key, location in state.locations.items():
                if key in self.located:
                    yield finding(
                        "error",
                        self._place.intraday_location(key),
                        "two streams own this location",
                        expected="one",
                        found=f"{name} and another",
                        hint="roll one of the streams back. A location has one writer",
                    )
                self.located[key] = location

    def _witnesses(self) -> Iterator[CheckFinding]:
        """Files that name more than a commit log has. A stream with an unreadable log is reported before."""
        damaged = {*list_streams(self._place)} - {s.stream for s in self.streams}
        try:
            for witness in Witnesses(self._place, self.streams).all():
                if witness.stream not in damaged:
                    yield from_error(witness.error(), witness.path)
        except (SparkhavenError, OSError) as error:
            yield from_error(error, self._place.merges)

    def _set_aside(self) -> Iterator[CheckFinding]:
        try:
            for note in list_set_aside(self._place):
                self.aside.add((note.key, Path(note.path).name))
                yield finding(
                    "warning",
                    note.path,
                    f"{note.rows} rows of {note.internal}/{note.value}, stream {note.stream}, were set aside",
                    found=note.reason,
                    hint="reads of that date fail. To accept the loss, move it out of the database with its note",
                )
        except (SparkhavenError, OSError) as error:
            yield from_error(error, self._place.set_aside)

    def _merges(self) -> Iterator[CheckFinding]:
        for value in merges.all_values(self._place):
            directory = self._place.merges / value
            try:
                numbers = merges.generations(self._place, value)
                for number in numbers:
                    record = merges.load_record(self._place, value, number)
                    self.times.setdefault(value, set()).add(record.time_ms)
                    (self.records if record.complete else self.unfinished)[value] = record
            except (SparkhavenError, OSError) as error:
                yield from_error(error, directory)
                self.damaged.add(value)
                continue
            running = self.unfinished.get(value)
            if running and (value not in self.records or self.records[value].generation < running.generation):
                yield finding(
                    "note",
                    directory / f"{running.generation}.json",
                    f"a merge runs or was interrupted after phase {running.phase}",
                    hint=f"`{next_steps.merge(self._place.table, value)}` continues it",
                )
            if value in self.records:
                yield from self._proof(self.records[value], directory)
        emptied = {key.value for key, location in self.located.items() if location.truncated}
        for value in sorted(emptied - self.records.keys()):
            yield from_error(merges.record_missing(self._place, value), self._place.merges / value)

    def _proof(self, record: MergeRecord, directory: object) -> Iterator[CheckFinding]:
        path = f"{directory}/{record.generation}.json"
        if record.proof is None or not record.proof.holds:
            sums = record.proof and f"{record.proof.rows_in} in, {record.proof.rows_out} out"
            yield finding("error", path, "merge has no valid proof", expected="equal rows and digests", found=sums)
        streams: Mapping[str, Stream] = {stream.stream: stream for stream in self.streams}
        for taken in record.inputs:
            stream = streams.get(taken.stream)
            location = stream and stream.locations.get(LocationKey(taken.internal, record.value))
            if location and location.since == taken.since and not location.truncated and location.rows < taken.rows:
                yield finding(
                    "error",
                    path,
                    "rows were rolled back after their merge. Reads use only intraday",
                    at=f"source {taken.internal} of stream {taken.stream}",
                    expected=f"{taken.rows} rows",
                    found=f"{location.rows} rows",
                    hint="merge the date again with --rewrite",
                )


def _intraday(place: StreamPlace, location: LocationState) -> Expected:
    directory, published = place.intraday_location(location.key), record_bytes(place.stream, location)
    committed = location.rows, location.files, location.stats, location.epoch, location.truncated
    return Expected("intraday", directory, *committed, published, named_by=location.named_by)


def _emptied(stream: StreamState) -> frozenset[tuple[LocationKey, int]]:
    return frozenset((key, location.since) for key, location in stream.locations.items() if location.truncated)
