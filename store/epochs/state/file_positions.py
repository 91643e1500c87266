"""Positions of a file feed: which files are taken, within a bounded window of time.

A position is a *set* of (path, size, mtime), so files are classified one by one, by the resume rules (``ResumeRule``):

==========  =========================================  ===================================================
rule        a proposed file, or the batch as a whole   resolution
==========  =========================================  ===================================================
R1, R9      not taken, at or after the horizon         ``fresh``: to be written
R2, R4, R5  taken, same size and mtime                 ``taken``: dropped and counted, whatever the batch id
R3          taken, other size or mtime                 PositionGapError that names both
R5          before the horizon, not remembered         ``below``: it was classified before; dropped and counted
R6          (a set has no gaps)
R7          batch id restarted, new query id           ignored
R8          no epochs, but batch id above 0            PositionGapError: ``refuse_lost_log``
==========  =========================================  ===================================================

The window is bounded: after each commit the horizon (a watermark) rises to ``min(newest taken mtime, now) -
max_file_age`` and never falls, and taken files older than it are forgotten. A file older than the horizon is never
taken, so a horizon in the future would drop every new file: a file modified more than ``CLOCK_ALLOWANCE_S`` in the
future does not raise it, and a horizon that is in the future anyway (the clock was wrong before) is a PositionGapError.

Of taken files in checkpoint and head sizes and times are packed, and names stand in one index that is built on first
use: a stream that remembers hundreds of thousands of files looks up only a few of them at its start.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import chain, islice
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from sparkhaven.store.epochs.state.log_values import FileId, OffsetRange, Split
from sparkhaven.store.epochs.state.resume_rules import ROLL_BACK, ResumeRule
from sparkhaven.store.errors import PositionGapError

Taken = tuple[Sequence[str], Sequence[int] | NDArray[np.int64], Sequence[int] | NDArray[np.int64]]
"""Paths, sizes and times (ns) of taken files, by (time, path)."""


class Remembered:
    """Taken files by (time, path), each path once. Immutable, so copies of a window share it."""

    __slots__ = ("_paths", "_places", "_sizes", "_times")

    def __init__(self, parts: Iterable[Taken] = ()) -> None:
        self._paths: list[str] = []
        sizes, times = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        for paths, some, when in parts:
            self._paths += paths
            sizes.append(np.asarray(some, np.int64))
            times.append(np.asarray(when, np.int64))
        self._sizes, self._times = np.concatenate(sizes), np.concatenate(times)
        if np.any(self._times[1:] < self._times[:-1]):
            order = np.argsort(self._times, kind="stable")
            self._sizes, self._times = self._sizes[order], self._times[order]
            self._paths = [self._paths[index] for index in order]
        self._places: dict[str, int] | None = None

    def __len__(self) -> int:
        return len(self._paths)

    def first(self, horizon: int) -> int:
        """Number of files older than ``horizon``."""
        return int(np.searchsorted(self._times, horizon))

    def find(self, path: str) -> tuple[int, int, int] | None:
        if self._places is None:
            self._places = dict(zip(self._paths, range(len(self._paths)), strict=True))
        index = self._places.get(path)
        return None if index is None else (index, int(self._sizes[index]), int(self._times[index]))

    def paths(self, first: int) -> Iterator[str]:
        return islice(self._paths, first, None)

    def files(self, first: int) -> Iterator[FileId]:
        return file_ids((self._paths[first:], self._sizes[first:], self._times[first:]))


def file_ids(taken: Taken) -> Iterator[FileId]:
    paths, sizes, times = taken
    sizes, times = np.asarray(sizes, np.int64).tolist(), np.asarray(times, np.int64).tolist()
    return (FileId(path, size, time) for path, size, time in zip(paths, sizes, times, strict=True))


NO_HORIZON = -(2**63)
CLOCK_ALLOWANCE_S = 3600.0  # accepted difference between the clocks of machines


@dataclass(frozen=True, slots=True)
class Resolution:
    """How to treat the splits of a proposed batch: write ``fresh``; ``taken`` and ``below`` are no-ops, counted.

    ``cut``: partly committed ranges, each with its rest, which is among the ``fresh``.
    """

    fresh: tuple[Split, ...]
    taken: tuple[Split, ...]
    below: tuple[FileId, ...] = ()
    cut: tuple[tuple[OffsetRange, OffsetRange], ...] = ()

    @property
    def instead(self) -> dict[Split, Split | None]:
        """What to read in place of a proposed split, None for nothing; other splits are read as proposed."""
        return {**dict.fromkeys((*self.taken, *self.below)), **dict(self.cut)}


class FileWindow:
    """The taken files at or after ``horizon`` (ns since the epoch; ``NO_HORIZON`` before the first)."""

    __slots__ = ("_first", "_new", "_old", "_order", "_since", "_unread", "horizon")

    def __init__(self, files: Iterable[FileId] = (), horizon: int = NO_HORIZON) -> None:
        self.horizon = horizon
        self._old, self._first = Remembered(), 0  # of the old, those before the first are forgotten
        self._new: dict[str, tuple[int, int]] = {}
        self._order: list[tuple[int, str]] = []  # of the new
        self._unread: Callable[[], Iterable[Taken]] | None = None
        self._since: list[tuple[tuple[FileId, ...], int]] = []
        self.take(files, horizon)

    @classmethod
    def later(cls, read: Callable[[], Iterable[Taken]], count: int, horizon: int) -> FileWindow:
        """A window of ``count`` stored files, none before the horizon, that are read on first use."""
        window = cls(horizon=horizon)
        if count:
            window._unread = read
        return window

    def copy(self) -> FileWindow:
        self.read()
        window = FileWindow(horizon=self.horizon)
        window._old, window._first = self._old, self._first
        window._new, window._order = dict(self._new), list(self._order)
        return window

    def fork(self) -> FileWindow:
        """A copy of this window, which takes files of its own from now on; stored files are not read for that."""
        window = FileWindow(horizon=self.horizon)
        window._old, window._first, window._unread = self._old, self._first, self._unread
        window._new, window._order, window._since = dict(self._new), list(self._order), list(self._since)
        return window

    def read(self) -> None:
        if self._unread is None:
            return
        self._old = Remembered(self._unread())
        self._unread = None
        self._first = self._old.first(self.horizon)
        waiting, self._since = self._since, []
        for files, horizon in waiting:
            self.take(files, horizon)

    def __len__(self) -> int:
        self.read()
        return len(self._old) - self._first + len(self._new)

    def __iter__(self) -> Iterator[FileId]:
        """The remembered files by (mtime, path)."""
        self.read()
        new = (FileId(path, self._new[path][0], mtime) for mtime, path in sorted(self._order))
        return heapq.merge(self._old.files(self._first), new, key=_age)

    def paths(self) -> Iterator[str]:
        """Their paths, those that were read before those that were taken since."""
        self.read()
        return chain(self._old.paths(self._first), self._new)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, FileWindow):
            return NotImplemented
        return (self.horizon, len(self)) == (other.horizon, len(other)) and set(self) == set(other)

    __hash__ = None  # type: ignore[assignment]

    def stream(self) -> Iterator[FileId]:
        """The files of the window, frame by frame: those that were not read yet are not held."""
        if self._unread is None:
            return iter(self)
        new = {file.path: file for files, _ in self._since for file in files if file.mtime_ns >= self.horizon}
        old = (
            file
            for part in self._unread()
            for file in file_ids(part)
            if file.mtime_ns >= self.horizon and file.path not in new
        )
        return heapq.merge(old, sorted(new.values(), key=_age), key=_age)

    def known(self, path: str) -> FileId | None:
        size_and_time = self._found(path)
        return None if size_and_time is None else FileId(path, *size_and_time)

    def _found(self, path: str) -> tuple[int, int] | None:
        self.read()
        new = self._new.get(path)
        if new is not None:
            return new
        index, size, mtime_ns = self._old.find(path) or (-1, 0, 0)
        return (size, mtime_ns) if index >= self._first else None

    def status(self, file: FileId) -> Literal["fresh", "taken", "below"]:
        """The status of a file. PositionGapError: its path was taken with another size or mtime."""
        size_and_time = self._found(file.path)
        if size_and_time is None:
            return "below" if file.mtime_ns < self.horizon else "fresh"
        if size_and_time != (file.size, file.mtime_ns):
            raise PositionGapError(
                "a file changed after it was taken",
                where=file.path,
                expected=f"{size_and_time[0]} bytes, modified at {size_and_time[1]} ns",
                found=f"{file.size} bytes, modified at {file.mtime_ns} ns",
                rule=ResumeRule.CHANGED.cited,
                hint="restore the old content and write new rows to a new file. A file is read once",
            )
        return "taken"

    def classify(self, files: Iterable[FileId]) -> Resolution:
        sorted_out: dict[str, list[FileId]] = {"fresh": [], "taken": [], "below": []}
        seen: dict[str, FileId] = {}
        for file in files:
            other = seen.setdefault(file.path, file)
            if other is not file:
                raise PositionGapError(
                    "a batch names one file twice",
                    where=file.path,
                    expected=f"once, with {other.size} bytes",
                    found=f"again, with {file.size} bytes",
                    hint="delete Spark's checkpoint of this stream. The commit log decides what is taken",
                )
            sorted_out[self.status(file)].append(file)
        fresh, taken, below = (tuple(part) for part in sorted_out.values())
        return Resolution(fresh, taken, below)

    def next_horizon(self, files: Iterable[FileId], now_ns: int, max_age_ns: int) -> int:
        """The horizon after these files are taken; it never falls. PositionGapError: it is in the future."""
        latest = now_ns + round(CLOCK_ALLOWANCE_S * 1e9)
        newest = max((file.mtime_ns for file in files if file.mtime_ns <= latest), default=None)
        self.require_past(now_ns)
        return self.horizon if newest is None else max(self.horizon, min(newest, now_ns) - max_age_ns)

    def require_past(self, now_ns: int) -> None:
        """PositionGapError: the horizon is in the future, so that every new file would count as taken."""
        if self.horizon > now_ns + round(CLOCK_ALLOWANCE_S * 1e9):
            raise PositionGapError(
                "the stream has taken files from the future, so each new file would count as taken",
                where="horizon of the commit log",
                expected=f"at or before the clock of this machine, {moment(now_ns)}",
                found=moment(self.horizon),
                hint="if the clock is wrong now, set it and start again. If it was wrong when the last epochs were"
                f" made: {ROLL_BACK} before them. Their files are taken again",
            )

    def take(self, files: Iterable[FileId], horizon: int) -> None:
        """Remembers files that are not remembered yet, raises the horizon, forgets what is older than it."""
        if self._unread is not None:
            self._since.append((tuple(files), horizon))
            self.horizon = max(self.horizon, horizon)
            return
        for file in files:
            if self._found(file.path) is None:
                heapq.heappush(self._order, (file.mtime_ns, file.path))
                self._new[file.path] = (file.size, file.mtime_ns)
        self.horizon = max(self.horizon, horizon)
        self._first = max(self._first, self._old.first(self.horizon))
        while self._order and self._order[0][0] < self.horizon:
            del self._new[heapq.heappop(self._order)[1]]


def moment(ns: int) -> str:
    try:
        return datetime.fromtimestamp(ns / 1e9, UTC).isoformat(sep=" ", timespec="seconds")
    except (ValueError, OverflowError, OSError):
        return f"{ns} ns"


def _age(file: FileId) -> tuple[int, str]:
    return file.mtime_ns, file.path


def refuse_lost_log(stream: str, epoch: int, batch_id: int) -> None:
    """A stream without epochs must start at batch 0, else its log was lost."""
    if epoch == 0 and batch_id > 0:
        raise PositionGapError(
            "the commit log is empty, but Spark has run batches of this stream",
            where=f"stream {stream}",
            expected="batch 0",
            found=f"batch {batch_id}",
            rule=ResumeRule.LOST_LOG.cited,
            hint="restore the log. To start the table from the beginning, delete Spark's checkpoint of this stream",
        )
