"""Keeps a log short between batches: compaction in slices, and the head, which spares reading kept records."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager

from sparkhaven.store.epochs.compaction import Compacted, Compaction, is_due
from sparkhaven.store.epochs.files.head import Head, HeadWriter, Mark
from sparkhaven.store.epochs.files.logfile import LogFile
from sparkhaven.store.epochs.files.removals import fold_removals, write_removals
from sparkhaven.store.epochs.state.commit_policy import Retention
from sparkhaven.store.epochs.state.replay import StreamState
from sparkhaven.store.epochs.state.rollbacks import RolledBackEpochs
from sparkhaven.store.errors import CorruptFileError, EpochConflictError, phase_of
from sparkhaven.store.framing.log_frames import HEADER
from sparkhaven.store.io.fs import Lock
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
