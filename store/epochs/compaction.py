"""Compaction: the checkpoint moves up to a new rollback floor, the log keeps the later records.

Due when the log has at least twice the epochs to keep and at least as many bytes as the checkpoint (and 1 MiB), so the
cost per epoch is constant. It runs in slices between batches: the state at the old floor is advanced record by record
and written to a temporary file, the kept part of the log is copied likewise, and each slice syncs what it has written.
The last slice copies the records added meanwhile and renames both files, under the commit lock. Order: head,
checkpoint, log. Between the last two the log begins before the checkpoint; readers skip those records by their number.

``Shortening`` keeps a log short between batches: compaction in slices, and the head, which spares reading kept records.
"""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from sparkhaven.store.epochs.files.checkpoint import Checkpoint, checkpoint_parts, open_saved
from sparkhaven.store.epochs.files.head import Head, HeadWriter, Mark
from sparkhaven.store.epochs.files.logfile import LogFile
from sparkhaven.store.epochs.files.removals import fold_removals, read_removals, write_removals
from sparkhaven.store.epochs.reading.log_reader import mapped
from sparkhaven.store.epochs.state.commit_policy import Retention
from sparkhaven.store.epochs.state.log_records import CommitRecord, EpochRecord, Record, decode
from sparkhaven.store.epochs.state.replay import RolledBackEpochs, StreamState, restored
from sparkhaven.store.errors import CorruptFileError, EpochConflictError, phase_of
from sparkhaven.store.framing import HEADER, LOG_MAGIC, header, walk
from sparkhaven.store.io.fs import Lock
from sparkhaven.store.layout import LocationKey
from sparkhaven.store.places import StreamPlace


