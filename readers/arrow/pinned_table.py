"""The rows of a pinned snapshot: which ranges a read opens, and their values as Arrow arrays.

``readers.arrow.snapshot`` is what users have of it. ``matching_rows`` says where the rows lie that match a condition:
by location, with their numbers. A ``PinnedUserTable`` has the rows of a user table as they were when it was opened;
later saves do not change them.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa

from sparkhaven.readers.arrow.slices import PartitionValues, ReadColumns, SliceReader, arrow_type
from sparkhaven.store.epochs.pins import Pin
from sparkhaven.store.epochs.recovery.set_aside import SetAside, list_set_aside, refuse_set_aside
from sparkhaven.store.epochs.recovery.witnesses import Witnesses, refuse
from sparkhaven.store.errors import (
    CorruptFileError,
    HistoryWarning,
    SchemaMismatchError,
    SnapshotMovedError,
    TableNotFoundError,
    as_storage_errors,
    near,
)
from sparkhaven.store.expressions.predicate.expression import Predicate, parse_predicate
from sparkhaven.store.expressions.predicate.nodes import lookup_of
from sparkhaven.store.layout import LocationKey
from sparkhaven.store.places import TablePlace
from sparkhaven.store.scan.checksums import Checks
from sparkhaven.store.scan.history_pins import HistoryPin
from sparkhaven.store.scan.location_files import LocationFiles
from sparkhaven.store.scan.narrowing import Filter, kept_slices, settled
from sparkhaven.store.scan.ranges import ReadPlan, Snapshot, make_plan
from sparkhaven.store.scan.seen_history import remarks
from sparkhaven.store.scan.selection import Selection, check_tier, refuse_unknown_values
from sparkhaven.store.scan.slices import Slice
from sparkhaven.store.types.datatypes import CHAR_NULL
from sparkhaven.store.types.model import Column, TableSchema
from sparkhaven.store.types.null_char import has_other_null, with_null_char
from sparkhaven.store.types.row_ranges import NO_ROWS, RowRanges
from sparkhaven.store.user_tables import CommittedRows, UserTable, intraday_location, load_user_table, splayed_of
from sparkhaven.store.volumes import require_named

BATCH_ROWS = 1 << 17
REMEMBERED = 256  # conditions of a table that are not parsed again
Names = str | Iterable[str]
LOOKS = 5  # at the directory of a splayed table that is replaced meanwhile


class PinnedTable:
    """A snapshot of one table, with what keeps its rows in place.

    Where the rows were rolled back, deleted or corrected, a read is a SnapshotMovedError. It pickles when it is
    ``narrowed`` or ``detached``.
    """

    def __init__(
        self,
        place: TablePlace,
        snapshot: Snapshot,
        pins: Iterable[Pin],
        checks: Checks | None = None,
        *,
        skip_set_aside: bool = False,
    ) -> None:
        self._skip_set_aside = skip_set_aside
        self._place = place
        self._pins = {pin.state.stream: pin for pin in pins}
        self._checks = checks
        self._files = LocationFiles(place.fs, checks)
        self._predicates: dict[str, Predicate] = {}  # by their texts
        self._remarked: set[str] = set()  # kinds of remarks that were told
        self.snapshot = snapshot

    @property
    def place(self) -> TablePlace:
        return self._place

    @property
    def name(self) -> str:
        return str(self.snapshot.table)

    @property
    def schema(self) -> TableSchema:
        return self.snapshot.schema

    @property
    def epochs(self) -> dict[str, int]:
        return self.snapshot.epochs

    def pin(self, stream: str) -> Pin:
        """The pin of one stream, with its state."""
        return self._pins[stream]

    def with_checks(self, checks: Checks | None) -> PinnedTable:
        """This snapshot with other checksum checks of its reads. None: no checks."""
        skip, pins = self._skip_set_aside, self._pins.values()
        return PinnedTable(self._place, self.snapshot, pins, checks, skip_set_aside=skip)

    def narrowed(self, slices: Iterable[Slice]) -> PinnedTable:
        """This snapshot for reading these slices, and nothing else, in this process or, pickled, in another."""
        keys: dict[str, list[LocationKey]] = {}
        for slice_ in slices:
            if slice_.stream is not None:
                keys.setdefault(slice_.stream, []).append(slice_.key)
        return self._with((self._pins[stream].narrowed(keys[stream]) for stream in keys), None)

    def detached(self) -> PinnedTable:
        """This snapshot, all of it in memory: it can be pickled, and reads on when its epochs are not kept."""
        held = (pin.narrowed(pin.state.locations) for pin in self._pins.values())
        return self._with(held, self.snapshot.history)

    def _with(self, pins: Iterable[Pin], history: HistoryPin | None) -> PinnedTable:
        held = list(pins)
        snapshot = replace(self.snapshot, streams=tuple(pin.state for pin in held), history=history)
        return PinnedTable(self._place, snapshot, held, self._checks, skip_set_aside=self._skip_set_aside)

    @property
    def set_aside(self) -> list[SetAside]:
        return list_set_aside(self._place)

    def plan(
        self,
        *,
        dates: Names | None = None,
        sources: Names | None = None,
        where: str | Predicate | None = None,
        tier: str = "all",
        pruned: bool = True,
    ) -> ReadPlan:
        """Row ranges that a read opens. ``dates`` takes values and ranges ``A..B``, ``sources`` internal partitions.

        A source is named by the value from the data, or by its directory. SettingsError: a text may mean two. Without
        ``pruned``, ``where`` leaves out dates by their values alone: each location is one slice.
        """
        predicate = self.predicate(where)
        selection = Selection.of(dates, sources)
        with as_storage_errors():
            return self._plan(selection, tier, filter_of(predicate, self._readable, by_rows=pruned))

    def _plan(self, selection: Selection, tier: str, where: Filter | None) -> ReadPlan:
        plan = make_plan(
            self._place,
            self.snapshot,
            tier=check_tier(tier),
            selection=selection,
            where=where,
            files=self._files,
        )
        for kind, line in remarks(self._place, plan.differing).items():
            if kind not in self._remarked:  # once a table: a query plans several times
                self._remarked.add(kind)
                warnings.warn(line, HistoryWarning, stacklevel=2)
        witnesses = Witnesses(self._place, [pin.state for pin in self._pins.values()])
        if tier != "history":
            if not self._skip_set_aside:
                hint = "read the rest with --skip-set-aside (skip_set_aside=True of open_table)"
                refuse_set_aside(self._place, selection.takes_value, hint)
            single = selection.single
            if single is None:
                refuse(witnesses.locations(selection.takes_value))
            else:
                known = {value for pin in self._pins.values() for value in pin.state.locations.dates()}
                refuse(witnesses.published(sorted({*single, *selection.taken(known)})))
        for path, source in plan.unmerged:
            refuse(witnesses.names_epoch(source.stream, source.epoch, path, "a merge"))
        for pin in self._pins.values():  # after history was read: it may hold rows that replaced removed ones
            pin.require_dates(selection.takes_value)
        return plan

    def read(
        self,
        slices: Sequence[Slice],
        columns: Names | None = None,
        *,
        where: Predicate | None = None,
        batch_rows: int = BATCH_ROWS,
    ) -> Iterator[pa.RecordBatch]:
        """The rows of some slices of a plan, in batches like those of ``to_batches``."""
        shown = self.columns(columns)
        schema = pa.schema([pa.field(c.name, arrow_type(c)) for c in shown])
        for arrays in self.arrays(slices, shown, where, batch_rows):
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)

    def arrays(
        self,
        slices: Sequence[Slice],
        shown: Sequence[Column],
        predicate: Predicate | None,
        step: int | None,
        on_read: Callable[[int], object] | None = None,
    ) -> Iterator[list[pa.Array]]:
        """Arrays of the shown columns, slice by slice, in steps of ``step`` rows (None: a slice at once).

        ``on_read`` is called with the number of rows of each step before it is read and filtered.
        """
        named = predicate.columns if predicate else ()
        filtered = [c for c in self._readable.columns if c.name in named]
        values = PartitionValues.of(slice_.key.value for slice_ in slices)
        wanted = ReadColumns(shown, filtered, values, later=step is None)
        for slice_ in slices:
            pin = self._pins.get(slice_.stream) if slice_.stream else None
            reader = self._reader(slice_, wanted, pin)
            for rows in slice_.chosen.steps(step or slice_.count):
                if on_read is not None:
                    on_read(rows.rows)
                with as_storage_errors():
                    try:
                        yield from reader.read(rows, predicate)
                    except SnapshotMovedError:
                        if slice_.stream is None:
                            require_named(self._place, slice_.key)
                        raise
        if step is None:  # the caller gets all parts before it reads one
            with as_storage_errors():
                for stream, pin in self._pins.items():
                    pin.require((slice_.key, slice_.directory) for slice_ in slices if slice_.stream == stream)

    def _reader(self, slice_: Slice, wanted: ReadColumns, pin: Pin | None) -> SliceReader:
        return SliceReader(self._files, slice_, wanted, pin)

    def predicate(self, where: str | Predicate | None) -> Predicate | None:
        """A condition of this table; SchemaParseError for one that it does not take."""
        if not isinstance(where, str):
            return where
        predicate = self._predicates.get(where)
        if predicate is None:
            if len(self._predicates) >= REMEMBERED:
                self._predicates.clear()
            predicate = self._predicates[where] = parse_predicate(where, self._readable)
        return predicate

    @cached_property
    def _readable(self) -> TableSchema:
        return self.schema.readable

    def columns(self, names: Names | None = None) -> tuple[Column, ...]:
        """The named columns in the requested order. None: all in the order of the definition.

        A column that was dropped from the schema is found by its name, where its files are still there.
        SchemaMismatchError for a name that the table does not have, or that is named twice.
        """
        if names is None:
            return self.schema.columns
        requested = [names] if isinstance(names, str) else list(names)
        readable = self._readable.columns
        readable_names = [column.name for column in readable]
        for position, name in enumerate(requested):
            if name not in readable_names:
                raise SchemaMismatchError(
                    f"{self.name} has no column {name!r}",
                    expected=near(name, readable_names),
                    found=repr(name),
                    hint=f"names are case-sensitive. `sparkhaven schema show {self.name}` lists the columns",
                )
            if name in requested[:position]:
                raise SchemaMismatchError(
                    f"column {name!r} is requested twice", expected="each column once", found=requested
                )
        if not requested:
            raise SchemaMismatchError("no column is requested", expected="one or more", found="none")
        return tuple(column for name in requested for column in readable if column.name == name)


def filter_of(predicate: Predicate | None, schema: TableSchema, *, by_rows: bool = True) -> Filter | None:
    """A predicate as the scan sees it; statistics and indexes know nothing of nulls that other files have.

    ``schema`` is one that is ``readable``. Without ``by_rows``, statistics and indexes are not asked.
    """
    if predicate is None:
        return None
    if not by_rows:
        return Filter(frozenset(), predicate.may_match)
    odd = {column.name for column in schema.columns if has_other_null(column)}
    named = frozenset(predicate.columns)
    lookup = None if named & odd else lookup_of(predicate.node)
    return Filter(named - odd, predicate.may_match, lookup, predicate.all_match)


@dataclass(frozen=True, slots=True)
class Doubt:
    """A slice that may have rows which match a condition.

    ``settled``: those of which statistics say so. ``open``: the part whose rows must be read to know; None: there is
    none.
    """

    slice: Slice
    settled: RowRanges
    open: Slice | None

    @classmethod
    def of(cls, pinned: PinnedTable, slice_: Slice, where: Predicate) -> Doubt:
        """What statistics leave open of a slice of a plan of that condition."""
        schema = pinned.schema.readable
        named = filter_of(where, schema)
        known = NO_ROWS if named is None else settled(schema, slice_, named)
        return cls(slice_, known, slice_.limited(known.outside(slice_.start, slice_.stop)))

    def matching(self, pinned: PinnedTable, where: Predicate) -> Slice | None:
        """The slice with the rows that match; None: there is none. Reads the part that is open."""
        rows = self.settled
        for _, matching in matching_rows(pinned, [self.open] if self.open else [], where):
            rows = rows.union(matching)
        return self.slice.limited(rows)


def matching_rows(pinned: PinnedTable, slices: Iterable[Slice], where: Predicate) -> Iterator[tuple[Slice, RowRanges]]:
    """Of each slice with such rows their ranges. Reads the columns that the expression names, and no other.

    Where all rows must be found, the slices are those of a plan that is not ``pruned``, which has one a location.
    """
    named = {*where.columns}
    columns = [column for column in pinned.schema.readable.columns if column.name in named]
    for slice_ in slices:
        chosen = []
        parts = slice_.chosen.steps(BATCH_ROWS)
        for part, arrays in zip(parts, pinned.arrays([slice_], columns, None, BATCH_ROWS), strict=True):
            values = {column.name: array for column, array in zip(columns, arrays, strict=True)}
            rows = values or {"": pa.nulls(part.rows)}  # an expression without columns has one result a row, too
            matches = where.evaluate(pa.record_batch(list(rows.values()), names=list(rows)))
            numbers = part.positions[np.flatnonzero(matches.to_numpy(zero_copy_only=False))]
            if len(numbers):
                chosen.append(RowRanges.at(numbers))
        if chosen:
            starts, stops = (np.concatenate([getattr(part, end) for part in chosen]) for end in ("starts", "stops"))
            yield slice_, RowRanges.joined(starts, stops)


class PinnedUserTable(PinnedTable):
    """The state of a user table after one save. It pickles.

    What was saved stands for tier ``history``. Dates that no save has come from the directory of intraday data.

    A read is a SnapshotMovedError where the rows were replaced long ago, and their files are gone.
    """

    def __init__(
        self, place: TablePlace, user: UserTable, checks: Checks | None = None, null_char: int = CHAR_NULL
    ) -> None:
        super().__init__(place, Snapshot(place.table, with_null_char(user.schema, null_char), ()), (), checks)
        self.user, self.null_char = user, null_char

    def with_checks(self, checks: Checks | None) -> PinnedTable:
        return PinnedUserTable(self._place, self.user, checks, self.null_char)

    def narrowed(self, slices: Iterable[Slice]) -> PinnedTable:
        return self

    def detached(self) -> PinnedTable:
        return self

    @property
    def set_aside(self) -> list[SetAside]:
        return []

    def _plan(self, selection: Selection, tier: str, where: Filter | None) -> ReadPlan:
        table, places = self.snapshot.table, [*self._locations(check_tier(tier))]
        values = {key.value for _, key, _ in places if key.value}
        every = {key.value for key in (*self.user.locations, *self.user.intraday) if key.value}
        refuse_unknown_values(table, selection, check_tier(tier), values, every)
        sources = {key.internal for _, key, _ in places if key.internal}
        for wanted in selection.sources or ():
            if not any(Selection.of(None, wanted).takes_source(source) for source in sources):
                raise TableNotFoundError(
                    f"{table} has no source {wanted!r}", expected=near(wanted, sources), found=wanted
                )
        slices = [
            Slice(part, None, key, str(self._directory(part, key)), 0, held.rows, held.rows, held.files, {})
            for part, key, held in sorted(places, key=lambda place: (place[1].value, place[1].internal))
            if held.rows and selection.takes_value(key.value) and selection.takes_source(key.internal)
        ]
        kept = kept_slices(self.schema, slices, where)
        return ReadPlan(tuple(kept), sum(slice_.count for slice_ in kept))

    def _locations(self, tier: str) -> Iterator[tuple[Literal["intraday", "history"], LocationKey, CommittedRows]]:
        """The locations of a tier, those of all with each row once."""
        if tier != "intraday":
            yield from (("history", key, held) for key, held in self.user.locations.items())
        if tier != "history":
            intraday = self.user.intraday if tier == "intraday" else self.user.unsaved
            yield from (("intraday", key, held) for key, held in intraday.items())

    def _directory(self, tier: str, key: LocationKey) -> Path:
        if tier == "intraday":
            return intraday_location(self._place, key)
        return self._place.splayed if self.user.splayed else self._place.user_location(key)

    def _reader(self, slice_: Slice, wanted: ReadColumns, pin: Pin | None) -> SliceReader:
        """A reader that has opened all its files, those of the directory that was pinned."""
        files = LocationFiles(self._place.fs, self._checks, kept=0)  # a later save may take the place of these
        for _ in range(LOOKS):
            directory = splayed_of(self._place, self.user.since) if self.user.splayed else slice_.directory
            if directory is None:
                break
            placed = replace(slice_, path=str(directory))
            reader = SliceReader(files, placed, wanted, pin)
            try:
                reader.open()
            except (CorruptFileError, FileNotFoundError):
                if self._place.fs.stat(directory) is None:
                    continue
                if not self.user.splayed or splayed_of(self._place, self.user.since) == directory:
                    raise
                continue
            if not self.user.splayed or splayed_of(self._place, self.user.since) == directory:
                return reader
        raise SnapshotMovedError(
            "the rows were replaced since the table was opened, and their files are gone",
            where=slice_.directory,
            expected=f"{slice_.rows} rows, as of save {self.user.save}",
            found="those of a later save",
            hint="open the table again",
        )


def pinned_user_table(place: TablePlace, checks: Checks | None, null_char: int = CHAR_NULL) -> PinnedUserTable:
    """The newest state of a user table. TableNotFoundError: there is none of this name."""
    user = load_user_table(place)
    if user is None:
        raise TableNotFoundError(f"no user table {place.table}", where=place.user_definition)
    return PinnedUserTable(place, user, checks, null_char)
