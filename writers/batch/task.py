"""What one Spark task does with its splits: decode, append, sync, report. Plain Python, so tests run it without Spark.

Rows are buffered per location before they are encoded, because symbols in small batches cost several times as much; the
buffer is bounded in bytes. Errors are returned in the result, so that the driver gets their class and parts.

The C library's heap is kept from one block of rows to the next. What was freed is otherwise given back to the system,
which hands it out again page by page, each filled with zeros: 8 to 10 % of the time of a task that decodes JSON.
"""

from __future__ import annotations

import ctypes
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

import pyarrow as pa

from sparkhaven.store.epochs.state.log_values import Split
from sparkhaven.store.errors import CommitError, SparkhavenError, phase_of
from sparkhaven.store.io.fs import Fs, SyncGuard
from sparkhaven.store.layout import LocationKey
from sparkhaven.writers.append.append import LocationAppender
from sparkhaven.writers.append.worker_cache import WorkerCache
from sparkhaven.writers.batch.rejects import LateSplits, RejectedFiles, Row, RowsWithoutRoom, batches_of, reject_late
from sparkhaven.writers.batch.scratch import AppendedRows, AttemptScratch, SpillFile, SplitRows, split_rows
from sparkhaven.writers.task import Decode, DecodeTables, OneTable, SplitNotes, StreamTarget

KEPT = 64 << 20  # bytes at the end of the heap that are free and not given back
LARGE = 32 << 20  # bytes from which on a piece of memory is not of the heap; the most that glibc takes
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3


@lru_cache(maxsize=1)
def keep_heap() -> bool:
    """Has this process keep its heap; False where the C library is not glibc, and nothing changes."""
    library = ctypes.CDLL(None)
    if not hasattr(library, "gnu_get_libc_version"):
        return False
    return bool(library.mallopt(_MMAP_THRESHOLD, LARGE) and library.mallopt(_TRIM_THRESHOLD, KEPT))


MAX_BUFFERED = 128 << 20  # bytes of Arrow rows that a task holds


