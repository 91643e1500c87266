"""The places of a live table: what each shows of its location, and what becomes of it when the location changes.

Nothing here reads the logs: callers report what they say. Not thread-safe.

What an engine knows a location by, and what a live table holds for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from sparkhaven.readers.live.live_column import LiveColumn
from sparkhaven.store.epochs.state.log_values import LocationState
from sparkhaven.store.epochs.state.removed_locations import Removal, RemovalPhase
from sparkhaven.store.errors import FormatError, SnapshotMovedError, SparkhavenError, UnsupportedVersionError
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import LocationKey, table_of
from sparkhaven.store.merges.merge_records import MergeInput, MergeRecord, all_values, generations, merged_rows, newest
from sparkhaven.store.places import TablePlace
from sparkhaven.store.scan.checksums import Checks
from sparkhaven.store.types.committed_columns import FileState
from sparkhaven.store.types.model import NOW, Column
from sparkhaven.store.types.row_ranges import RowRanges

AGAIN = "open the table again. It has the same name"


@dataclass(frozen=True, slots=True)
class LiveLocation:
    """The rows from ``first`` on of one location, up to ``stop`` where that is set; an engine's key.

    Never used again for other rows. Between two of one location there may be withdrawn rows, which neither shows.

    ``since`` and ``made_ms`` distinguish a location from one that was removed and created again under its name; 0 in
    history, where names are never used again.
    """

    tier: Literal["intraday", "history"]
    stream: str | None
    at: LocationKey
    since: int
    made_ms: int
    first: int
    stop: int | None = None

    def shown_of(self, rows: int) -> int:
        """The row after the last one that is shown of so many rows of the location."""
        return rows if self.stop is None else min(rows, self.stop)


@dataclass(frozen=True, slots=True)
class Committed:
    """Rows of a location as of one epoch, counted from its first, with the size and CRC-32 of each file.

    ``named_by``: the version of the schema by which the files are named. ``indexes``: the same of files of its indexes.
    """

    rows: int
    epoch: int
    files: Mapping[str, FileState]
    indexes: Mapping[str, FileState] = field(default_factory=dict)
    named_by: int = NOW


@dataclass(slots=True)
class Held:
    """A place with what is committed there, and ``shown`` of it: what an engine may ask for, which never shrinks.

    ``left``: its location was truncated or removed. Its rows stay, from mappings made before.
    """

    place: LiveLocation
    directory: Path
    committed: Committed
    shown: Committed | None = None
    left: bool = False
    columns: dict[str, LiveColumn] = field(default_factory=dict)

    @property
    def size(self) -> int:
        return self.place.shown_of(self.shown.rows) - self.place.first if self.shown else 0

    def column(self, fs: Fs, column: Column, checks: Checks | None) -> LiveColumn:
        reader = self.columns.get(column.name)
        if reader is None:
            named = column.at(self.committed.named_by)
            reader = self.columns.setdefault(column.name, LiveColumn(fs, self.directory, named, checks))
        return reader

    def keep(self, fs: Fs, columns: tuple[Column, ...], checks: Checks | None) -> None:
        """Maps every column: from then on the files may go."""
        for column in columns:
            self.column(fs, column, checks).map(self.committed.rows, self.committed.files)
        self.left = True

    def gone(self, message: str) -> SnapshotMovedError:
        return SnapshotMovedError(
            message,
            where=self.directory,
            expected=f"{self.committed.rows} rows of epoch {self.committed.epoch}"
            if self.place.tier == "intraday"
            else f"{self.committed.rows} rows",
            found="other rows, or none",
            hint=AGAIN,
            phase="read",
        )


class Mapped:
    """Columns by the time when they were mapped: beyond a bound of memory the oldest are dropped, and mapped again.

    Large files cost no memory of ours, since they are mapped; small ones, and decoded symbols, are copies. Not
    thread-safe.
    """

    def __init__(self, bound: int) -> None:
        self._bound, self._total = bound, 0
        self._sizes: dict[tuple[LiveLocation, str], tuple[int, Held]] = {}

    def clear(self) -> None:
        self._sizes.clear()
        self._total = 0

    def add(self, held: Held, name: str) -> None:
        """A column was mapped, or mapped anew because it has grown."""
        before, _ = self._sizes.pop((held.place, name), (0, held))
        size = held.columns[name].memory if name in held.columns else 0
        self._sizes[held.place, name] = size, held
        self._total += size - before
        while self._total > self._bound and len(self._sizes) > 1:
            (location, oldest), (size, owner) = next(iter(self._sizes.items()))
            del self._sizes[location, oldest]
            self._total -= size
            if not owner.left:  # else its files may be gone
                owner.columns.pop(oldest, None)


class Merged:
    """By location (stream, key, epoch that made it): rows that need not be shown from intraday."""

    def __init__(self, place: TablePlace) -> None:
        self._place = place
        self._rows: dict[tuple[str, LocationKey, int], int] = {}
        self._taken: dict[tuple[str, LocationKey, int], MergeInput] = {}
        self._generations: dict[str, int] = {}  # by date, of the record that was looked at

    def rows(self, stream: str, key: LocationKey, since: int) -> int:
        """Rows of a location that are shown from history, or from an earlier mapping."""
        return self._rows.get((stream, key, since), 0)

    def note_rows(self, stream: str, key: LocationKey, since: int, rows: int) -> None:
        self._rows[stream, key, since] = max(rows, self.rows(stream, key, since))

    def has_withdrawn_since(self, stream: str, state: LocationState) -> bool:
        """Whether rows of a location were withdrawn after a merge that is shown, or known, had taken them."""
        location = stream, state.key, state.since
        taken = self._taken.get(location)
        if taken is None:
            return False
        behind = state.withdrawn.within(taken.rows, self._rows.get(location, 0))
        fewer = state.withdrawn.within(0, taken.rows).rows < taken.withdrawn  # a state from before the merge
        return bool(behind) or not (fewer or taken.leaves_out(state.withdrawn))

    def note(self, record: MergeRecord) -> None:
        """The outputs of a record are shown, or the rows of all of its inputs."""
        self._generations[record.value] = record.generation
        for taken in record.inputs:
            location = taken.stream, LocationKey(taken.internal, record.value), taken.since
            self._taken[location] = taken
        for (stream, internal, since), rows in merged_rows(record).items():
            self.note_rows(stream, LocationKey(internal, record.value), since, rows)

    def fresh(self, *, newer: bool) -> Iterator[MergeRecord]:
        """Complete records that were not looked at: of dates without one; ``newer``: also newer ones of other dates."""
        values = set(all_values(self._place))
        for date in sorted(values if newer else values - self._generations.keys()):
            generation = self._generations.get(date)
            if generation is not None and generations(self._place, date)[-1:] == [generation]:
                continue
            record = newest(self._place, date)
            if record is not None and record.generation != generation:
                yield record


MOST_PIECES = 1 << 12  # places of one location: an engine keeps each as a location of its own


def pieces_of(rows: RowRanges, directory: Path) -> list[tuple[int, int]]:
    """Row ranges as places. UnsupportedVersionError: there are too many for an engine."""
    if len(rows) > MOST_PIECES:
        raise UnsupportedVersionError(
            "the location has too many withdrawn ranges of rows for an engine",
            where=directory,
            expected=f"at most {MOST_PIECES:,} ranges of rows between them",
            found=f"{len(rows):,}",
            hint=f"merge the date with --rewrite, which writes it without them. Table {table_of(directory)}",
        )
    return list(zip(rows.starts.tolist(), rows.stops.tolist(), strict=True))


_REMOVED = "rows were merged and removed from intraday before this table had mapped them"


@dataclass(frozen=True, slots=True)
class Update:
    """What one look has added: new places, places with their new numbers of rows, and why the table ends."""

    places: tuple[LiveLocation, ...] = ()
    grown: tuple[tuple[LiveLocation, int], ...] = ()
    ended: SparkhavenError | None = None


class ShownPlaces:
    """Each location that is reported to an engine, or will be. ``merged``: rows that are shown as history instead."""

    def __init__(self, place: TablePlace) -> None:
        self._place = place
        self.held: dict[LiveLocation, Held] = {}
        self.pending: dict[LiveLocation, Held] = {}
        self.merged = Merged(place)
        self._current: dict[tuple[str, LocationKey], Held] = {}
        self._parts: dict[tuple[str, LocationKey], list[Held]] = {}  # of its location, before withdrawn rows

    def publish(self) -> Update:
        fresh: list[LiveLocation] = []
        grown: list[LiveLocation] = []
        for location, held in self.pending.items():
            (grown if held.shown else fresh).append(location)
            held.shown = held.committed
        self.pending = {}
        return Update(tuple(fresh), tuple((location, self.held[location].size) for location in grown))

    def add_history(self, key: LocationKey, committed: Committed, rows: RowRanges | None = None) -> None:
        """A location of history, or ``rows`` of it."""
        directory = self._place.history_location(key)
        if rows is None or rows == RowRanges.one(0, committed.rows):
            self.add_whole(key, directory, committed)
            return
        for start, stop in pieces_of(rows, directory):
            self._add(Held(LiveLocation("history", None, key, 0, 0, start, stop), directory, committed))

    def add_whole(self, key: LocationKey, directory: Path, committed: Committed) -> None:
        """A location that never changes under its name."""
        self._add(Held(LiveLocation("history", None, key, 0, 0, 0), directory, committed))

    def _add(self, held: Held) -> None:
        self.held[held.place] = held
        self.pending[held.place] = held

    def grow(self, stream: str, state: LocationState, directory: Path | None = None) -> None:
        """A location of a stream has more rows. ``directory``: where it is, unless among those of intraday data."""
        if state.truncated:
            return
        held = self._current.get((stream, state.key))
        if held is not None and (held.place.since, held.place.made_ms) != (state.since, state.made_ms):
            self.merged.note_rows(stream, state.key, held.place.since, held.committed.rows)
            held = None  # another location, created after that one was removed
            self._parts.pop((stream, state.key), None)
        if state.withdrawn and self._are_withdrawn(stream, state):
            held = None
        if held is None:
            first = self.merged.rows(stream, state.key, state.since)
            if state.rows > first:
                self._begin(stream, state, first, directory or self._place.intraday_location(state.key))
        elif state.rows > held.committed.rows and not held.left:
            held.committed = Committed(state.rows, state.epoch, state.files, named_by=state.named_by)
            self.held[held.place] = self.pending[held.place] = held

    def _begin(self, stream: str, state: LocationState, first: int, directory: Path) -> None:
        """A location from row ``first`` on: a place that grows, and one for the rows before each withdrawn range."""
        committed = Committed(state.rows, state.epoch, state.files, named_by=state.named_by)
        pieces = [(first, state.rows)]
        if state.withdrawn:
            pieces = pieces_of(state.withdrawn.outside(first, state.rows), directory)
            if not pieces or pieces[-1][1] < state.rows:
                pieces.append((state.rows, state.rows))  # where the next rows will be
        for start, stop in pieces:
            end = None if stop == state.rows else stop
            location = LiveLocation("intraday", stream, state.key, state.since, state.made_ms, start, end)
            held = Held(location, directory, committed)
            if end is None:
                self._current[stream, state.key] = held
            else:
                self._parts.setdefault((stream, state.key), []).append(held)
            if start < stop:
                self._add(held)

    def _are_withdrawn(self, stream: str, state: LocationState) -> bool:
        """Whether rows were withdrawn that no engine has seen: their location is to begin again.

        SnapshotMovedError: rows that were shown were withdrawn, or rows behind them in a place that grows.
        """
        if self.merged.has_withdrawn_since(stream, state):
            raise self.unseen(state.key.value)
        mine = [held for key, held in self._of(stream) if key == state.key]
        if not any(state.withdrawn.within(held.place.first, held.place.shown_of(state.rows)) for held in mine):
            return False
        for held in mine:
            if held.shown is not None:
                raise held.gone(f"rows of this table were withdrawn in epoch {state.epoch} of stream {stream!r}")
        for held in mine:
            self._forget(stream, state.key, held)
        return True

    def _forget(self, stream: str, key: LocationKey, held: Held) -> None:
        """A place that no engine has seen."""
        self.pending.pop(held.place, None)
        self.held.pop(held.place, None)
        if self._current.get((stream, key)) is held:
            del self._current[stream, key]
        else:
            self._parts[stream, key].remove(held)

    def roll_back(self, stream: str, epoch: int) -> None:
        """What was not shown yet goes without a trace. SnapshotMovedError: rows that were shown were rolled back."""
        for key, held in self._of(stream):
            if held.shown and held.shown.epoch > epoch:
                raise held.gone(f"rows of this table were rolled back to epoch {epoch} of stream {stream!r}")
            if held.committed.epoch > epoch:
                if held.shown is None:
                    self._forget(stream, key, held)
                else:
                    self.pending.pop(held.place, None)
                    held.committed = held.shown

    def remove(
        self, fs: Fs, stream: str, removal: Removal, columns: tuple[Column, ...], checks: Checks | None
    ) -> Held | None:
        """Maps what is left of a truncated location, and returns it if it did: its files may have gone meanwhile.

        SnapshotMovedError: rows are gone that cannot be mapped any more.
        """
        held = self._current.get((stream, removal.key))
        if held is None or not means(removal, held.place):
            if removal.rows > self.merged.rows(stream, removal.key, removal.since):
                raise self.unseen(removal.key.value)
            return None
        if held.left:
            return None
        if removal.phase == RemovalPhase.DELETE or removal.rows > held.committed.rows:
            raise held.gone(_REMOVED)
        try:
            for part in (*self._parts.get((stream, removal.key), ()), held):
                part.keep(fs, columns, checks)
        except (FileNotFoundError, FormatError) as error:
            raise held.gone(_REMOVED) from error
        return held

    def require_kept(self, held: Held, removals: tuple[Removal, ...] | None) -> None:
        """SnapshotMovedError: while a location was mapped it was deleted too, so that another may lie there.

        ``removals``: what came meanwhile; None: the log was loaded anew, and what came is not known.
        """
        if removals is None or any(r.phase == RemovalPhase.DELETE and means(r, held.place) for r in removals):
            raise held.gone(_REMOVED)

    def require_still(
        self, stream: str, locations: Mapping[LocationKey, LocationState], removals: tuple[Removal, ...]
    ) -> None:
        """Of a stream that was loaded anew: each place is there, with its rows, or was truncated with them."""
        for key, held in self._of(stream):
            state = locations.get(key)
            same = state is not None and (state.since, state.made_ms) == (held.place.since, held.place.made_ms)
            removed = any(means(removal, held.place) for removal in removals)
            if not removed and (not same or state is None or state.rows < held.committed.rows):
                raise held.gone("rows of this table are no longer in intraday")

    def _of(self, stream: str) -> Iterator[tuple[LocationKey, Held]]:
        for (owner, key), held in list(self._current.items()):
            if owner == stream and not held.left:
                yield key, held
                yield from ((key, part) for part in list(self._parts.get((owner, key), ())))

    def merge(self, record: MergeRecord) -> None:
        """Nothing changes where the rows of a merge are shown; a date of which there are none is added as history.

        Locations that were put there by hand may be shown already: `dates adopt` has written their record since.
        """
        if self._shows_outputs(record):
            self.merged.note(record)
            return
        shown = [self._shows(record.value, key, rows) for key, rows in merged_rows(record).items()]
        if not shown or not all(shown):
            if any(held.place.at.value == record.value for held in self.held.values()):
                raise self.unseen(record.value)
            for output in record.outputs:
                if output.rows:
                    committed = Committed(output.rows, 0, output.files, output.indexes, output.named_by)
                    self.add_history(LocationKey(output.internal, record.value), committed)
        self.merged.note(record)

    def _shows_outputs(self, record: MergeRecord) -> bool:
        """Whether the locations of a record, and no others of its date, are shown as history."""
        of_date = [held for held in self.held.values() if held.place.at.value == record.value]
        outputs = {LocationKey(output.internal, record.value): output.rows for output in record.outputs if output.rows}
        history = {held.place.at: held.committed.rows for held in of_date if held.place.tier == "history"}
        return bool(outputs) and history == outputs and all(held.place.tier == "history" for held in of_date)

    def _shows(self, value: str, key: tuple[str, str, int], rows: int) -> bool:
        stream, internal, since = key
        location_key = LocationKey(internal, value)
        held = self._current.get((stream, location_key))
        if held is not None and held.place.since == since and held.committed.rows >= rows:
            return True
        return self.merged.rows(stream, location_key, since) >= rows

    def unseen(self, value: str) -> SnapshotMovedError:
        return SnapshotMovedError(
            "a date was merged with rows that this table has not seen",
            where=self._place.merges / value,
            hint=AGAIN,
            phase="read",
        )


def means(removal: Removal, location: LiveLocation) -> bool:
    """Whether a removal is of the location of a place, not of one made later under its name."""
    times_ms = {removal.made_ms, location.made_ms} - {0}
    return (removal.key, removal.since) == (location.at, location.since) and len(times_ms) < 2
