"""Finds directories around a stream's locations that no epoch of its log has, and decides what becomes of each.

A directory with a ``table.size`` says which epoch published it, and the log knows whether that was rolled back or lost.
One without may be left over from a batch that was never committed, and is removed. It may as well be a location that is
being copied back from a backup. So it is removed only where all of this holds, and otherwise set aside by a rename:

* its owner mark names this stream and a generation that can have left it, that of the newest epoch or a later one;
* no epoch, removal or merge record names its internal partition and date: then a committed location was there once;
* it has no more bytes than the largest location of the stream (or ``LEAST_BYTES``): one batch leaves no more.
"""

from __future__ import annotations

from pathlib import Path

from sparkhaven.store.epochs.files.published_size import (
    TABLE_SIZE,
    named_owner,
    other_locations,
    physical_size,
    read_mark,
)
from sparkhaven.store.epochs.files.removals import read_removals
from sparkhaven.store.epochs.recovery.directory_plan import Moved, Settlement
from sparkhaven.store.epochs.recovery.resume import Resumed
from sparkhaven.store.epochs.recovery.set_aside import SET_ASIDE
from sparkhaven.store.epochs.recovery.witnesses import Witnesses, refuse
from sparkhaven.store.epochs.state.rollbacks import restored
from sparkhaven.store.errors import FormatError
from sparkhaven.store.format.table.table_size import published
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import LocationKey
from sparkhaven.store.merges.merge_records import newest
from sparkhaven.store.places import TablePlace

LEAST_BYTES = 1 << 20


def find_strays(place: TablePlace, resumed: Resumed, plan: Settlement) -> None:
    """Adds directories unknown to any epoch of the stream to the plan.

    To be removed are those published by this stream that the log shows as rolled back or lost, and those that an
    uncommitted batch left. Other directories without ``table.size`` are set aside if they have this stream's owner
    mark, or are in the place of a location that was rolled back. The rest is only reported.
    """
    state, ahead = resumed.state, resumed.went_down
    witnesses = Witnesses(place, [state])
    origins = _Origins(place, resumed)
    for key in other_locations(place, state.locations):
        directory = place.intraday_location(key)
        if place.fs.stat(directory) is None:
            continue
        path = directory / TABLE_SIZE
        if place.fs.stat(path) is None:
            owner = named_owner(place, directory)
            if owner == state.stream or (owner is None and key in resumed.undone.locations):
                reason = origins.doubt(key, directory)
                if reason is None:
                    plan.stray_locations.append(directory)
                else:
                    plan.moved.append(Moved(directory, _free_name(place.fs, directory, state.generation), reason))
            elif place.fs.names(directory):
                plan.foreign.append(directory)
            continue
        if key in resumed.undone.locations:
            plan.stray_locations.append(directory)
            continue
        try:
            stream, epoch = published(place.fs.read(path), path)
        except FormatError:
            plan.foreign.append(directory)
            continue
        if stream != state.stream:
            continue
        if (ahead and epoch > state.epoch) or any(after < epoch <= last for after, last in resumed.undone.dead):
            plan.stray_locations.append(directory)
            plan.ahead = max(plan.ahead, epoch if epoch > state.epoch else 0)
        elif epoch <= state.epoch and restored(state.rolled_back, epoch) is not None:
            plan.foreign.append(directory)
        else:
            refuse(witnesses.location(key))


class _Origins:
    """Where a directory without ``table.size`` may come from. What this needs is read once, if there is one at all."""

    def __init__(self, place: TablePlace, resumed: Resumed) -> None:
        self._place, self._resumed = place, resumed
        self._removed: set[LocationKey] | None = None
        self._largest: int | None = None

    def doubt(self, key: LocationKey, directory: Path) -> str | None:
        """Why a directory may be more than what an uncommitted batch left; None: it is that."""
        mark = read_mark(self._place.fs, directory)
        if mark is None or mark.generation is None:
            return "whose owner mark names no generation"
        if mark.generation < self._resumed.working:
            return f"which generation {mark.generation} made and later ones have not"
        if self._was_committed(key):
            return "where a committed location was before"
        stats = (self._place.fs.stat(directory / name) for name in self._place.fs.names(directory))
        size = sum(stat.size for stat in stats if stat)
        if size > self._bound():
            return f"which has more bytes ({size:,}) than one batch leaves"
        return None

    def _was_committed(self, key: LocationKey) -> bool:
        stream = self._resumed.state.stream
        if self._removed is None:
            entries = read_removals(self._place.of_stream(stream)).entries
            self._removed = {removal.key for _, removal in entries}
        if key in self._removed:
            return True
        record = newest(self._place, key.value)
        inputs = record.inputs if record is not None else ()
        return any((taken.stream, taken.internal) == (stream, key.internal) for taken in inputs)

    def _bound(self) -> int:
        if self._largest is None:
            locations = self._resumed.state.locations.values()
            sizes = (sum(physical_size(name, f.size) for name, f in location.files.items()) for location in locations)
            self._largest = max([LEAST_BYTES, *sizes])
        return self._largest


def _free_name(fs: Fs, directory: Path, generation: int) -> Path:
    taken = fs.names(directory.parent)
    names = (
        f"{SET_ASIDE}{directory.name}-g{generation}{f'-{again}' if again else ''}" for again in range(len(taken) + 1)
    )
    return directory.with_name(next(name for name in names if name not in taken))
