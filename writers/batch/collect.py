"""Step 5 of a batch: collects the tasks' reports and combines the rows of several tasks at one location."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from sparkhaven.store.epochs.state.log_values import FileId, LocationReport, OffsetRange, Split
from sparkhaven.store.errors import EpochConflictError
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import LocationKey
from sparkhaven.writers.append.worker_cache import WorkerCache
from sparkhaven.writers.batch.combine import (
    AppendedRows,
    Combining,
    Reopen,
    SpillFile,
    by_position,
    combine,
    split_order,
)
from sparkhaven.writers.batch.rejects import LateSplits, RejectedFiles, reject_late
from sparkhaven.writers.batch.rows_without_room import RowsWithoutRoom
from sparkhaven.writers.batch.scratch import close_scratch
from sparkhaven.writers.batch.task import TaskResult, make_durable
from sparkhaven.writers.task.decoding import Decode, SplitNotes
from sparkhaven.writers.task.target import StreamTarget

DRIVER = -1  # the task number of the driver
REOPENED = "locations_reopened"  # count of truncated locations that took rows of a batch as new ones


@dataclass(slots=True)
class Collected:
    splits: tuple[Split, ...] = ()
    skipped: tuple[Split, ...] = ()
    reports: dict[LocationKey, LocationReport] = field(default_factory=dict)
    notes: SplitNotes = field(default_factory=SplitNotes)
    seconds: dict[str, float] = field(default_factory=dict)
    written: int = 0

    @property
    def rows(self) -> int:
        return sum(report.rows - report.base_rows for report in self.reports.values())

    @property
    def files(self) -> tuple[FileId, ...]:
        """The files among the splits, sorted; a file read in parts occurs once."""
        return tuple(sorted(split for split in by_position(self.splits) if isinstance(split, FileId)))

    @property
    def ranges(self) -> tuple[OffsetRange, ...]:
        """The ranges among the splits, sorted, with what tasks have told of their last messages."""
        ranges = (split for split in self.splits if isinstance(split, OffsetRange))
        return tuple(sorted(replace(read, last=self.notes.last.get(read)) for read in ranges))


def collect(
    fs: Fs,
    target: StreamTarget,
    memory: WorkerCache,
    results: Iterable[TaskResult],
    scratch: str,
    *,
    expected: Sequence[Split] | None = None,
    decode: Decode | None = None,
    reopen: Reopen = lambda _: False,
) -> Collected:
    """Step 5. Raises the first error of a task unchanged. ``expected`` splits must all have been read, once.

    FeedError: what was appended and rejected is not what the sources have, by their own count.

    ``results`` are final: attempts that still run are fenced off. ``reopen``: for rows that go to a truncated location.
    """
    with fs.during("collect"):
        close_scratch(fs, target.scratch(scratch))
        collected = Collected()
        owned: dict[LocationKey, AppendedRows] = {}
        spilled: dict[LocationKey, list[SpillFile]] = {}
        last = None
        for result in sorted(results, key=lambda result: result.index):
            if result.index == last:
                raise _conflict("two attempts of one task sent a report", f"task {last} of batch {scratch}")
            last = result.index
            if result.error is not None:
                raise result.error
            collected.splits += result.splits
            collected.skipped += result.skipped
            collected.notes.merge(result.notes)
            collected.written += result.written
            for name, seconds in result.seconds.items():
                collected.seconds[name] = collected.seconds.get(name, 0.0) + seconds
            for part in result.appended:
                if owned.setdefault(part.report.key, part) is not part:
                    raise _conflict("two tasks wrote to one location", target.location(part.report.key))
            for file in result.spilled:
                spilled.setdefault(file.key, []).append(file)
        _check_splits(collected.splits, expected)
        collected.reports = {key: part.report for key, part in owned.items()}
    if spilled:
        left = RowsWithoutRoom(decode)
        late = _combine(Combining(fs, target, memory, target.scratch(scratch), left, reopen), collected, owned, spilled)
        _reject(fs, target, scratch, collected, late, left, decode)
    notes = collected.notes
    notes.sources.require(collected.rows, notes.rejected_rows, f"stream {target.stream}, batch {scratch}")
    return collected


def _check_splits(splits: Sequence[Split], expected: Sequence[Split] | None) -> None:
    if len(set(splits)) != len(splits):
        raise _conflict("two tasks read one split", next(f.path for f in splits if splits.count(f) > 1))
    if expected is not None and set(splits) != set(expected):
        missing = sorted(set(expected) ^ set(splits), key=split_order)
        raise _conflict("the tasks did not read the planned splits", missing[0].path)


def _combine(
    work: Combining,
    collected: Collected,
    owned: dict[LocationKey, AppendedRows],
    spilled: dict[LocationKey, list[SpillFile]],
) -> LateSplits:
    late, target = LateSplits(Counter), work.target

    def reopen(key: LocationKey) -> bool:
        opened = target.takes_late and work.reopen(key)
        collected.notes.count(REOPENED, int(opened))
        return opened

    counting = replace(work, reopen=reopen)
    with work.fs.sync_guard(target.layout.root) as guard:
        files: list[Path] = []
        directories: list[Path] = []
        for key in sorted(spilled):
            combined = combine(counting, key, owned.get(key), spilled[key])
            if combined.report is not None:
                collected.reports[key] = combined.report
            else:  # truncated meanwhile: what its owner has appended is late too
                collected.reports.pop(key, None)
            collected.written += combined.written
            for part in combined.late:
                late[part.split][key] += part.rows
            files.extend(combined.touched)
            directories.extend(combined.directories)
        if target.policy.syncs_each_batch:
            make_durable(work.fs, guard, files, directories)
    return late


def _reject(
    fs: Fs,
    target: StreamTarget,
    scratch: str,
    collected: Collected,
    late: LateSplits,
    left: RowsWithoutRoom,
    decode: Decode | None,
) -> None:
    rejected = RejectedFiles(fs, target.scratch(scratch), DRIVER, 0, fenced=False)
    collected.notes.sink = rejected
    for split, keys in late.items():
        reject_late(decode, split, keys, collected.notes)
    left.reject(collected.notes)
    collected.notes.sink = None
    collected.notes.rejected_files.extend(rejected.files)


def _conflict(what: str, where: object) -> EpochConflictError:
    return EpochConflictError(what, where=where, hint="restart the stream. Nothing of this batch was committed")
