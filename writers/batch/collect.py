"""Step 5 of a batch: collects the tasks' reports and combines the rows of several tasks at one location.

Several tasks of one batch write to one location: one appends, the others spill (``writers.batch.scratch``), the driver
combines. It uses only the files of the attempts whose reports it received. After the stage it stops the writing of
tasks and orders the rows of each location by split. If the owner's splits come first, the spilled rows follow;
otherwise the owner's tail is read back, truncated, and all rows are appended in order. The tail of an owner whose
report does not count is truncated too. So the bytes never depend on timing.

Several tasks may also read one file, by parts; its position is the whole file. A part exists from the plan of a batch
to its commit. The log classifies whole files, and an epoch takes all parts of a file or none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa

from sparkhaven.store.epochs.state.file_positions import Resolution
from sparkhaven.store.epochs.state.log_values import FileId, FilePart, LocationReport, OffsetRange, Split
from sparkhaven.store.errors import EpochConflictError
from sparkhaven.store.format.table import table_size
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import LocationKey
from sparkhaven.store.scan.column_file import open_column
from sparkhaven.writers.append.append import LocationAppender
from sparkhaven.writers.append.worker_cache import WorkerCache
from sparkhaven.writers.batch.rejects import LateSplits, RejectedFiles, Row, RowsWithoutRoom, batches_of, reject_late
from sparkhaven.writers.batch.scratch import AppendedRows, AttemptScratch, SpillFile, SplitRows, close_scratch
from sparkhaven.writers.batch.task import TaskResult, make_durable
from sparkhaven.writers.task import Decode, SplitNotes, StreamTarget

READ_BACK_ROWS = BUNDLE_ROWS = 262_144

Reopen = Callable[[LocationKey], bool]
"""Makes a truncated location take rows as a new one; whether it does now."""
DRIVER = -1  # the task number of the driver
REOPENED = "locations_reopened"  # count of truncated locations that took rows of a batch as new ones


def split_order(split: Split) -> tuple[Any, ...]:
    """Sort key of a split: files by time, path and offset in the file; ranges by topic, partition and start."""
    if isinstance(split, FileId):
        return (0, split.mtime_ns, split.path, split.size, split.start if isinstance(split, FilePart) else 0)
    return (1, split.topic, split.partition, split.start)


@dataclass(frozen=True, slots=True)
class Combined:
    """A location with all rows of the batch, not synced. ``late`` rows were not taken; ``written``: bytes appended."""

    report: LocationReport | None
    touched: tuple[Path, ...]
    directories: tuple[Path, ...]
    late: tuple[SplitRows, ...] = ()
    written: int = 0


@dataclass(frozen=True, slots=True)
class Combining:
    """What the driver collects and combines the rows of a batch with; ``batch`` names its scratch directory.

    ``decode`` reads splits again for rows that are rejected late. ``reopen``: for rows that go to a truncated location.
    """

    fs: Fs
    target: StreamTarget
    memory: WorkerCache
    batch: str
    decode: Decode | None = None
    reopen: Reopen = lambda _: False

    @property
    def scratch(self) -> Path:
        return self.target.scratch(self.batch)


def combine(
    work: Combining,
    key: LocationKey,
    owned: AppendedRows | None,
    spilled: Sequence[SpillFile],
    left: RowsWithoutRoom,
) -> Combined:
    """Orders the rows of all tasks at one location by split; runs when no task writes. Does not sync.

    A truncated location takes them as a new one, where ``reopen`` has made it one. Rows without room go to ``left``.
    """
    fs, target = work.fs, work.target

    def may_write() -> None:
        target.check_generation(fs)

    def open_location(resume: LocationReport | None = None) -> LocationAppender:
        return LocationAppender(fs, target, key, work.memory, may_write=may_write, resume=resume)

    first = min(split_order(part.split) for file in spilled for part in file.parts)
    read_back = owned is None or any(split_order(part.split) >= first for part in owned.parts)
    if owned is not None and not read_back:
        appender = open_location(owned.report)
    else:
        if owned is not None:
            spilled = [*_read_back(fs, target, owned, work.scratch), *spilled]
        appender = open_location()
    if appender.closed and work.reopen(key):
        appender = open_location()
    if appender.closed:
        own = () if owned is None or read_back else owned.parts
        return Combined(None, (), (), (*own, *(part for file in spilled for part in file.parts)))
    for rows in _bundles(_in_order(fs, spilled)):
        appender.append(batches_of(left.taken(appender, rows, owned.left if owned is not None else None)))
    return Combined(appender.report(), tuple(appender.touched), tuple(appender.directories), written=appender.written)


def _bundles(rows: Iterable[Row]) -> Iterator[list[Row]]:
    """Groups batches, because small appends are expensive."""
    bundle: list[Row] = []
    for row in rows:
        bundle.append(row)
        if sum(part.num_rows for _, part in bundle) >= BUNDLE_ROWS:
            yield bundle
            bundle = []
    if bundle:
        yield bundle


def _in_order(fs: Fs, spilled: Sequence[SpillFile]) -> Iterator[Row]:
    """Rows of spill files by split. One task reads a split, and its files are in write order."""
    pieces = [
        (split_order(part.split), number, position)
        for number, file in enumerate(spilled)
        for position, part in enumerate(file.parts)
    ]
    opened: dict[int, list[list[pa.RecordBatch]]] = {}
    for _, number, position in sorted(pieces):
        if number not in opened:
            opened[number] = _parts_in(fs, spilled[number])
        yield from ((spilled[number].parts[position].split, batch) for batch in opened[number][position])


def _parts_in(fs: Fs, file: SpillFile) -> list[list[pa.RecordBatch]]:
    stat = fs.stat(file.path)
    batches = list(pa.ipc.open_stream(fs.map(file.path, stat.size if stat else 1)))
    parts: list[list[pa.RecordBatch]] = []
    for part in file.parts:
        rows, piece = 0, []
        while rows < part.rows:
            batch = batches.pop(0)
            rows += batch.num_rows
            piece.append(batch)
        parts.append(piece)
    return parts


def _read_back(fs: Fs, target: StreamTarget, owned: AppendedRows, scratch: Path) -> list[SpillFile]:
    report, directory = owned.report, target.location(owned.report.key)
    sizes = {name: state.size for name, state in report.files.items()}
    committed = table_size.load(fs, directory) if report.base_epoch else None
    named_by = target.schema.version if committed is None else committed.named_by
    spill = AttemptScratch(fs, scratch, task=-1, attempt=0)
    copies = []
    start = report.base_rows
    for part in owned.parts:
        for low in range(start, start + part.rows, READ_BACK_ROWS):
            stop = min(low + READ_BACK_ROWS, start + part.rows)
            columns = {
                column.name: open_column(fs, directory, column.at(named_by), sizes, report.rows).read(low, stop)
                for column in target.schema.stored
            }
            copies.extend(spill.write(report.key, [(part.split, pa.RecordBatch.from_pydict(columns))]))
        start += part.rows
    return copies


def by_position(splits: Iterable[Split]) -> dict[Split, list[Split]]:
    """The positions that splits belong to, each with its splits in order.

    EpochConflictError: the parts of a file have a gap or overlap.
    """
    positions: dict[Split, list[Split]] = {}
    for split in splits:
        positions.setdefault(split.whole if isinstance(split, FilePart) else split, []).append(split)
    for whole, parts in positions.items():
        if isinstance(whole, FileId) and any(isinstance(part, FilePart) for part in parts):
            _require_tiled(whole, parts)
    return positions


def classified(splits: Sequence[Split], classify: Callable[[Sequence[Split]], Resolution]) -> Resolution:
    """The resolution that ``classify`` gives for positions, mapped to their splits."""
    parted = any(isinstance(split, FilePart) for split in splits)
    wholes = by_position(splits) if parted else {}
    resolution = classify(list(wholes) if parted else splits)  # ``classify`` refuses a repeated split

    def parts(positions: Iterable[Split]) -> tuple[Split, ...]:
        return tuple(split for position in positions for split in wholes.get(position, [position]))

    below = tuple(split for split in parts(resolution.below) if isinstance(split, FileId))
    return Resolution(parts(resolution.fresh), parts(resolution.taken), below, resolution.cut)


def _require_tiled(whole: FileId, splits: Sequence[Split]) -> None:
    parts = sorted(split for split in splits if isinstance(split, FilePart))
    joints = [(before.stop, after.start) for before, after in pairwise(parts)]
    ends = parts[0].start == 0 and parts[-1].stop == whole.size
    if not ends or len(parts) < len(splits) or any(stop != start for stop, start in joints):
        raise EpochConflictError(
            "the parts of a file do not cover it exactly once",
            where=whole.path,
            expected=f"bytes 0 to {whole.size}, once",
            found=", ".join(f"{part.start} to {part.stop}" for part in parts),
            hint="restart the stream. Nothing of this batch was committed",
        )


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


def collect(work: Combining, results: Iterable[TaskResult], expected: Sequence[Split] | None = None) -> Collected:
    """Step 5. Raises the first error of a task unchanged. ``expected`` splits must all have been read, once.

    FeedError: what was appended and rejected is not what the sources have, by their own count.

    ``results`` are final: attempts that still run are fenced off.
    """
    target = work.target
    with work.fs.during("collect"):
        close_scratch(work.fs, work.scratch)
        collected = Collected()
        owned: dict[LocationKey, AppendedRows] = {}
        spilled: dict[LocationKey, list[SpillFile]] = {}
        last = None
        for result in sorted(results, key=lambda result: result.index):
            if result.index == last:
                raise _conflict("two attempts of one task sent a report", f"task {last} of batch {work.batch}")
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
        left = RowsWithoutRoom(work.decode)
        late = _combine(work, collected, owned, spilled, left)
        _reject(work, collected, late, left)
    notes = collected.notes
    notes.sources.require(collected.rows, notes.rejected_rows, f"stream {target.stream}, batch {work.batch}")
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
    left: RowsWithoutRoom,
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
            combined = combine(counting, key, owned.get(key), spilled[key], left)
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


def _reject(work: Combining, collected: Collected, late: LateSplits, left: RowsWithoutRoom) -> None:
    rejected = RejectedFiles(work.fs, work.scratch, DRIVER, 0, fenced=False)
    collected.notes.sink = rejected
    for split, keys in late.items():
        reject_late(work.decode, split, keys, collected.notes)
    left.reject(collected.notes)
    collected.notes.sink = None
    collected.notes.rejected_files.extend(rejected.files)


def _conflict(what: str, where: object) -> EpochConflictError:
    return EpochConflictError(what, where=where, hint="restart the stream. Nothing of this batch was committed")
