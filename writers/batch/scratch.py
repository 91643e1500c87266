"""Scratch directories of batches: who owns a location in a batch, rows that others spill, and which attempts may write.

The driver makes the directory when a batch begins, removes the file ``OPEN`` when it has every task's report, and the
directory when the batch ends. That file is the fencing token of the task attempts: Spark may still run one whose report
it discards. It checks the file under the lock of a location before it changes anything there.

The first task attempt at a location claims it by creating a file exclusively, and appends to the column files. All
other attempts, also of the same task, spill their rows to files of their own: Spark may run a task again while an
earlier attempt still runs (an executor taken for lost, a stage repeated after a lost shuffle file), and decides alone
which report counts. So no attempt changes bytes of another.

Rows for a truncated location are spilled too where the stream takes late rows: only the driver may open it anew.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import count, groupby
from pathlib import Path

import pyarrow as pa

from sparkhaven.store.epochs.state.log_values import LocationReport, Split
from sparkhaven.store.errors import CommitError, LockLostError
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import LocationKey
from sparkhaven.store.places import StreamPlace
from sparkhaven.writers.append.append import writing
from sparkhaven.writers.batch.rejects import Row
from sparkhaven.writers.task import StreamTarget

OPEN = "open"
_RUNS = count()


def scratch_name(target: StreamTarget, batch_id: int) -> str:
    """A unique name for the scratch directory of one run of a batch; attempts of another run never use it."""
    return f"{target.generation}-{batch_id}-{next(_RUNS)}"


def make_scratch(fs: Fs, scratch: Path) -> None:
    """Makes a scratch directory in which tasks may write."""
    fs.mkdirs(scratch)
    fs.write_new(scratch / OPEN, b"")


def close_scratch(fs: Fs, scratch: Path) -> None:
    """Fences off the tasks: from now on only the driver writes."""
    with writing(scratch, "scratch"):
        fs.unlink(scratch / OPEN)


def check_open(fs: Fs, scratch: Path, attempt: str) -> None:
    """LockLostError if the tasks of this batch are fenced off; called under the lock of a location."""
    if fs.stat(scratch / OPEN) is None:
        raise LockLostError(
            "another attempt has finished this task",
            where=attempt,
            expected=scratch / OPEN,
            found="no such file",
            hint="nothing to do. Another attempt wrote the same rows, or the batch is retried",
        )


def remove_scratch(fs: Fs, scratch: Path) -> None:
    """Removes a scratch directory, or a parent of several; atomic for an attempt that still runs."""
    ended = scratch.with_name(f".{scratch.name}")
    fs.remove_tree(ended)
    if fs.stat(scratch) is not None:
        fs.rename(scratch, ended)
        fs.remove_tree(ended)


def remove_stale_scratch(place: StreamPlace) -> None:
    """Removes what batches of a process that was killed have left. The caller has the lock of the stream."""
    remove_scratch(place.fs, place.scratch)


@contextmanager
def running(fs: Fs, scratch: Path) -> Iterator[None]:
    begin_scratch(fs, scratch)
    with ending(fs, scratch):
        yield


def begin_scratch(fs: Fs, scratch: Path) -> None:
    with writing(scratch, "scratch"):
        remove_scratch(fs, scratch)
        make_scratch(fs, scratch)


@contextmanager
def ending(fs: Fs, scratch: Path) -> Iterator[None]:
    """Removes the scratch directory of a batch at the end of the body, which commits the batch."""
    try:
        yield
    except Exception:
        with suppress(OSError):  # the first error counts
            remove_scratch(fs, scratch)
        raise
    try:
        remove_scratch(fs, scratch)
    except OSError as error:
        raise CommitError(
            f"the batch is committed, but its scratch directory cannot be removed: {error.strerror or error}",
            where=scratch,
            hint="free space or repair the disk, then restart. No row is lost or doubled",
            phase="scratch",
        ) from error


@dataclass(frozen=True, slots=True)
class SplitRows:
    """Adjacent rows of one location from one split."""

    split: Split
    rows: int


@dataclass(frozen=True, slots=True)
class SpillFile:
    """One scratch file: Arrow batches of one location, each from one split; ``parts`` in the same order."""

    key: LocationKey
    path: Path
    parts: tuple[SplitRows, ...]


@dataclass(frozen=True, slots=True)
class AppendedRows:
    """What a task has appended to a location that it owns; ``parts`` in row order.

    ``left``: numbers of rows that the task has left out, by split.
    """

    report: LocationReport
    parts: tuple[SplitRows, ...]
    left: Mapping[Split, Sequence[int]] = field(default_factory=dict)


class AttemptScratch:
    """The scratch directory of a batch, for one task attempt; ``attempt`` is unique among those of the task.

    Where it is not ``fenced`` off by the directory it makes it if need be.
    """

    def __init__(self, fs: Fs, directory: Path, task: int, attempt: int, *, fenced: bool = True) -> None:
        self._fenced = fenced
        self._fs, self.directory, self.task, self.attempt = fs, directory, task, attempt
        self._files = 0
        self._mine: dict[LocationKey, bool] = {}

    def check_open(self) -> None:
        """LockLostError if this attempt is fenced off; called under the lock of a location."""
        check_open(self._fs, self.directory, f"task {self.task}, attempt {self.attempt}")

    def claim(self, key: LocationKey) -> bool:
        """Whether this attempt owns the location in this batch; idempotent."""
        mine = self._mine.get(key)
        if mine is None:
            mine = self._mine[key] = self._fs.create(self.directory / f"{_short(key)}.claim")
        return mine

    def write(self, key: LocationKey, rows: Sequence[Row]) -> list[SpillFile]:
        """Spills rows of a location that another attempt owns; one file per run of batches of one schema."""
        files = []
        with writing(self.directory, "spill"):
            if not self._fenced:
                self._fs.mkdirs(self.directory)
            for schema, group in groupby(rows, key=lambda row: row[1].schema):
                run = list(group)
                sink = io.BytesIO()
                with pa.ipc.new_stream(sink, schema) as writer:
                    for _, batch in run:
                        writer.write_batch(batch)
                path = self.directory / f"{_short(key)}.{self.task}.{self.attempt}.{self._files}.arrow"
                self._files += 1
                self._fs.write_new(path, sink.getvalue())
                files.append(SpillFile(key, path, split_rows(run)))
        return files


def split_rows(rows: Iterable[Row]) -> tuple[SplitRows, ...]:
    """Row counts of batches by split, neighbours of one split added up."""
    return tuple(
        SplitRows(split, sum(batch.num_rows for _, batch in group))
        for split, group in groupby(rows, key=lambda row: row[0])
    )


def _short(key: LocationKey) -> str:
    return hashlib.sha256(f"{key.internal}\0{key.value}".encode()).hexdigest()[:32]
