"""Several tasks of one batch write to one location: one appends, the others spill, the driver combines.

The first task attempt at a location claims it by creating a file exclusively, and appends to the column files. All
other attempts, also of the same task, spill their rows to files of their own in the batch's scratch directory: Spark
may run a task again while an earlier attempt still runs (an executor taken for lost, a stage repeated after a lost
shuffle file), and decides alone which report counts. So no attempt changes bytes of another, and the driver uses only
the files of the attempts whose reports it received.

Rows for a truncated location are spilled too where the stream takes late rows: only the driver may open it anew.

After the stage the driver stops the writing of tasks and orders the rows of each location by split. If the owner's
splits come first, the spilled rows follow; otherwise the owner's tail is read back, truncated, and all rows are
appended in order. The tail of an owner whose report does not count is truncated too. So the bytes never depend on
timing.

Several tasks may also read one file, by parts; its position is the whole file. A part exists from the plan of a batch
to its commit. The log classifies whole files, and an epoch takes all parts of a file or none.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa

from sparkhaven.store.epochs.state.file_positions import Resolution
from sparkhaven.store.epochs.state.log_values import FileId, FilePart, LocationReport, Split
from sparkhaven.store.errors import EpochConflictError
from sparkhaven.store.format.table import table_size
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import LocationKey
from sparkhaven.store.scan.column_file import open_column
from sparkhaven.writers.append.append import LocationAppender, writing
from sparkhaven.writers.append.worker_cache import WorkerCache
from sparkhaven.writers.batch.rows_without_room import Row, RowsWithoutRoom, batches_of
from sparkhaven.writers.batch.scratch import check_open
from sparkhaven.writers.task.target import StreamTarget

READ_BACK_ROWS = BUNDLE_ROWS = 262_144

Reopen = Callable[[LocationKey], bool]
"""Makes a truncated location take rows as a new one; whether it does now."""


def split_order(split: Split) -> tuple[Any, ...]:
    """Sort key of a split: files by time, path and offset in the file; ranges by topic, partition and start."""
    if isinstance(split, FileId):
        return (0, split.mtime_ns, split.path, split.size, split.start if isinstance(split, FilePart) else 0)
    return (1, split.topic, split.partition, split.start)


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
    """What a driver combines the rows of a batch with: ``scratch`` is its directory, ``left`` the rows left out."""

    fs: Fs
    target: StreamTarget
    memory: WorkerCache
    scratch: Path
    left: RowsWithoutRoom
    reopen: Reopen


def combine(work: Combining, key: LocationKey, owned: AppendedRows | None, spilled: Sequence[SpillFile]) -> Combined:
    """Orders the rows of all tasks at one location by split; runs when no task writes. Does not sync.

    A truncated location takes them as a new one, where ``reopen`` has made it one.
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
        appender.append(batches_of(work.left.taken(appender, rows, owned.left if owned is not None else None)))
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
