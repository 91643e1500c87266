"""A table in plain Python: what each epoch, each merge record and each reader has to show.

A row is a dictionary by the key of a column. A location of intraday is a source, a date and the epoch that made it,
with its rows in their order. A merge record is what history shows of a date from then on, and how many rows of each
location it has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from tests.crash.histories.columns import Col

MAX_SUPPLEMENTS = 4
Row = Mapping[str, Any]
Matches = Callable[[Row], bool | None]


class Rule(NamedTuple):
    """Which rows a merge keeps: one for each key."""

    keep: str
    order_by_price: bool = False
    upsert: bool = False

    def kept(self, rows: Iterable[Row]) -> list[Row]:
        """The first or last row of each key, in the order of the rows."""
        ordered = list(enumerate(rows))
        if self.order_by_price:
            ordered.sort(key=lambda pair: (pair[1]["Price"] is not None, pair[1]["Price"] or 0))
        chosen: dict[int, tuple[int, Row]] = {}
        for number, row in ordered:
            if self.keep == "last" or row["Key"] not in chosen:
                chosen[row["Key"]] = number, row
        return [row for _, row in sorted(chosen.values(), key=lambda pair: pair[0])]


class Location(NamedTuple):
    """Which location: one that was deleted and then recreated is another. ``life``: of a stream that was removed."""

    source: str
    date: str
    since: int
    stream: str
    life: int


@dataclass(frozen=True)
class Epoch:
    """What one epoch has: rows by location, rows in quarantine, and how many files of the feed were taken.

    A withdrawn row is None: it keeps its place in its location. ``changed``: the epoch that last changed a location,
    also by taking rows back.
    """

    rows: dict[Location, tuple[Row | None, ...]]
    rejected: int = 0
    files: int = 0
    changed: dict[Location, int] = field(default_factory=dict)


@dataclass
class Stream:
    """The epochs of a stream. ``added``: the rows that an epoch has added, by location; ``undone``: epochs, and the
    epoch that undid each. ``base``: the epoch with which it begins, where a stream of that name was removed.
    """

    name: str
    takes_late: bool = True
    life: int = 0
    base: int = 0
    epochs: dict[int, Epoch] = field(default_factory=lambda: {0: Epoch({})})
    newest: int = 0
    added: dict[int, dict[Location, tuple[int, int]]] = field(default_factory=dict)
    undone: dict[int, int] = field(default_factory=dict)

    @property
    def now(self) -> Epoch:
        return self.epochs[self.newest]

    @property
    def exists(self) -> bool:
        """Whether it has committed."""
        return self.newest > self.base

    @property
    def older(self) -> list[int]:
        """The epochs before the newest that can be read."""
        return [epoch for epoch in sorted(self.epochs) if self.base < epoch < self.newest]

    def copy(self) -> Stream:
        return replace(self, epochs=dict(self.epochs), added=dict(self.added), undone=dict(self.undone))

    def commit(self, epoch: Epoch) -> None:
        before = self.now.rows
        changed = dict(epoch.changed)
        self.newest += 1
        changed |= {location: self.newest for location, rows in epoch.rows.items() if rows != before.get(location)}
        self.epochs[self.newest] = replace(epoch, changed=changed)


@dataclass(frozen=True)
class Record:
    """What history shows of a date: its rows, and how many rows of each location they stand for.

    ``corrected``: other values or fewer rows than intraday has, which later merges keep. ``withdrawn``: rows it
    lacks, by location. ``changed``: as its locations had it. ``stands``: file operations
    have brought or taken rows, which no epoch has.
    """

    rows: tuple[Row, ...]
    taken: dict[Location, int]
    rule: Rule | None = None
    supplements: int = 0
    corrected: bool = False
    withdrawn: dict[Location, frozenset[int]] = field(default_factory=dict)
    changed: dict[Location, int] = field(default_factory=dict)
    stands: bool = False


def gone(rows: Iterable[Row | None]) -> frozenset[int]:
    """The withdrawn rows, by their numbers."""
    return frozenset(number for number, row in enumerate(rows) if row is None)


class Refused(Exception):
    """The command has to refuse this, and to change nothing."""


class NotKept(Exception):
    """The rows of this epoch have left intraday."""


@dataclass(frozen=True)
class UserTable:
    """A table that a user has saved. ``by``: the column of its partitions, empty: it is splayed."""

    name: str
    columns: tuple[Col, ...]
    rows: tuple[Row, ...]
    by: str = ""
    indexes: tuple[tuple[str, ...], ...] = ()

    def visible(self) -> list[Row]:
        """All rows."""
        return [*self.rows]


@dataclass
class Model:
    """A table. ``removed``: locations that are truncated, and whether they are deleted too.

    A truncated location of a stream that takes late rows begins anew with them; its date is then among those with files
    ``aside``. ``detached``: by directory, the date and its rows. ``extended``: the type of a tree beside history.
    """

    name: str
    columns: tuple[Col, ...]
    indexes: tuple[tuple[str, ...], ...] = ()
    streams: dict[str, Stream] = field(default_factory=dict)
    removed: dict[Location, bool] = field(default_factory=dict)
    records: dict[str, list[Record]] = field(default_factory=dict)
    aside: set[str] = field(default_factory=set)
    detached: dict[str, tuple[str, tuple[Row, ...]]] = field(default_factory=dict)
    extended: str = ""

    def copy(self) -> Model:
        return replace(
            self,
            streams={name: stream.copy() for name, stream in self.streams.items()},
            removed=dict(self.removed),
            records={date: list(records) for date, records in self.records.items()},
            aside=set(self.aside),
            detached=dict(self.detached),
        )

    def restored(self) -> Model:
        """The table as a snapshot of now has it: without older epochs."""
        streams = {
            name: replace(stream.copy(), epochs={stream.newest: stream.now}, added={}, undone={})
            for name, stream in self.streams.items()
        }
        newest = {date: records[-1:] for date, records in self.records.items()}
        return replace(self.copy(), streams=streams, records=newest, aside=set())

    # --- what there is ---------------------------------------------------------------------------------

    def column(self, key: str) -> Col | None:
        return next((column for column in self.columns if column.key == key), None)

    def newest(self) -> dict[str, int]:
        return {name: stream.newest for name, stream in self.streams.items()}

    def rows_at(self, epochs: Mapping[str, int]) -> dict[Location, tuple[Row | None, ...]]:
        """The locations of all streams at these epochs, each with its rows."""
        found: dict[Location, tuple[Row | None, ...]] = {}
        for name, epoch in epochs.items():
            found |= self.streams[name].epochs[epoch].rows
        return found

    def now_rows(self) -> dict[Location, tuple[Row | None, ...]]:
        return self.rows_at(self.newest())

    def dates(self, epochs: Mapping[str, int] | None = None) -> list[str]:
        """All dates that the table has, or had at epochs."""
        rows = self.rows_at(self.newest() if epochs is None else epochs)
        return sorted({location.date for location in rows} | set(self.records))

    def record(self, date: str) -> Record | None:
        """The newest merge record of a date."""
        return self.records[date][-1] if self.records.get(date) else None

    def live(
        self, date: str, epochs: Mapping[str, int] | None = None
    ) -> Iterator[tuple[Location, tuple[Row | None, ...]]]:
        """The locations of a date that intraday has, by source."""
        rows = self.rows_at(self.newest() if epochs is None else epochs)
        for location in sorted(rows):
            if location.date == date and location not in self.removed:
                yield location, rows[location]

    def standing(self, date: str) -> list[Location]:
        """The locations of a date that are not deleted."""
        return [location for location in self.now_rows() if location.date == date and not self.removed.get(location)]

    # --- what readers see ------------------------------------------------------------------------------

    def visible(self, epochs: Mapping[str, int] | None = None) -> list[Row]:
        """The rows of these epochs; NotKept: they have left intraday."""
        vector = self.newest() if epochs is None else {**self.newest(), **epochs}
        return [row for date in self.dates(vector) for row in self._shown(date, vector)]

    def may_refuse(self, epochs: Mapping[str, int]) -> bool:
        """Whether rows of these epochs have left intraday, or history of then is replaced, so that its files may go.

        Or whether history has rows that no epoch has, of an import.
        """
        vector = {**self.newest(), **epochs}
        if any(location in self.removed for location in self.rows_at(vector)):
            return True
        records = [records for date in self.dates(vector) if (records := self.records.get(date))]
        newer = (each for each in records if not self._holds(each[-1], vector))
        return any(each[-1].corrected or any(self._holds(record, vector) for record in each) for each in newer)

    def merged_rows(self) -> list[Row]:
        """The rows of history of all dates."""
        return [row for records in self.records.values() for row in records[-1].rows]

    def _shown(self, date: str, epochs: Mapping[str, int]) -> Iterator[Row]:
        records, left = self.records.get(date, []), False
        record = next((each for each in reversed(records) if self._holds(each, epochs)), None)
        if records and records[-1].stands and record is not records[-1]:
            raise NotKept(date)
        if record is None or record is not records[-1]:
            left = any(loc in self.removed for loc in self.rows_at(epochs) if loc.date == date)
            left |= bool(records) and any(map(self._has_ended, records[-1].taken))
        if record is None and left:
            raise NotKept(date)
        yield from record.rows if record else ()
        for location, rows in self.live(date, epochs):
            yield from filter(None, rows[record.taken.get(location, 0) if record else 0 :])

    def _has_ended(self, location: Location) -> bool:
        """Whether its stream was removed; another one may have the name."""
        stream = self.streams.get(location.stream)
        return stream is None or stream.life != location.life

    def _holds(self, record: Record, epochs: Mapping[str, int]) -> bool:
        """Whether epochs have every row of a record, and of these the same withdrawn ones.

        Of a location that was removed since only the numbers of epochs are left to tell. Of a stream that was removed
        all rows count as there.
        """
        rows = self.rows_at(epochs)
        for location, count in record.taken.items():
            if self._has_ended(location):
                continue
            if location in self.removed:
                if epochs[location.stream] < record.changed.get(location, 0):
                    return False
                continue
            held = rows.get(location, ())
            if len(held) < count or gone(held[:count]) != record.withdrawn.get(location, frozenset()):
                return False
        return True

    # --- what streams do -------------------------------------------------------------------------------

    def ingest_file(self, name: str, rows: Iterable[Row], bad: int) -> None:
        """One epoch of one file: rows of deleted locations make new ones, of truncated ones too, or are rejected."""
        stream = self.streams[name]
        now, added = stream.now, dict[Location, tuple[int, int]]()
        held, rejected = {location: list(each) for location, each in now.rows.items()}, now.rejected + bad
        current = {(loc.source, loc.date): loc for loc in held if loc.life == stream.life and not self.removed.get(loc)}
        for row in rows:
            where = row["Source"], row["Date"]
            location = current.get(where)
            if location in self.removed and stream.takes_late and self._has_all(location, held[location]):
                self.removed[location] = True
                self.aside.add(row["Date"])
                location = None
            if location is None:
                location = current[where] = Location(*where, stream.newest + 1, name, stream.life)
            if location in self.removed:
                rejected += 1
                continue
            mine = held.setdefault(location, [])
            added[location] = added.get(location, (len(mine), 0))[0], len(mine) + 1
            mine.append(row)
        stream.added[stream.newest + 1] = added
        stream.commit(Epoch({loc: tuple(each) for loc, each in held.items()}, rejected, now.files + 1, now.changed))

    def _has_all(self, location: Location, rows: Sequence[Row | None]) -> bool:
        """Whether the newest record stands for all rows of a location, so that its files may be moved aside."""
        record = self.record(location.date)
        return record is not None and record.taken.get(location, 0) >= len(rows)

    def rollback(self, name: str, epoch: int) -> None:
        """Refused: rows that go are merged or removed."""
        stream = self.streams[name]
        if epoch == stream.newest:
            return
        rows = stream.epochs[epoch].rows
        for location, count in stream.now.rows.items():
            record = self.record(location.date)
            left = len(rows.get(location, ()))
            merged = record.taken.get(location, 0) if record else 0
            if merged > left or (location in self.removed and len(count) > left):
                raise Refused("rows are merged")
            if record and gone(rows.get(location, ())[:merged]) != record.withdrawn.get(location, frozenset()):
                raise Refused("history left out other withdrawn rows")
        restored = stream.epochs[epoch]
        changed = {
            location: stream.newest + 1 for location, rows in restored.rows.items() if rows != stream.now.rows[location]
        }
        for later in [number for number in stream.epochs if number > epoch]:
            del stream.epochs[later]
            stream.added.pop(later, None)
        stream.undone = {undone: by for undone, by in stream.undone.items() if by <= epoch}
        stream.newest += 1
        stream.epochs[stream.newest] = replace(restored, changed=restored.changed | changed)

    def undo(self, name: str, epoch: int) -> None:
        """Refused: it added no rows that are left, was rolled back, or its rows are merged or removed."""
        stream = self.streams[name]
        if epoch in stream.undone:
            return  # nothing to do
        if epoch not in stream.added or epoch not in stream.epochs:
            raise Refused("no such rows")
        rows = dict(stream.now.rows)
        for location, (start, stop) in stream.added[epoch].items():
            record = self.record(location.date)
            if location in self.removed or (record and record.taken.get(location, 0) > start):
                raise Refused("rows are merged or removed")
            held = rows[location]
            rows[location] = (*held[:start], *(None,) * (stop - start), *held[stop:])
        if rows == stream.now.rows:
            raise Refused("no rows are left")
        stream.undone[epoch] = stream.newest + 1
        stream.commit(replace(stream.now, rows=rows))

    def withdraw_rows(self, name: str, matches: Matches, dates: Iterable[str]) -> None:
        """All rows of a stream that match and are not merged, as one epoch."""
        stream = self.streams[name]
        rows = dict(stream.now.rows)
        for location in rows:
            if location.date in {*dates} and location not in self.removed:
                record, held = self.record(location.date), rows[location]
                first = record.taken.get(location, 0) if record else 0
                left = (None if row and matches(row) else row for row in held[first:])
                rows[location] = (*held[:first], *left)
        if rows != stream.now.rows:
            stream.commit(replace(stream.now, rows=rows))

    def remove_stream(self, name: str) -> None:
        """Refused: it has locations that are not deleted."""
        stream = self.streams[name]
        if any(not self.removed.get(location) for location in stream.now.rows):
            raise Refused("rows are left")
        base = stream.newest + 1  # with which a log of that name begins
        epochs = {0: Epoch({}), base: Epoch({})}
        self.streams[name] = Stream(name, stream.takes_late, stream.life + 1, base, epochs, base)

    # --- what merges do --------------------------------------------------------------------------------

    def merge(self, date: str, *, rewrite: bool, rule: Rule | None, ends_rule: bool) -> None:
        """Refused: the date has no rows."""
        base, locations = self.record(date), list(self.live(date))
        asked = rule is not None or ends_rule
        taken = dict(base.taken) if base else {}
        tails = [row for location, each in locations for row in each[taken.get(location, 0) :]]
        withdrawn = dict(base.withdrawn) if base else {}
        if base is None and not locations:
            raise Refused("no rows to merge")
        chosen = rule if asked else base.rule if base else None
        rewrite |= asked and base is not None and chosen != base.rule
        if base is not None and not rewrite and not tails:
            return
        supplement = base is not None and not rewrite and not chosen and base.supplements < MAX_SUPPLEMENTS
        has_all = base is None or all(not count or loc in dict(locations) for loc, count in taken.items())
        has_all &= base is None or not base.corrected
        if base is not None and (supplement or not has_all or (chosen and chosen.upsert)):
            rows = [*base.rows, *filter(None, tails)]
        else:
            rows = [row for _, each in locations for row in each if row]
        if chosen:
            rows = chosen.kept(rows)
        taken |= {location: len(each) for location, each in locations}
        withdrawn |= {location: gone(each) for location, each in locations}
        supplements = base.supplements + 1 if base and supplement else 0
        corrected = base is not None and base.corrected
        changed = dict(base.changed) if base else {}
        changed |= {loc: self.streams[loc.stream].now.changed[loc] for loc, _ in locations}
        stands = base is not None and base.stands
        record = Record(tuple(rows), taken, chosen, supplements, corrected, withdrawn, changed, stands)
        self.records.setdefault(date, []).append(record)

    def rewrite(self, date: str, change: Callable[[Row], Row]) -> None:
        """Computes rows of history anew. Refused: never merged."""
        record = self.record(date)
        if record is None:
            raise Refused("no history")
        rows = tuple(change(row) for row in record.rows)
        if rows != record.rows:
            self.records[date].append(replace(record, rows=rows, corrected=True, supplements=0))

    def delete_merged(self, matches: Matches, date: str) -> None:
        """All rows that match from history, which later merges keep."""
        record = self.record(date)
        left = tuple(row for row in record.rows if not matches(row)) if record else ()
        if record and left != record.rows:
            self.records[date].append(replace(record, rows=left, corrected=True, supplements=0))

    def bring(self, date: str, rows: Iterable[Row], *, replaces: bool, upserts: bool = False) -> None:
        """Rows that a tree gives. Refused: history has the date, or merged rows of it are still intraday."""
        base = self.record(date)
        empty = base is None or not base.rows
        if not (empty or replaces or upserts):
            raise Refused("history has the date")
        if base and (empty or replaces) and any(base.taken.get(location) for location, _ in self.live(date)):
            raise Refused("truncate first")
        rule = Rule("last", upsert=True) if upserts else None
        held = [*base.rows, *rows] if base and upserts else [*rows]
        rows = rule.kept(held) if rule else held
        base = base or Record((), {})
        taken = base.taken if upserts and not empty else dict.fromkeys(base.taken, 0)
        record = replace(base, rows=tuple(rows), taken=taken, rule=rule, supplements=0, corrected=True)
        self.records.setdefault(date, []).append(record)

    # --- what removals and moves do --------------------------------------------------------------------

    def covered(self, date: str) -> tuple[list[Location], bool]:
        """The locations that a truncate empties, stream by stream, and whether it ends at one with other rows."""
        record, locations = self.record(date), list(self.live(date))
        if record is None:
            raise Refused("no history")
        emptied: list[Location] = []
        for name in sorted(self.streams):
            mine = [(location, rows) for location, rows in locations if location.stream == name]
            if any(len(rows) > record.taken.get(location, 0) for location, rows in mine):
                return emptied, True
            emptied += (location for location, _ in mine)
        return emptied, False

    def truncate(self, date: str) -> None:
        """Refused: no history, or rows that it does not have. Nothing in intraday is nothing to do."""
        emptied, fails = self.covered(date)
        if fails and not emptied:
            raise Refused("rows are not merged")
        self.removed |= dict.fromkeys(emptied, False)

    def truncate_whole(self, date: str) -> None:
        """Refused: some stream has rows that history does not have."""
        if self.covered(date)[1]:
            raise Refused("rows are not merged")
        self.truncate(date)

    def delete(self, date: str) -> None:
        """Refused: no history, or merged rows that are not truncated. Rows that came since stay."""
        record = self.record(date)
        if record is None or any(record.taken.get(location, 0) for location, _ in self.live(date)):
            raise Refused("not truncated")
        self.aside.discard(date)
        self.removed |= {location: True for location in self.removed if location.date == date}

    def drop(self, date: str) -> None:
        """Refused: no history, or intraday has the date."""
        record = self.record(date)
        if record is None or (record.rows and self.standing(date)):
            raise Refused("not removed from intraday")
        if record.rows:
            self.records[date].append(replace(record, rows=(), supplements=0))

    def stands(self, date: str, rows: Iterable[Row]) -> None:
        """Other rows of history, by file operations."""
        record = self.record(date) or Record((), {})
        record = replace(record, rows=tuple(rows), corrected=True, stands=True, supplements=0)
        self.records.setdefault(date, []).append(record)

    def move(self, date: str) -> None:
        """Refused: never merged."""
        record = self.record(date)
        if record is None:
            raise Refused("no history")
        self.records[date].append(record)

    def detach(self, date: str, out: str) -> None:
        """Refused: as for ``drop``."""
        record = self.record(date)
        if record is None or not record.rows or self.standing(date):
            raise Refused("not removed from intraday")
        self.detached[out] = date, record.rows
        self.records[date].append(replace(record, rows=(), supplements=0))

    def attach(self, out: str) -> None:
        """Refused: the date was never detached to that directory, or is back."""
        if out not in self.detached:
            raise Refused("not detached")
        date, rows = self.detached.pop(out)
        record = self.record(date)
        assert record is not None
        self.records[date].append(replace(record, rows=(*record.rows, *rows)))
