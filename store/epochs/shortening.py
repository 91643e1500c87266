"""Retention a log short between batches: a compaction in slices, and the head that spares reading what is kept."""

from __future__ import annotations

import math
from pathlib import Path

from store.epochs.compaction import Compacted, Compaction, is_due
from store.epochs.files.head import Head, HeadFiles, HeadWriter, Mark
from store.epochs.files.logfile import LogFile
from store.epochs.files.removals import fold_removals, write_removals
from store.epochs.files.rolled_back import RolledBackEpochs
from store.epochs.retention import Retention
from store.epochs.state.replay import StreamState
from store.errors import CorruptFileError, EpochConflictError, phase_of
from store.framing.frames import HEADER
from store.io.fs import Fs, Lock
from store.layout import Layout, TableName


class Shortening:
    """Of one open log. ``checkpoint_bytes``: of the checkpoint; ``touched``: locations of batches since a slice."""

    def __init__(
        self, fs: Fs, layout: Layout, table: TableName, stream: str, *, log: LogFile, retention: Retention
    ) -> None:
        self._where = fs, layout, table, stream
        self._log, self._retention = log, retention
        self._head = HeadWriter(HeadFiles.of(fs, layout, table, stream), retention.head_bytes)
        self._running: Compaction | None = None
        self.checkpoint_bytes = self.touched = 0

    def begin(self, checkpoint_bytes: int, head_end: int, head_bytes: int) -> None:
        """Goes on from what a start has found."""
        self.checkpoint_bytes = checkpoint_bytes
        self._head.begin(head_end, max(head_bytes, checkpoint_bytes))

    @property
    def running(self) -> bool:
        """Whether a compaction is under way."""
        return self._running is not None

    def is_due(self, state: StreamState) -> bool:
        """Whether one is to begin."""
        retention, epochs = self._retention, state.epoch - state.floor
        return is_due(epochs, retention.keep_epochs, self._log.length, self.checkpoint_bytes, retention.compact_bytes)

    def start(self, floor: int, undone: RolledBackEpochs, removals_end: int) -> None:
        """Begins one to a durable epoch; so are that many bytes of the removals."""
        self._running = Compaction(*self._where, log=self._log, undone=undone, floor=floor, removals_end=removals_end)

    def step(self, *, whole: bool) -> bool:
        """Does a slice, or all of it; True once only ``finish`` is left. EpochConflictError: no room, no change."""
        assert self._running is not None  # noqa: S101 - asked before
        work, self.touched = max(self._retention.slice_work, 2 * self.touched), 0
        try:
            return self._running.step(math.inf if whole else work)
        except OSError as error:
            self.stop()
            raise self.no_room(error) from error
        except CorruptFileError:
            self.stop()
            raise

    def finish(self, state: StreamState, removals: tuple[int, Mark]) -> Compacted:
        """Puts the new files in place, for who holds the lock of commits, with a head of ``state`` for them.

        EpochConflictError: no room, nothing changed. CommitUnknownError: it is unknown what is on disk.
        """
        running, before = self._running, self._inodes()
        assert running is not None  # noqa: S101 - step said so
        moved, (at, mark) = running.moved, self._log.last
        last = (at - moved, mark) if at - moved >= HEADER.size else (HEADER.size, b"")
        try:
            self._head.replace(Head(state, running.floor, last, *removals, running.undone))
            done = running.finish()
        except OSError as error:
            self.stop()
            if self._inodes() != before:
                raise self._log.poison("a compaction stopped half way", error) from error
            raise self.no_room(error) from error
        self._running = None
        self._log.adopt(done.log_bytes, moved)
        self.begin(done.checkpoint_bytes, done.log_bytes + removals[0], 0)
        return done

    def stop(self) -> None:
        """Gives up what is under way."""
        if self._running is not None:
            self._running.drop()
            self._running = None

    def fold_is_due(self) -> bool:
        """Whether the removals have a size at which they may be folded; costs one stat."""
        fs, layout, table, stream = self._where
        found = fs.stat(layout.stream_removals(table, stream))
        return found is not None and found.size >= self._retention.compact_bytes

    def keep_removals(self, commit_lock: Lock) -> None:
        """Makes the removals durable. EpochConflictError: no room."""
        try:
            write_removals(*self._where, [], commit_lock=commit_lock)
        except OSError as error:
            raise self.no_room(error) from error

    def fold(self, commit_lock: Lock) -> Mark | None:
        """Shortens the removals where they have grown enough; their last record then. EpochConflictError: no room."""
        try:
            return fold_removals(*self._where, least_bytes=self._retention.compact_bytes, commit_lock=commit_lock)
        except OSError as error:
            raise self.no_room(error) from error

    def head_is_due(self, removals_end: int) -> bool:
        """Whether log and removals have outgrown the head."""
        return self._head.is_due(self._log.length + removals_end)

    def write_head(self, state: StreamState, undone: RolledBackEpochs, removals: tuple[int, Mark]) -> bool:
        """Replaces the head; False where it could not be written."""
        return self._head.write(state, undone, self._log, removals)

    def _inodes(self) -> tuple[int, ...]:
        fs, layout, table, stream = self._where
        paths: list[Path] = [layout.stream_log(table, stream), layout.stream_checkpoint(table, stream)]
        return tuple(stat.inode if stat else 0 for stat in map(fs.stat, paths))

    def no_room(self, error: OSError) -> EpochConflictError:
        """The error of a compaction that changed nothing."""
        _, layout, table, stream = self._where
        return EpochConflictError(
            "the log could not be compacted; it is as it was",
            where=layout.stream_log(table, stream),
            found=error,
            hint="free space on the disk; the stream goes on with the longer log until then",
            phase=phase_of(error),
        )