class Shortening:
    """State of one open log. ``checkpoint_bytes``: the checkpoint's size; ``touched``: locations since a slice."""

    def __init__(self, place: StreamPlace, *, log: LogFile, retention: Retention) -> None:
        self._place = place
        self._log, self._retention = log, retention
        self.head = HeadWriter(place, retention.head_bytes)
        self._running: Compaction | None = None
        self.checkpoint_bytes = self.touched = 0

    def begin(self, checkpoint_bytes: int, head_end: int, head_bytes: int) -> None:
        self.checkpoint_bytes = checkpoint_bytes
        self.head.begin(head_end, max(head_bytes, checkpoint_bytes))

    @property
    def running(self) -> bool:
        return self._running is not None

    def is_due(self, state: StreamState) -> bool:
        retention, epochs = self._retention, state.epoch - state.floor
        return is_due(epochs, retention.keep_epochs, self._log.length, self.checkpoint_bytes, retention.compact_bytes)

    def start(self, floor: int, undone: RolledBackEpochs, removals_end: int) -> None:
        """Starts a compaction to a durable epoch; ``removals_end`` bytes of the removals are durable too."""
        self._running = Compaction(self._place, log=self._log, undone=undone, floor=floor, removals_end=removals_end)

    def step(self, *, whole: bool) -> bool:
        """Runs a slice, or all of it; True when only ``finish`` is left. EpochConflictError: no space, no change."""
        assert self._running is not None  # noqa: S101 - asked before
        work, self.touched = max(self._retention.slice_work, 2 * self.touched), 0
        try:
            with self._room():
                return self._running.step(math.inf if whole else work)
        except (EpochConflictError, CorruptFileError):
            self.stop()
            raise

    def finish(self, state: StreamState, removals: tuple[int, Mark]) -> Compacted:
        """Replaces the files and writes a head of ``state``; the caller holds the commit lock.

        EpochConflictError: no space, nothing changed. CommitUnknownError: the content on disk is unknown.
        """
        running, before = self._running, self._inodes()
        assert running is not None  # noqa: S101 - step said so
        moved, (offset, mark) = running.moved, self._log.last
        last = (offset - moved, mark) if offset - moved >= HEADER.size else (HEADER.size, b"")
        try:
            self.head.replace(Head(state, running.floor, last, *removals, running.undone))
            done = running.finish()
        except OSError as error:
            self.stop()
            if self._inodes() != before:
                raise self._log.poison("a compaction failed while it replaced files", error) from error
            raise self._no_room(error) from error
        self._running = None
        self._log.adopt(done.log_bytes, moved)
        self.begin(done.checkpoint_bytes, done.log_bytes + removals[0], 0)
        return done

    def stop(self) -> None:
        if self._running is not None:
            self._running.drop()
            self._running = None

    def fold_is_due(self) -> bool:
        """Whether the removals are large enough to be folded; costs one stat."""
        stat = self._place.fs.stat(self._place.stream_removals)
        return stat is not None and stat.size >= self._retention.compact_bytes

    def keep_removals(self, commit_lock: Lock) -> None:
        """Makes the removals durable. EpochConflictError: no space."""
        with self._room():
            write_removals(self._place, [], commit_lock=commit_lock)

    def fold(self, commit_lock: Lock) -> Mark | None:
        """Folds the removals if they have grown enough; returns their last record. EpochConflictError: no space."""
        with self._room():
            return fold_removals(self._place, least_bytes=self._retention.compact_bytes, commit_lock=commit_lock)

    def _inodes(self) -> tuple[int, ...]:
        paths = self._place.stream_log, self._place.stream_checkpoint
        return tuple(stat.inode if stat else 0 for stat in map(self._place.fs.stat, paths))

    @contextmanager
    def _room(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise self._no_room(error) from error

    def _no_room(self, error: OSError) -> EpochConflictError:
        return EpochConflictError(
            "the log cannot be compacted",
            where=self._place.stream_log,
            found=error,
            hint="free space on the disk. Until then the stream continues with the longer, unchanged log",
            phase=phase_of(error),
        )


@contextmanager
def freed_later(path: Path) -> Iterator[None]:
    """The body may replace a file; a thread of its own frees its blocks afterwards.

    A rename frees them before it returns. Where ext4 is mounted with ``discard``, that took 0.1 to 0.3 s for a log of
    1 MiB, since many small appends leave many extents.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        yield
        return
    try:
        yield
    finally:
        _close_by_a_thread(descriptor)


def _close_by_a_thread(descriptor: int) -> None:
    try:
        threading.Thread(target=os.close, args=(descriptor,), name="freed-later", daemon=True).start()
    except RuntimeError:  # no further thread can be started
        os.close(descriptor)


BYTES_A_UNIT = 4096  # bytes copied in the time to apply one record to one location
PIECE = 1 << 18


@dataclass(frozen=True, slots=True)
class Compacted:
    """Result of a compaction: sizes, the new floor, and the epochs rolled back after it."""

    floor: int
    undone: RolledBackEpochs
    log_bytes: int
    checkpoint_bytes: int


def is_due(epochs: int, keep_epochs: int, log_bytes: int, checkpoint_bytes: int, least_bytes: int) -> bool:
    return epochs >= 2 * max(1, keep_epochs) and log_bytes >= max(least_bytes, checkpoint_bytes)


def new_floor(state: StreamState, undone: RolledBackEpochs, keep_epochs: int) -> int | None:
    """The newest epoch that is at least ``keep_epochs`` old and was not rolled back; None if that is the floor."""
    floor = state.epoch - keep_epochs
    while (older := restored(undone.dead, floor)) is not None:
        floor = older
    return floor if floor > state.floor else None


class Compaction:
    """A running compaction to the durable epoch ``floor``. A rollback ends it: ``drop``."""

    def __init__(
        self, place: StreamPlace, *, log: LogFile, undone: RolledBackEpochs, floor: int, removals_end: int
    ) -> None:
        """``removals_end``: number of durable bytes of the removals."""
        self._removals_end = removals_end
        self._place = place
        self._log, self._dead, self.floor = log, undone.dead, floor
        self._log_path, self._checkpoint = place.stream_log, place.stream_checkpoint
        self._temporaries = [path.with_name(f".{path.name}.tmp-next") for path in (self._checkpoint, self._log_path)]
        self._lengths = [0, 0]
        self._written: set[int] = set()
        self._cut = self._copied = 0
        self._locations: set[LocationKey] = set()
        self._work = self._slices()
        self._ready = False

    def step(self, work: float) -> bool:
        """Runs a slice of about ``work`` units, one per location of a record; True when only ``finish`` is left.

        OSError: the caller must ``drop``.
        """
        with self._place.fs.during("compaction-slice"):
            for done in self._work:
                work -= done
                if work <= 0:
                    break
            else:
                self._ready = True
            self._place.fs.sync([self._temporaries[place] for place in sorted(self._written)])
            self._written.clear()
        return self._ready

    @property
    def moved(self) -> int:
        """Number of bytes by which the records of the log move to the front."""
        return self._cut - HEADER.size

    @property
    def undone(self) -> RolledBackEpochs:
        dead = tuple(pair for pair in self._dead if pair[1] > self.floor)
        return RolledBackEpochs(dead, frozenset(self._locations))

    def finish(self) -> Compacted:
        """The last slice; the caller holds the commit lock. OSError: one of the two files may have been replaced."""
        fs = self._place.fs
        while self._copied < self._log.length:
            self._copy()
        fs.sync(self._temporaries)
        with fs.during("checkpoint-replace"), freed_later(self._checkpoint):
            fs.rename(self._temporaries[0], self._checkpoint)
            fs.sync_dirs([self._checkpoint.parent])
        with fs.during("log-replace"), freed_later(self._log_path):
            fs.rename(self._temporaries[1], self._log_path)
            fs.sync_dirs([self._log_path.parent])
        return Compacted(self.floor, self.undone, self._lengths[1], self._lengths[0])

    def drop(self) -> None:
        """Removes the temporary files; the next start removes those that remain."""
        for path in self._temporaries:
            try:
                self._place.fs.unlink(path)
            except OSError:
                continue

    def _slices(self) -> Iterator[float]:
        state, removals = self._start()
        folded = state.n
        source = self._place.fs.open(self._log_path)
        for part in walk(source):
            record = decode(part.payload, f"{self._log_path} at byte {part.offset}")
            if record.epoch > self.floor:
                break
            self._cut = part.end
            if record.n <= folded:
                continue
            if record.n != state.n + 1:
                raise self._damaged("commit log has a gap", state.n + 1, record.n)
            state.note(record)
            yield 0.1
            if self._is_live(record):
                for _ in state.steps(record):
                    yield 1
        if state.epoch != self.floor:
            raise self._damaged("the commit log does not reach its new floor", self.floor, state.epoch)
        self._cut = self._cut or HEADER.size
        for end, removal in read_removals(self._place, removals).entries:
            if removal.epoch > self.floor or end > self._removals_end:
                break
            state.remove(removal)
            removals = end
            yield 0.1
        self._place.fs.write_new(self._temporaries[0], b"")
        for data in checkpoint_parts(Checkpoint(state, removals), state.files.stream()):
            self._append(0, data)
            yield 0.5 + len(data) / BYTES_A_UNIT
        yield from self._rolled_back()
        self._place.fs.write_new(self._temporaries[1], b"")
        self._append(1, header(LOG_MAGIC, self.floor))
        self._copied = self._cut
        while self._log.length - self._copied > PIECE:
            yield self._copy() / BYTES_A_UNIT

    def _start(self) -> tuple[StreamState, int]:
        data = mapped(self._place.fs, self._checkpoint)
        if data is None:
            return StreamState(self._place.stream), 0
        checkpoint = open_saved(data, self._checkpoint).decode(self._place.stream)
        return checkpoint.state, checkpoint.removals

    def _is_live(self, record: Record) -> bool:
        if isinstance(record, EpochRecord):
            return restored(self._dead, record.epoch) is None
        return False

    def _rolled_back(self) -> Iterator[float]:
        if not any(epoch > self.floor for _, epoch in self._dead):
            return
        for part in walk(self._place.fs.open(self._log_path), self._cut):
            record = decode(part.payload, self._log_path)
            if isinstance(record, CommitRecord) and not self._is_live(record):
                self._locations.update(report.key for report in record.batch.reports)
            yield 1

    def _damaged(self, what: str, expected: int, found: int) -> CorruptFileError:
        hint = "restore log and checkpoint from one copy. Nothing was changed or deleted"
        return CorruptFileError(what, where=self._log_path, expected=expected, found=found, hint=hint)

    def _copy(self) -> int:
        data = self._place.fs.read_range(self._log_path, self._copied, min(PIECE, self._log.length - self._copied))
        self._append(1, data)
        self._copied += len(data)
        return len(data)

    def _append(self, file_index: int, data: bytes) -> None:
        self._place.fs.write_at(self._temporaries[file_index], self._lengths[file_index], data)
        self._lengths[file_index] += len(data)
        self._written.add(file_index)
