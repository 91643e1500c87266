"""Cached states of a table's streams: removing a year of dates reads each commit log once."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from sparkhaven.store.epochs.files.lock import lock_commits
from sparkhaven.store.epochs.files.removals import read_removals
from sparkhaven.store.epochs.reading.stream_state import load_stream
from sparkhaven.store.epochs.state.removed_locations import Removal
from sparkhaven.store.epochs.state.replay import StreamState
from sparkhaven.store.errors import LockLostError
from sparkhaven.store.io.fs import Lock
from sparkhaven.store.places import TablePlace

LOCK_TRIES, LOCK_PAUSE_S = 500, 0.02
Stamp = tuple[tuple[int, int] | None, ...]


class States:
    """One state per stream, reloaded only when another process has written to its logs.

    The caller holds the stream's commit lock, so that no commit comes in between. ``pause`` waits for a busy one.
    """

    def __init__(self, place: TablePlace, pause: Callable[[float], None] = time.sleep) -> None:
        self._place, self._pause = place, pause
        self._known: dict[str, tuple[Stamp, StreamState]] = {}
        self._removals: dict[str, tuple[Stamp, dict[str, list[Removal]]]] = {}

    def commits_held(self, stream: str) -> Lock:
        """The commit lock of a stream; LockLostError: it stays busy."""
        path = self._place.of_stream(stream).stream_removals
        for _ in range(LOCK_TRIES):
            lock = lock_commits(self._place.fs, path)
            if lock is not None:
                return lock
            self._pause(LOCK_PAUSE_S)
        raise LockLostError(
            "the stream's commit lock is busy. It commits without a pause, or another removal is running",
            where=path,
            expected=f"the lock within {LOCK_TRIES * LOCK_PAUSE_S:.0f} s",
            hint="run it again",
        )

    def of(self, stream: str) -> StreamState:
        """The newest committed state of a stream, with every removal."""
        stamp = self._stamp(stream)
        known = self._known.get(stream)
        if known is None or known[0] != stamp:
            known = self._known[stream] = (stamp, load_stream(self._place.of_stream(stream)))
        return known[1]

    def removals(self, stream: str, value: str) -> list[Removal]:
        """The removals of a date that a stream has on record, oldest first. Raises what ``read_removals`` raises."""
        stamp = self._stamp(stream)
        if stream not in self._removals or self._removals[stream][0] != stamp:
            by_date: dict[str, list[Removal]] = {}
            for _, removal in read_removals(self._place.of_stream(stream)).entries:
                by_date.setdefault(removal.key.value, []).append(removal)
            self._removals[stream] = (stamp, by_date)
        return self._removals[stream][1].get(value, [])

    def removed(self, stream: str, removals: Sequence[Removal]) -> None:
        """Applies removals that this process has just recorded under the same lock."""
        (_, state), stamp = self._known[stream], self._stamp(stream)
        for removal in removals:
            state.remove(removal)
        self._known[stream] = (stamp, state)
        if stream in self._removals:
            by_date = self._removals[stream][1]
            for removal in removals:
                by_date.setdefault(removal.key.value, []).append(removal)
            self._removals[stream] = (stamp, by_date)

    def _stamp(self, stream: str) -> Stamp:
        place = self._place.of_stream(stream)
        stats = map(place.fs.stat, (place.stream_log, place.stream_checkpoint, place.stream_removals))
        return tuple((stat.inode, stat.size) if stat else None for stat in stats)
