"""A table in plain Python: what each epoch, each merge record and each reader has to show.

Rows are tuples. A location of intraday is a source, a date and the epoch that made it, with its rows in their order. A
merge record is what history shows of a date from then on, and how many rows of each location it has.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import NamedTuple

MAX_SUPPLEMENTS = 4


class Row(NamedTuple):
    """A row of the feed: ``sym`` is a function of ``key``, so that rows of one key are of one group."""

    sym: str
    key: int
    price: int | None
    source: str
    date: str


class Rule(NamedTuple):
    """Which rows a merge keeps: one for each key."""

    keep: str
    order_by_price: bool = False
    upsert: bool = False

    def kept(self, rows: Iterable[Row]) -> list[Row]:
        """The first or last row of each key, in the order of the rows."""
        ordered = list(enumerate(rows))
        if self.order_by_price:
            ordered.sort(key=lambda pair: (pair[1].price is not None, pair[1].price or 0))
        chosen: dict[int, tuple[int, Row]] = {}
        for number, row in ordered:
            if self.keep == "last" or row.key not in chosen:
                chosen[row.key] = number, row
        return [row for _, row in sorted(chosen.values())]


class Location(NamedTuple):
    """Which location: one that was deleted and then recreated is another."""

    source: str
    date: str
    since: int


@dataclass(frozen=True)
class Epoch:
    """What one epoch has: rows by location, rows in quarantine, and how many files of the feed were taken.

    A withdrawn row is None: it keeps its place in its location. ``changed``: the epoch that last changed a location,
    also by taking rows back.
    """

    rows: dict[Location, tuple[Row | None, ...]]
    rejected: tuple[Row, ...] = ()
    files: int = 0
    changed: dict[Location, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Record:
    """What history shows of a date: its rows, and how many rows of each location they stand for.

    ``corrected``: other values or fewer rows than intraday has, which later merges keep. ``withdrawn``: rows it
    lacks, by location. ``changed``: as its locations had it.
    """

    rows: tuple[Row, ...]
    taken: dict[Location, int]
    rule: Rule | None = None
    supplements: int = 0
    corrected: bool = False
    withdrawn: dict[Location, int] = field(default_factory=dict)
    changed: dict[Location, int] = field(default_factory=dict)


def gone(rows: Iterable[Row | None]) -> int:
    """The number of withdrawn rows."""
    return sum(row is None for row in rows)


class Refused(Exception):
    """The command has to refuse this, and to change nothing."""


class NotKept(Exception):
    """The rows of this epoch have left intraday."""


@dataclass
class Model:
    """``feed``: the rows of each file; ``removed``: locations that are truncated, and whether they are deleted too.

    ``added``: the rows that an epoch has added, by location; ``undone``: epochs, and the epoch that undid each.
    ``takes_late``: rows for a truncated location make a new one, whose date is then among those with files ``aside``.
    """

    feed: list[list[Row]] = field(default_factory=list)
    epochs: dict[int, Epoch] = field(default_factory=lambda: {0: Epoch({})})
    newest: int = 0
    removed: dict[Location, bool] = field(default_factory=dict)
    records: dict[str, list[Record]] = field(default_factory=dict)
    added: dict[int, dict[Location, tuple[int, int]]] = field(default_factory=dict)
    undone: dict[int, int] = field(default_factory=dict)
    takes_late: bool = False
    aside: set[str] = field(default_factory=set)

    def copy(self) -> Model:
        return deepcopy(self)

    @property
    def now(self) -> Epoch:
        return self.epochs[self.newest]

    def dates(self, epoch: int | None = None) -> list[str]:
        """All dates that the table has, or had at an epoch."""
        rows = self.epochs[self.newest if epoch is None else epoch].rows
        return sorted({location.date for location in rows} | set(self.records))

    def record(self, date: str) -> Record | None:
        """The newest merge record of a date."""
        return self.records[date][-1] if self.records.get(date) else None

    def commit(self, epoch: Epoch) -> None:
        before = self.now.rows
        changed = dict(epoch.changed)
        self.newest += 1
        changed |= {location: self.newest for location, rows in epoch.rows.items() if rows != before.get(location)}
        self.epochs[self.newest] = replace(epoch, changed=changed)

    def live(self, date: str, epoch: int | None = None) -> Iterator[tuple[Location, tuple[Row | None, ...]]]:
        """The locations of a date that intraday has, by source."""
        rows = self.epochs[self.newest if epoch is None else epoch].rows
        for location in sorted(rows):
            if location.date == date and location not in self.removed:
                yield location, rows[location]

    # --- what readers see ------------------------------------------------------------------------------

    def visible(self, epoch: int | None = None) -> Counter[Row]:
        """The rows of an epoch, each as often as it is there; NotKept: they have left intraday."""
        shown: Counter[Row] = Counter()
        for date in self.dates(epoch):
            shown.update(self._shown(date, self.newest if epoch is None else epoch))
        return shown

    def _shown(self, date: str, epoch: int) -> Iterator[Row]:
        records, left = self.records.get(date, []), False
        record = next((each for each in reversed(records) if self._holds(each, epoch)), None)
        if record is None or record is not records[-1]:
            left = any(loc in self.removed for loc in self.epochs[epoch].rows if loc.date == date)
        if record is None and left:
            raise NotKept(date)
        yield from record.rows if record else ()
        for location, rows in self.live(date, epoch):
            yield from filter(None, rows[record.taken.get(location, 0) if record else 0 :])

    def _holds(self, record: Record, epoch: int) -> bool:
        """Whether an epoch has every row of a record, and of these the same withdrawn ones.

        Of a location that was removed since only the numbers of epochs are left to tell.
        """
        rows = self.epochs[epoch].rows
        return all(
            epoch >= record.changed.get(location, 0)
            if location in self.removed
            else len(rows.get(location, ())) >= count
            and gone(rows.get(location, ())[:count]) == record.withdrawn.get(location, 0)
            for location, count in record.taken.items()
        )

    # --- what commands do ------------------------------------------------------------------------------

    def ingest_file(self) -> None:
        """One epoch of one file: rows of deleted locations make new ones, of truncated ones too, or are rejected."""
        now, added = self.now, dict[Location, tuple[int, int]]()
        rows, rejected = dict(now.rows), list(now.rejected)
        for row in self.feed[now.files]:
            mine = [loc for loc in rows if loc[:2] == (row.source, row.date) and not self.removed.get(loc)]
            if mine and mine[0] in self.removed and self.takes_late:
                self.removed[mine.pop()] = True
                self.aside.add(row.date)
            location = mine[0] if mine else Location(row.source, row.date, self.newest + 1)
            if location in self.removed:
                rejected.append(row)
            else:
                held = rows.get(location, ())
                rows[location] = (*held, row)
                added[location] = added.get(location, (len(held), 0))[0], len(held) + 1
        self.added[self.newest + 1] = added
        self.commit(Epoch(rows, tuple(rejected), now.files + 1, now.changed))

    def rollback(self, epoch: int) -> None:
        """Refused: rows that go are merged or removed."""
        if epoch == self.newest:
            return
        rows = self.epochs[epoch].rows
        for location, count in self.now.rows.items():
            record = self.record(location.date)
            left = len(rows.get(location, ()))
            merged = record.taken.get(location, 0) if record else 0
            if merged > left or (location in self.removed and len(count) > left):
                raise Refused("rows are merged")
            if record and gone(rows.get(location, ())[:merged]) < record.withdrawn.get(location, 0):
                raise Refused("withdrawn rows would come back")
        restored = self.epochs[epoch]
        changed = {
            location: self.newest + 1 for location, rows in restored.rows.items() if rows != self.now.rows[location]
        }
        for later in [number for number in self.epochs if number > epoch]:
            del self.epochs[later]
            self.added.pop(later, None)
        self.undone = {undone: by for undone, by in self.undone.items() if by <= epoch}
        self.newest += 1
        self.epochs[self.newest] = replace(restored, changed=restored.changed | changed)

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
        changed = (base.changed if base else {}) | {location: self.now.changed[location] for location, _ in locations}
        record = Record(tuple(rows), taken, chosen, supplements, corrected, withdrawn, changed)
        self.records.setdefault(date, []).append(record)

    def undo(self, epoch: int) -> None:
        """Refused: it added no rows that are left, was rolled back or undone, or its rows are merged or removed."""
        if epoch not in self.added or epoch not in self.epochs or epoch in self.undone:
            raise Refused("no such rows")
        rows = dict(self.now.rows)
        for location, (start, stop) in self.added[epoch].items():
            record = self.record(location.date)
            if location in self.removed or (record and record.taken.get(location, 0) > start):
                raise Refused("rows are merged or removed")
            held = rows[location]
            rows[location] = (*held[:start], *(None,) * (stop - start), *held[stop:])
        if rows == self.now.rows:
            raise Refused("no rows are left")
        self.undone[epoch] = self.newest + 1
        self.commit(replace(self.now, rows=rows))

    def withdraw_rows(self, key: int, dates: Iterable[str]) -> None:
        """All rows of a key that are not merged, as one epoch. Refused: there is no such date."""
        if not {*dates} <= {*self.dates()}:
            raise Refused("no such date")
        rows = dict(self.now.rows)
        for date in dates:
            record = self.record(date)
            for location, held in self.live(date):
                first = record.taken.get(location, 0) if record else 0
                left = (None if row and row.key == key else row for row in held[first:])
                rows[location] = (*held[:first], *left)
        if rows != self.now.rows:
            self.commit(replace(self.now, rows=rows))

    def delete_merged(self, key: int, date: str) -> None:
        """All rows of a key from history, which later merges keep."""
        record = self.record(date)
        left = tuple(row for row in record.rows if row.key != key) if record else ()
        if record and left != record.rows:
            self.records[date].append(replace(record, rows=left, corrected=True, supplements=0))

    def truncate(self, date: str) -> None:
        """Refused: no history, or rows that it does not have, or nothing in intraday."""
        record, locations = self.record(date), list(self.live(date))
        if (
            not self.standing(date)
            or record is None
            or any(len(rows) > record.taken.get(loc, 0) for loc, rows in locations)
        ):
            raise Refused("rows are not merged")
        self.removed |= {location: False for location, _ in locations}

    def delete(self, date: str) -> None:
        """Refused: no history, merged rows that are not truncated, or nothing to delete. Rows that came since stay."""
        record = self.record(date)
        if record is None or any(record.taken.get(location, 0) for location, _ in self.live(date)):
            raise Refused("not truncated")
        if not self.standing(date) and date not in self.aside:
            raise Refused("nothing to delete")
        self.aside.discard(date)
        self.removed |= {location: True for location in self.removed if location.date == date}

    def standing(self, date: str) -> list[Location]:
        """The locations of a date that are not deleted."""
        return [location for location in self.now.rows if location.date == date and not self.removed.get(location)]

    def drop(self, date: str) -> None:
        """Refused: no history, or intraday has the date."""
        record = self.record(date)
        if record is None or (record.rows and self.standing(date)):
            raise Refused("not removed from intraday")
        if record.rows:
            self.records[date].append(replace(record, rows=(), supplements=0))

    def correct(self, date: str, more: int) -> None:
        """Adds to all prices of history, null as 0. Refused: never merged."""
        record = self.record(date)
        if record is None:
            raise Refused("no history")
        if not record.rows:
            return
        rows = tuple(row._replace(price=(row.price or 0) + more) for row in record.rows)
        self.records[date].append(replace(record, rows=rows, corrected=True, supplements=0))

    def move(self, date: str) -> None:
        """Refused: never merged."""
        record = self.record(date)
        if record is None:
            raise Refused("no history")
        self.records[date].append(record)

    def restored(self) -> Model:
        """The table as a snapshot of now has it: without older epochs."""
        newest = {date: records[-1:] for date, records in self.records.items()}
        return replace(self.copy(), epochs={self.newest: self.now}, records=newest, added={}, undone={}, aside=set())