@dataclass(frozen=True, slots=True)
class Task:
    """Splits of one task. ``index`` is the same for every attempt, ``attempt`` is unique in the batch.

    ``alone``: no other attempt of any task runs in this batch. ``batch`` names the scratch directory, new for each run.
    ``instead``: for committed splits what is left to read, None for nothing or the rest of a range.
    """

    index: int
    attempt: int
    batch: str
    splits: Iterable[Split]
    alone: bool = False
    instead: Mapping[Split, Split | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TaskResult:
    """What a task returns to the driver. With ``error`` nothing of the batch may be committed.

    ``written``: bytes appended to column files.
    """

    index: int
    splits: tuple[Split, ...] = ()
    skipped: tuple[Split, ...] = ()
    appended: tuple[AppendedRows, ...] = ()
    spilled: tuple[SpillFile, ...] = ()
    notes: SplitNotes = field(default_factory=SplitNotes)
    seconds: dict[str, float] = field(default_factory=dict)
    error: SparkhavenError | None = None
    written: int = 0


@dataclass(frozen=True, slots=True)
class TaskTable:
    """One table of a task: ``decode`` gives its rows alone. ``scratch`` and ``instead`` are those of its batch.

    ``fenced`` False: nobody else runs the task, and no scratch directory is made before it needs one.
    """

    target: StreamTarget
    decode: Decode | None
    scratch: str
    instead: Mapping[Split, Split | None] = field(default_factory=dict)
    fenced: bool = True


def run_task(
    fs: Fs,
    memory: WorkerCache,
    target: StreamTarget,
    decode: Decode,
    task: Task,
    *,
    max_buffered: int = MAX_BUFFERED,
) -> TaskResult:
    """Decodes, appends and syncs the splits of a task; returns sparkhaven and disk errors in the result."""
    table = TaskTable(target, decode, task.batch, task.instead)
    tables, together = {0: table}, OneTable(decode)
    return run_tables(fs, memory, tables, together, task, max_buffered=max_buffered)[0]


def run_tables(
    fs: Fs,
    memory: WorkerCache,
    tables: Mapping[int, TaskTable],
    decode: DecodeTables,
    task: Task,
    *,
    max_buffered: int = MAX_BUFFERED,
) -> dict[int, TaskResult]:
    """A task whose splits feed several tables, by number: each split is decoded once for all that take the same of it.

    An error is in the result of each table.
    """
    root = next(iter(tables.values())).target.layout.root
    keep_heap()
    try:
        if not task.alone:  # it runs in another process, perhaps on another machine, than the driver
            for table in tables.values():
                table.target.require_root(fs)
        most = max_buffered // len(tables)
        runs = {number: _Run(fs, memory, table, task, most) for number, table in tables.items()}
        return _run_all(fs, root, runs, decode, task)
    except SparkhavenError as error:
        failed = error
    except OSError as error:
        failed = CommitError(
            f"a task failed: {error}",
            where=error.filename or root,
            hint="free space or repair the disk, then restart the stream. Nothing of this batch was committed",
            phase=phase_of(error),
        )
    return dict.fromkeys(tables, TaskResult(task.index, error=failed))


def _run_all(fs: Fs, root: Path, runs: Mapping[int, _Run], decode: DecodeTables, task: Task) -> dict[int, TaskResult]:
    started = time.perf_counter()
    with fs.sync_guard(root) as guard:
        for named in task.splits:
            for split, numbers in _taking(named, runs).items():
                rejected_before = {number: runs[number].notes.rejected_rows for number in numbers}
                taken = Counter[int]()
                for number, key, batch in decode(split, {number: runs[number].notes for number in numbers}):
                    taken[number] += batch.num_rows
                    runs[number].buffer(split, key, batch)
                for number, rejected in rejected_before.items():
                    notes = runs[number].notes
                    notes.require_all(taken[number], notes.rejected_rows - rejected, split.path)
        for run in runs.values():
            run.end()
        syncing = [run for run in runs.values() if run.table.target.policy.syncs_each_batch]
        before = time.perf_counter()
        if syncing:
            appenders = [appender for run in syncing for appender in run.appenders.values()]
            files = [path for appender in appenders for path in appender.touched]
            make_durable(fs, guard, files, [path for appender in appenders for path in appender.directories])
    ended = time.perf_counter()
    decoded = before - started - sum(run.append_seconds for run in runs.values())
    shares = {"sync": (ended - before) / len(runs), "decode": decoded / len(runs)}
    return {number: run.result(shares) for number, run in runs.items()}


def _taking(named: Split, runs: Mapping[int, _Run]) -> dict[Split, list[int]]:
    """What is to be read of a split, each with the tables that take it: most often all of it, for all of them."""
    taking: dict[Split, list[int]] = {}
    for number, run in runs.items():
        split = run.table.instead.get(named, named)
        if split is None:
            run.skipped.append(named)
        else:
            run.taken.append(split)
            taking.setdefault(split, []).append(number)
    return taking


class _Run:
    """What a task does for one table."""

    def __init__(
        self,
        fs: Fs,
        memory: WorkerCache,
        table: TaskTable,
        task: Task,
        max_buffered: int,
    ) -> None:
        directory = table.target.scratch(table.scratch)
        self.table = table
        self._rejected = RejectedFiles(fs, directory, task.index, task.attempt, fenced=table.fenced)
        self.notes = SplitNotes(sink=self._rejected)
        self._late, self._left = LateSplits(Counter), RowsWithoutRoom(table.decode)
        self._fs, self._memory, self._target, self._task = fs, memory, table.target, task
        self._max_buffered = max_buffered
        self._scratch = AttemptScratch(fs, directory, task.index, task.attempt, fenced=table.fenced)
        self._buffered: dict[LocationKey, list[Row]] = {}
        self._bytes = 0
        self._dictionaries: set[int] = set()  # where those lie that are part of `_bytes`
        self.appenders: dict[LocationKey, LocationAppender] = {}
        self._parts: dict[LocationKey, list[SplitRows]] = {}
        self._spilled: list[SpillFile] = []
        self.taken: list[Split] = []
        self.skipped: list[Split] = []
        self.append_seconds = 0.0

    def end(self) -> None:
        """Appends what is left, and rejects what only the writer can find."""
        self._flush()
        for split, keys in self._late.items():
            reject_late(self.table.decode, split, keys, self.notes)
        self._left.reject(self.notes)
        self.notes.sink, self.notes.rejected_files = None, self._rejected.files

    def result(self, shares: Mapping[str, float]) -> TaskResult:
        """``shares``: seconds of what all tables have in common."""
        reports = tuple(
            AppendedRows(appender.report(), tuple(self._parts[key]), self._left.of(key))
            for key, appender in self.appenders.items()
            if not appender.closed
        )
        return TaskResult(
            self._task.index,
            tuple(self.taken),
            tuple(self.skipped),
            reports,
            tuple(self._spilled),
            self.notes,
            {"append": self.append_seconds, **shares},
            written=sum(appender.written for appender in self.appenders.values()),
        )

    def buffer(self, split: Split, key: LocationKey, batch: pa.RecordBatch) -> None:
        if batch.num_rows:
            self._buffered.setdefault(key, []).append((split, batch))
            self._bytes += bytes_of(batch, self._dictionaries)
            if self._bytes >= self._max_buffered:
                self._flush()

    def _flush(self) -> None:
        started = time.perf_counter()
        for key, rows in self._buffered.items():
            if self._task.alone or self._scratch.claim(key):
                self._append(key, rows)
            else:
                self._spilled.extend(self._scratch.write(key, rows))
        self._buffered, self._bytes = {}, 0
        self._dictionaries.clear()
        self.append_seconds += time.perf_counter() - started

    def _append(self, key: LocationKey, rows: list[Row]) -> None:
        appender = self.appenders.get(key)
        if appender is None:
            appender = LocationAppender(self._fs, self._target, key, self._memory, may_write=self._may_write)
            self.appenders[key] = appender
            self._parts[key] = []
        if appender.closed and self._target.takes_late:  # the driver opens it anew
            self._spilled.extend(self._scratch.write(key, rows))
            return
        if appender.closed:
            for part in split_rows(rows):
                self._late[part.split][key] += part.rows
            return
        rows = self._left.taken(appender, rows)
        appender.append(batches_of(rows))
        self._parts[key].extend(split_rows(rows))

    def _may_write(self) -> None:
        self._target.check_generation(self._fs)
        if self.table.fenced:
            self._scratch.check_open()


def bytes_of(batch: pa.RecordBatch, known: set[int]) -> int:
    """Bytes of a batch without the ``known`` dictionaries, which many batches share; adds those that it has."""
    size = 0
    for column in batch.columns:
        if not pa.types.is_dictionary(column.type):
            size += column.nbytes
            continue
        size += column.indices.nbytes
        address = column.dictionary.buffers()[1].address
        if address not in known:
            known.add(address)
            size += column.dictionary.nbytes
    return size


def make_durable(fs: Fs, guard: SyncGuard, files: Iterable[Path], directories: Iterable[Path]) -> None:
    """Step 4: file content, then directory entries; in parallel, or by one ``syncfs`` (``store.io.sync`` decides).

    CommitError: a sync failed. It is not retried, because the kernel may have dropped the pages.
    """
    try:
        with fs.during("sync-files"):
            guard.sync(files)
        with fs.during("sync-dirs"):
            guard.sync((), directories)
    except OSError as error:
        raise CommitError(
            f"written files cannot be synced: {error.strerror or error}",
            where=error.filename,
            hint="free space or repair the disk, then restart the stream. Nothing of this batch was committed",
            phase=phase_of(error),
        ) from error
