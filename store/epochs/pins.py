"""Snapshot isolation of readers: checks that the rows of a pinned epoch are still in place.

Commits only append, so the files of a pinned epoch stay as they are. Two things replace their rows: a rollback, after
which the stream appends from an older epoch, and a removal, after which the stream may recreate the location. Both are
recorded before the first file changes, and both leave existing mappings intact. So a reader maps the files first and
then reads the records: if they show nothing, its mappings are good whatever happens later. A removed location is read
where it was moved to, until its files are unlinked there.

A pin exists only in the memory of its reader: without a lease on disk, readers need no write permission, nothing waits
for a dead reader, and a process can count its own pins only. A reader that is too late gets a SnapshotMovedError;
its mappings stay intact until it releases them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from copy import copy
from dataclasses import dataclass, replace
from pathlib import Path
from weakref import WeakSet

from sparkhaven.store.epochs.files.published_size import TABLE_SIZE
from sparkhaven.store.epochs.files.removals import read_removals
from sparkhaven.store.epochs.files.stream_notes import read_removed
from sparkhaven.store.epochs.reading.log_reader import frames_on, read_rollbacks
from sparkhaven.store.epochs.reading.stream_state import Loaded, load_read, newest_state
from sparkhaven.store.epochs.state.file_positions import FileWindow
from sparkhaven.store.epochs.state.locations import Locations
from sparkhaven.store.epochs.state.log_records import ROLLBACK, RollbackRecord, decode
from sparkhaven.store.epochs.state.log_values import LocationState
from sparkhaven.store.epochs.state.offsets import Offsets
from sparkhaven.store.epochs.state.removed_locations import RemovalPhase, aside_name
from sparkhaven.store.epochs.state.replay import RolledBack, StreamState, restored
from sparkhaven.store.errors import SnapshotMovedError
from sparkhaven.store.framing import refuse_damage, written
from sparkhaven.store.io.fs import Stat
from sparkhaven.store.layout import LocationKey
from sparkhaven.store.places import StreamPlace, TablePlace

AGAIN = "open the table again"


_HELD: WeakSet[Pin] = WeakSet()
_HELD_LOCK = threading.Lock()


def held(place: TablePlace) -> list[Pin]:
    """The pins of a table that this process holds, one a stream and reader; ``layout`` has no links in its root."""
    with _HELD_LOCK:
        pins = list(_HELD)
    return [pin for pin in pins if pin.of_table(place)]


@dataclass(frozen=True, slots=True)
class Watched:
    """Up to where a pin knows the records of its stream, for a reader in another language.

    ``log_seen`` and ``removals_seen``: what the two files were then. ``last``: offset of the last record of the log,
    and its length and checksum (empty without one). ``restored``: the epoch that a rollback has gone back to since.
    ``removed``: locations of the pinned state, with the last removal of each.
    """

    log_seen: Stat | None
    removals_seen: Stat | None
    last: tuple[int, bytes]
    removals_end: int
    restored: int | None
    removed: tuple[tuple[LocationState, RemovalPhase], ...]


class Pin:
    """The state of one stream at its pinned epoch. Made by ``of``; not thread-safe.

    Without new commits a check costs two ``stat`` calls, else reading the records since the last check.
    """

    def __init__(self, place: TablePlace, loaded: Loaded, seen: tuple[Stat | None, Stat | None]) -> None:
        self._place = place
        self.state: StreamState = loaded.state
        stream_place = place.of_stream(loaded.state.stream)
        self._log, self._removals = stream_place.stream_log, stream_place.stream_removals
        (self._seen, self._removals_seen), self._removals_end = seen, loaded.removals_end
        self.named = loaded.named
        self._last, self._mark = loaded.found.last
        self._restored: int | None = None
        self._removed: dict[LocationKey, RemovalPhase] = {}

    @classmethod
    def of(cls, place: StreamPlace, *, epoch: int | None = None) -> Pin:
        """Loads a stream at its newest epoch, or a kept one; raises what ``load_stream`` raises."""
        paths = place.stream_log, place.stream_removals
        seen = place.fs.stat(paths[0]), place.fs.stat(paths[1])  # before reading: a change in between is read again
        pin = cls(place, newest_state(place) if epoch is None else load_read(place, epoch=epoch), seen)
        with _HELD_LOCK:
            _HELD.add(pin)
        return pin

    def of_table(self, place: TablePlace) -> bool:
        return place.table == self._place.table and place.fs.resolve(self._place.layout.root) == place.layout.root

    def watched(self) -> Watched:
        removed = tuple((self.state.locations[key], phase) for key, phase in self._removed.items())
        last = self._last, self._mark
        return Watched(self._seen, self._removals_seen, last, self._removals_end, self._restored, removed)

    def narrowed(self, keys: Iterable[LocationKey]) -> Pin:
        """A pin of some of its locations, for another process: without the positions of the source, nothing open."""
        locations = Locations({key: self.state.locations[key] for key in keys})
        pin = copy(self)
        pin.state = replace(self.state, files=FileWindow(), offsets=Offsets(), locations=locations)
        pin._removed = dict(self._removed)
        return pin

    def require_dates(self, takes: Callable[[str], bool]) -> None:
        """SnapshotMovedError: rows of a location whose date ``takes`` accepts were rolled back since."""
        self._look()
        if self._restored is not None:
            for key in self.state.locations:
                if takes(key.value):
                    self._require_live(key, None)

    def require(self, locations: Iterable[tuple[LocationKey, Path]], error: Exception | None = None) -> None:
        """SnapshotMovedError: files opened before this call may not be those of the pinned epoch.

        ``locations``: of these files, with directories. ``error``: the error of reading them, which becomes the cause.
        """
        self._look()
        if self._restored is None and not self._removed:
            return
        for key, directory in locations:
            self._require_live(key, error)
            gone = key in self._removed
            if self._removed.get(key) == RemovalPhase.TRUNCATE:
                # Readers may use it until a delete moves the directory away and then records that. Only a commit after
                # the record publishes a new one: if ``table.size`` exists and no delete is recorded after this check,
                # the directory is the old one.
                gone = self._place.fs.stat(directory / TABLE_SIZE) is None
                self._look()
                gone = gone or self._removed[key] == RemovalPhase.DELETE
            if gone:
                raise left(directory, self.state.locations[key].rows) from error

    def aside(self, key: LocationKey, directory: Path) -> Path | None:
        """Where the files of a pinned location are that was removed since; None if they are in place, or gone.

        They are as they were pinned. SnapshotMovedError: they were rolled back before.
        """
        if self._removed.get(key) != RemovalPhase.DELETE:
            return None
        self._require_live(key, None)
        path = directory.with_name(aside_name(directory.name, self.state.locations[key].since))
        return path if self._place.fs.stat(path) is not None else None

    def _require_live(self, key: LocationKey, error: Exception | None) -> None:
        location = self.state.locations[key]
        if self._restored is not None and location.rows and location.epoch > self._restored:
            raise SnapshotMovedError(
                "the pinned epoch has been rolled back",
                where=self._place.intraday_location(key),
                expected=f"{location.rows} rows of epoch {location.epoch}, stream {self.state.stream!r}",
                found=f"a rollback to epoch {self._restored}",
                hint=AGAIN,
                phase="read",
            ) from error

    def _look(self) -> None:
        stat = self._place.fs.stat(self._log)
        if stat != self._seen:
            if stat is None and self._is_removed():  # with proof, after all of its locations
                self._removed = dict.fromkeys(self.state.locations, RemovalPhase.DELETE)
                self._seen = None
                return
            pairs = None if stat is None else self._appended()
            older = restored(self._all() if pairs is None else pairs, self.state.epoch)
            if older is not None:
                self._restored = older if self._restored is None else min(older, self._restored)
            self._seen = stat
        if self._restored == 0:  # no row of it is left. A removed stream may be followed by one with its own removals
            return
        removals = self._place.fs.stat(self._removals)
        if removals is not None and removals != self._removals_seen:
            new = read_removals(self._place.of_stream(self.state.stream), self._removals_end)
            for _, removal in new.entries:
                location = self.state.locations.get(removal.key)
                if location is not None and removal.means(location):
                    self._removed[removal.key] = removal.phase
            self._removals_end = max(self._removals_end, new.end)
            self._removals_seen = removals

    def _is_removed(self) -> bool:
        """Whether the stream was removed since, where it has no log; else the log is lost."""
        return not self.state.locations or read_removed(self._place.of_stream(self.state.stream)) is not None

    def _appended(self) -> RolledBack | None:
        """Rollbacks after the last known frame; None if the log does not continue from there."""
        more = frames_on(self._place.of_stream(self.state.stream), (self._last, self._mark))
        if more is None:
            return None
        frames, end = more
        self._last, self._mark = end.last
        rollbacks = (decode(part.payload, self._log) for part in frames if ROLLBACK in written(part.payload))
        return tuple((record.to, record.epoch) for record in rollbacks if isinstance(record, RollbackRecord))

    def _all(self) -> RolledBack:
        """Rollbacks of the whole log and the checkpoint, after the log was replaced."""
        rollbacks = read_rollbacks(self._place.of_stream(self.state.stream))
        refuse_damage(rollbacks.found, self._log)
        self._last, self._mark = rollbacks.found.last
        return *rollbacks.folded, *rollbacks.logged


def left(directory: Path, rows: int) -> SnapshotMovedError:
    return SnapshotMovedError(
        "rows of this snapshot were merged and deleted from intraday since it was opened",
        where=directory,
        expected=f"{rows} rows",
        found="another directory, or none",
        hint=AGAIN,
        phase="read",
    )
