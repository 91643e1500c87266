"""Taken files of checkpoint and head: sizes and times packed, names in one index that is built on first use.

A stream that remembers hundreds of thousands of files looks up only a few of them at its start.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from sparkhaven.store.epochs.state.log_values import FileId

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
