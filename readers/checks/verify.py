"""Read-only checks of whole tables: logs, locations, merge records, user tables, and stray files.

Shallow checks read records, prefixes and lengths. ``deep`` reads every committed byte: checksums, symbols, offsets,
values against statistics and grouping. A stream, merge, removal or rollback may run meanwhile. Uncommitted data of a
stream is a warning. An error is reported once a later look, with the state loaded anew, finds it again in that state.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from pathlib import Path

from sparkhaven.readers.checks.committed import Expected, history_locations, intraday_locations, saved_locations
from sparkhaven.readers.checks.extended_tree import check_extended
from sparkhaven.readers.checks.findings import Finding, Report, finding, from_error, weaker
from sparkhaven.readers.checks.history import HistoryState
from sparkhaven.readers.checks.location import LaterEpochs, check_location
from sparkhaven.readers.checks.stream_files import (
    check_beside,
    check_failures,
    check_head,
    check_intraday_directories,
    check_log,
    check_positions,
    check_removals,
    check_withdrawn,
    check_witnesses,
    stray_stream_files,
)
from sparkhaven.store.epochs.reading.stream_state import list_streams, load_stream
from sparkhaven.store.epochs.state.replay import StreamState
from sparkhaven.store.errors import SparkhavenError
from sparkhaven.store.format.table import table_size
from sparkhaven.store.format.table.tbl import decode_tbl, definition_name, encode_tbl
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import INTERNAL_NAMESPACE, Layout, LocationKey, TableName
from sparkhaven.store.merges.dropped_tables import drop_numbers, drop_path, dropped_tables, load_drop
from sparkhaven.store.places import TablePlace
from sparkhaven.store.scan.standing import dated_in
from sparkhaven.store.schema.deployed.deploy import definitions, load_deployed, standing_tables
from sparkhaven.store.types.committed_columns import UNKNOWN
from sparkhaven.store.types.model import TableSchema
from sparkhaven.store.user_tables import (
    DEFINITION,
    UserTable,
    intraday_location,
    list_user_tables,
    load_user_table,
    published,
    user_directories,
)
from sparkhaven.store.volumes import require_volume

_Looked = dict[Path, tuple[Expected, Hashable, list[Finding]]]

LOOKS = 4  # at a table with errors, or that is saved meanwhile, at most
UNCONFIRMED = str(finding("W291", "").hint)
SAVED_RESTORE = "restore the file from a copy, or save the table again with mode replace"
NEXT_SAVE = "the next save of the table removes it"
OTHERS = "restore the file from a copy, or from the program that writes it"


def verify(
    fs: Fs,
    layout: Layout,
    table: TableName | None = None,
    *,
    deep: bool = False,
    progress: Callable[[str], None] = lambda _: None,
) -> Report:
    """Checks one table or all; damage on disk is never raised.

    Log tables are checked with all others, and counted where one is named.

    Args:
        fs: The file system.
        layout: The database root.
        table: One table. None: all.
        deep: Reads every committed byte.
        progress: Gets the directory of each location.

    Returns:
        The findings, and what was looked at.

    Raises:
        TableNotFoundError: The table has no files.

    Example:
        >>> verify(Fs(), Layout("/data/db")).errors  # doctest: +SKIP
        0
    """
    report = verify_users(fs, layout, table, deep=deep, progress=progress)
    if table is not None and table not in standing_tables(fs, layout):
        if table in list_user_tables(fs, layout):
            return report
        load_deployed(TablePlace(fs, layout, table))  # raises: no such table
    for name in [table] if table else standing_tables(fs, layout):
        checked = _settled(TablePlace(fs, layout, name), deep=deep, progress=progress)
        report.findings += checked.findings
        if table is not None or name.namespace != INTERNAL_NAMESPACE:
            report.count(checked)
    if table is None:
        report.findings += _without_schema(fs, layout)
    return report


def _without_schema(fs: Fs, layout: Layout) -> Iterator[Finding]:
    """The first location of each table of which nothing but history stands: its schema was not copied with it."""
    known = {str(name) for name in (*standing_tables(fs, layout), *dropped_tables(fs, layout))}
    for namespace in fs.names(layout.root / "Systems"):
        root = layout.partitions(namespace)
        dates = (root / internal / value for value, internals in dated_in(fs, root).items() for internal in internals)
        for directory, name in ((date, name) for date in dates for name in fs.names(date)):
            table = f"{namespace}.{name}"
            if table not in known and name[0] != "." and fs.is_dir(directory / name) and fs.names(directory / name):
                known.add(table)
                yield finding("W282", directory / name, table=table)


def verify_users(
    fs: Fs,
    layout: Layout,
    table: TableName | None = None,
    *,
    deep: bool = False,
    progress: Callable[[str], None] = lambda _: None,
) -> Report:
    """Checks what is of no stream and no merge: user tables, and the records of dropped tables; of one table or all."""
    report = Report()
    users = [name for name in list_user_tables(fs, layout) if table in (None, name)]
    for name in users:
        checked = _user_table(TablePlace(fs, layout, name), deep=deep, progress=progress)
        report.findings += checked.findings
        report.count(checked)
    report.findings += _drops(fs, layout, table)
    if table is None:
        report.findings += _undefined(fs, layout, users)
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
        check.report.findings = [weaker(defect, "W291") if defect in new else defect for defect in findings]
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
        self.located: dict[LocationKey, str] = {}
        self.history = HistoryState(place)
        self.definitions: frozenset[bytes] = frozenset()
        self.located_in: dict[Finding, Hashable] = {}  # findings of locations: the state that each was found in

    def sighting(self, defect: Finding) -> Hashable:
        """What a finding is about, and the state that it was found in. Details change while a stream appends."""
        return defect.path, defect.what, self.located_in.get(defect) or self._standing

    @cached_property
    def _standing(self) -> Hashable:
        """The state of the table apart from appends, which no finding depends on."""
        streams = ((s.stream, s.generation, s.rolled_back, _emptied(s)) for s in self.streams)
        records = (*self.history.records.values(), *self.history.unfinished.values())
        phases = ((r.value, r.generation, r.phase) for r in records)
        return frozenset(streams), frozenset(phases), self.definitions

    def run(self) -> Iterator[Finding]:
        """Everything that a table has, once."""
        place, history = self._place, self.history
        try:
            schema = load_deployed(place)
            self.definitions = frozenset(definitions(place).values())
        except (SparkhavenError, OSError) as error:
            yield from_error(error, place.schema)
            return
        yield from self._streams()
        yield from history.check_records(self.streams)
        yield from check_witnesses(place, self.streams)
        for stream in self.streams:
            later = LaterEpochs(place, stream)
            for location, expected in intraday_locations(place, stream):
                state = location.since, location.made_ms, location.truncated, stream.rolled_back
                yield from self._location(schema, expected, state, later)
        yield from history.look()
        for seen in history.seen.values():
            generation = seen.record.generation if seen.record is not None else 0
            for expected in history_locations(place, seen):
                yield from self._output(schema, expected, generation)
        yield from check_intraday_directories(place, self.located)
        yield from history.check_directories()
        yield from history.check_index()
        yield from check_extended(place, schema, history.records, deep=self.deep)

    def _output(self, schema: TableSchema, expected: Expected, generation: int) -> Iterator[Finding]:
        try:
            require_volume(self._place.fs, expected.directory)
        except SparkhavenError as error:
            yield from_error(error, expected.directory, "E235")
        else:
            yield from self._location(schema, expected, (generation,))

    def _location(
        self, schema: TableSchema, expected: Expected, state: Hashable, later: LaterEpochs | None = None
    ) -> Iterator[Finding]:
        """Findings of one location, each in its ``state``: that lasts while rows are only appended."""
        _count(self.report, expected)
        before, versions, findings = self.looked.get(expected.directory, (None, None, []))
        if (before, versions) != (expected, self.definitions):
            self.progress(str(expected.directory))
            checked = check_location(self._place.fs, schema, expected, self.definitions, deep=self.deep, later=later)
            findings = list(checked)
            self.looked[expected.directory] = expected, self.definitions, findings
        self.located_in |= dict.fromkeys(findings, (state, self.definitions))
        yield from findings

    def _streams(self) -> Iterator[Finding]:
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
            for key in state.locations:
                if key in self.located:
                    where, both = self._place.intraday_location(key), f"{name} and {self.located[key]}"
                    yield finding("E233", where, expected="one", found=both)
                self.located[key] = name


def _emptied(stream: StreamState) -> frozenset[tuple[LocationKey, int]]:
    return frozenset((key, location.since) for key, location in stream.locations.items() if location.truncated)


def _count(report: Report, expected: Expected) -> None:
    report.locations += 1
    report.rows += expected.rows
    report.bytes += sum(file.size for file in expected.files.values())


def _drops(fs: Fs, layout: Layout, table: TableName | None) -> Iterator[Finding]:
    """Damage of the records of dropped tables. A later record is the witness of those before it.

    Where the last one is lost, the files that it stands for are those of a table without a schema.
    """
    for name in dropped_tables(fs, layout):
        if table not in (None, name):
            continue
        place = TablePlace(fs, layout, name)
        numbers = drop_numbers(place)
        for number in range(1, max(numbers, default=0) + 1):
            path = drop_path(place, number)
            if number not in numbers:
                yield finding("E335", path, expected=f"drops 1 to {numbers[-1]}", found="no such file", table=name)
                continue
            try:
                load_drop(place, number)
            except (SparkhavenError, OSError) as error:
                yield from_error(error, path)


def _user_table(place: TablePlace, *, deep: bool, progress: Callable[[str], None]) -> Report:
    """Findings of a user table as it was at one moment: after a save meanwhile, it is looked at again."""
    for _ in range(LOOKS):
        report = Report(tables=1)
        try:
            table = load_user_table(place)
            if table is None:
                return Report()
            report.findings += _saved(place, table, report, deep=deep, progress=progress)
            again = load_user_table(place)
        except (SparkhavenError, OSError) as error:
            report.findings.append(from_error(error, place.user_definition, hint=SAVED_RESTORE))
            return report
        if again is not None and again.save == table.save:
            break
    return report


def _saved(
    place: TablePlace, table: UserTable, report: Report, *, deep: bool, progress: Callable[[str], None]
) -> Iterator[Finding]:
    if table.save and place.fs.read(place.user_definition) != encode_tbl(table.definition):
        yield finding(
            "E331", place.user_definition, expected=f"the definition of save {table.save}", found="another one"
        )
    same = {encode_tbl(table.definition)}
    live: set[Path] = set()
    for expected in saved_locations(place, table):
        directory = expected.directory
        live.add(directory)
        progress(str(directory))
        _count(report, expected)
        if not table.save and place.fs.stat(directory / DEFINITION) is not None:
            same.add(place.fs.read(directory / DEFINITION))  # another program has other bytes
        known = all(state.crc != UNKNOWN for state in expected.files.values())
        for defect in check_location(place.fs, table.schema, expected, same, deep=deep and known):
            yield replace(defect, hint=SAVED_RESTORE if defect.severity == "error" else NEXT_SAVE)
    for key in sorted(table.intraday):
        live.add(intraday_location(place, key))
        progress(str(intraday_location(place, key)))
        yield from _appended(place, table, key, report, deep=deep)
    live |= set() if table.record is None else {place.user_location(key) for key in table.record.replaced}
    for directory in user_directories(place):
        if directory in live:
            continue
        if place.user_intraday in directory.parents:
            yield finding("W333", directory, hint="its table has no partitions" if table.splayed else None)
        elif directory.name.startswith(f".{place.table.table}.stage-") or table.record is not None:
            yield finding("W332", directory)


def _appended(
    place: TablePlace, table: UserTable, key: LocationKey, report: Report, *, deep: bool
) -> Iterator[Finding]:
    """A location that another program may append to, as its ``table.size`` says at the time.

    As long as it grows meanwhile, it is looked at again.
    """
    directory = intraday_location(place, key)
    name = definition_name(place.fs.names(directory), place.table.table)
    same: set[bytes] = set()
    with suppress(SparkhavenError):  # the check of the location names what is wrong with it
        definition = place.fs.read(directory / name) if name is not None else b""
        same |= {definition} if decode_tbl(definition, directory).columns == table.definition.columns else set()
    for _ in range(LOOKS):
        size = table_size.load(place.fs, directory)
        if size is None:
            return
        held = published(size)
        known = all(state.crc != UNKNOWN for state in held.files.values())
        state = place.fs.read(directory / table_size.NAME)
        expected = Expected("intraday", directory, held.rows, held.files, {}, published=state)
        defects = [*check_location(place.fs, table.schema, expected, same, deep=deep and known)]
        if not defects or place.fs.read(directory / table_size.NAME) == state:
            break
    _count(report, expected)
    yield from (replace(defect, hint=OTHERS) for defect in defects)


def _undefined(fs: Fs, layout: Layout, defined: Collection[TableName]) -> Iterator[Finding]:
    """Intraday data of user tables that have no definition, which no reader finds."""
    if layout.user_intraday_name is None:
        return
    base = layout.root / layout.user_intraday_name
    for namespace in fs.names(base):
        for name in fs.names(base / namespace):
            if f"{namespace}.{name}" not in map(str, defined):
                expected = f"Users/{namespace}/Definitions/{name}.tbl"
                yield finding("W334", base / namespace / name, expected=expected, found="no file")
