"""What an engine's table service asks and subscribes to, without an engine.

Callbacks are called without any lock, one after another: those of a subscription first by the thread that subscribes,
then by the one that calls ``deliver``. Each place is delivered once to each subscription; sizes only grow.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from sparkhaven.readers.live.live_column import Plain
from sparkhaven.readers.live.live_table import LiveTable
from sparkhaven.readers.live.shown_locations import LiveLocation, Update
from sparkhaven.store.expressions.predicate.nodes import Key
from sparkhaven.store.types.row_ranges import RowRanges

OnPlace = Callable[[LiveLocation, pa.Table | None], None]
OnSize = Callable[[int], None]
OnError = Callable[[Exception], None]


@dataclass(frozen=True, slots=True)
class TableKey:
    """One opening of a table: after one has ended, or the schema has changed, the name has another number."""

    name: str
    number: int


@dataclass(slots=True, eq=False)
class _Places:
    """A subscription to places; ``known`` are those that one of the threads tells it."""

    on_place: OnPlace
    on_error: OnError
    known: set[LiveLocation] = field(default_factory=set)


@dataclass(slots=True, eq=False)
class _Size:
    on_size: OnSize
    on_error: OnError


class LiveBackend:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tables: dict[TableKey, LiveTable] = {}
        self._places: dict[TableKey, list[_Places]] = {}
        self._sizes: dict[tuple[TableKey, LiveLocation], list[_Size]] = {}
        self._releases: dict[TableKey, Callable[[], None]] = {}

    def add(self, key: TableKey, table: LiveTable) -> None:
        with self._lock:
            self._tables[key] = table

    def remove(self, key: TableKey) -> None:
        """A table that nobody follows any more, and that has no name: it is not asked for again."""
        with self._lock:
            table = self._tables.pop(key)
        self._release(key, table)

    def at_release(self, key: TableKey, release: Callable[[], None]) -> None:
        """``release`` is called when a table lets its memory go; at once, if it has ended already."""
        with self._lock:
            self._releases[key] = release
        if self.table(key).error is not None:
            release()

    def _release(self, key: TableKey, table: LiveTable) -> None:
        table.release()
        with self._lock:
            release = self._releases.pop(key, None)
        if release is not None:
            release()

    def is_followed(self, key: TableKey) -> bool:
        with self._lock:
            return key in self._places

    def table(self, key: TableKey) -> LiveTable:
        with self._lock:
            return self._tables[key]

    def locations(self, key: TableKey, on_place: OnPlace) -> None:
        table = self.table(key)
        for location in table.places():
            on_place(location, _values(table, location))

    def values(
        self, key: TableKey, location: LiveLocation, column: str, offset: int, least: int, most: int
    ) -> pa.Table:
        """One column of some rows; raises what ``LiveTable.values`` raises."""
        table = self.table(key)
        array = table.values(location, column, offset, least, most)
        return pa.Table.from_arrays([array], schema=pa.schema([table.schema.data.field(column)]))

    def plain(self, key: TableKey, location: LiveLocation, column: str) -> Plain | None:
        """One column as it is mapped; raises what ``LiveTable.values`` raises."""
        return self.table(key).plain(location, column)

    def is_indexed(self, key: TableKey, column: str) -> bool:
        return self.table(key).is_indexed(column)

    def indexed_rows(self, key: TableKey, location: LiveLocation, column: str, keys: Sequence[Key]) -> RowRanges | None:
        """Rows of a place in which a column has one of these values; None: no index tells."""
        return self.table(key).indexed_rows(location, column, keys)

    def follow_places(
        self, key: TableKey, on_place: OnPlace, on_done: Callable[[], None], on_error: OnError
    ) -> Callable[[], None]:
        """Calls back with each place, then ``on_done``, and from then on with new ones; returns what ends that."""
        table, entry = self.table(key), _Places(on_place, on_error)
        with self._lock:
            self._places.setdefault(key, []).append(entry)
        for location in self._claim(entry, table.places()):
            on_place(location, _values(table, location))
        on_done()
        if table.error is not None:
            on_error(table.error)
        return lambda: self._leave(self._places, key, entry)

    def follow_size(
        self, key: TableKey, location: LiveLocation, on_size: OnSize, on_done: Callable[[], None], on_error: OnError
    ) -> Callable[[], None]:
        """Calls back with the size, then ``on_done``, and from then on with larger ones; returns what ends that."""
        entry = _Size(on_size, on_error)
        with self._lock:
            self._sizes.setdefault((key, location), []).append(entry)
        on_size(self.table(key).size(location))
        on_done()
        return lambda: self._leave(self._sizes, (key, location), entry)

    def deliver(self, key: TableKey, update: Update) -> None:
        """Tells the subscribers of a table what ``publish`` has shown; from one thread only."""
        table = self.table(key)
        with self._lock:
            followers = list(self._places.get(key, ()))
            sizes = [(entry, rows) for location, rows in update.grown for entry in self._sizes.get((key, location), ())]
            all_sizes = [entry for (owner, _), entries in self._sizes.items() if owner == key for entry in entries]
        if update.ended is not None:
            for on_error in (*(entry.on_error for entry in followers), *(entry.on_error for entry in all_sizes)):
                on_error(update.ended)
            with self._lock:
                self._places.pop(key, None)
                for held in [held for held in self._sizes if held[0] == key]:
                    del self._sizes[held]
            self._release(key, table)
            return
        for size, rows in sizes:
            size.on_size(rows)
        for follower in followers:
            for location in self._claim(follower, update.places):
                follower.on_place(location, _values(table, location))

    def _claim(self, follower: _Places, locations: Iterable[LiveLocation]) -> list[LiveLocation]:
        """Those that were not reported to it: this thread does."""
        with self._lock:
            fresh = [location for location in locations if location not in follower.known]
            follower.known.update(fresh)
            return fresh

    def _leave(self, entries: dict[Any, Any], key: object, entry: object) -> None:
        with self._lock:
            followers = entries.get(key, [])
            if entry in followers:
                followers.remove(entry)
            if not followers:
                entries.pop(key, None)


def _values(table: LiveTable, location: LiveLocation) -> pa.Table | None:
    """The partitioning column of a place: one row; None: the table has no such column."""
    schema = table.schema.partition
    if not len(schema):
        return None
    return pa.Table.from_arrays([pa.array([location.at.value], pa.string()) for _ in schema], schema=schema)
