"""The log file of one generation: appended to at a known length, unusable after a failed sync."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

from sparkhaven.store.epochs.files.lock import lock_lost
from sparkhaven.store.epochs.state.log_records import Record, encode
from sparkhaven.store.errors import CommitUnknownError, EpochConflictError, phase_of
from sparkhaven.store.framing import FRAME, HEADER, LOG_MAGIC, frame, header
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.io.open_files import Opened


@dataclass(frozen=True, slots=True)
class KeptRecords:
    """Bytes ``[start, end)`` of the previous log that a new log keeps; the new log begins at epoch ``base``."""

    base: int
    start: int = 0
    end: int = 0
    source: Opened | None = field(default=None, compare=False)

    def write(self, fs: Fs, path: Path) -> int:
        """Makes them a file of their own, not synced; returns its bytes."""
        fs.write_new(path, header(LOG_MAGIC, self.base))
        if self.source is None:
            return HEADER.size
        fs.copy_range(self.source, self.start, self.end, path, HEADER.size)
        return HEADER.size + self.end - self.start


@dataclass(frozen=True, slots=True)
class Lease:
    """A generation between two processes, as one leaves it and another continues it: its number and its log. Pickles.

    ``inode``, ``length`` and ``last`` are those of ``LogFile``.
    """

    generation: int
    inode: int
    length: int
    last: tuple[int, bytes]


class LogFile:
    """The file at ``path`` as this generation left it: ``length`` bytes under one inode, or poisoned.

    ``last``: where its last record begins, and the length and checksum there.
    """

    def __init__(self, fs: Fs, path: Path, lock_path: Path) -> None:
        self._fs, self._path, self._lock_path = fs, path, lock_path
        self._temporary = path.with_name(f".{path.name}.tmp-{os.getpid()}")
        self._copied = 0
        self._inode = 0
        self._shared = False
        self._poison: str | None = None
        self.length = 0
        self.last: tuple[int, bytes] = (HEADER.size, b"")
        self.appended = b""  # the frame of the last record that ``append`` has written

    @contextmanager
    def copying(self, kept: KeptRecords) -> Iterator[None]:
        """Copies kept bytes of the previous log to a file beside it, which the disk writes during the body.

        ``begin`` in the body makes that the log. It is removed where the body fails.
        """
        try:
            with self._fs.during("log-copy"):
                self._copied = kept.write(self._fs, self._temporary)
                self._fs.start_writeback(self._temporary)
            yield
        except BaseException:
            with suppress(OSError):
                self._fs.unlink(self._temporary)
            raise

    def begin(self, more: bytes, record: Record) -> None:
        """Replaces the file by the copied bytes, ``more`` and a record, with a new inode, durably."""
        last = frame(encode(record))
        with self._fs.during("log-open"):
            self._fs.write_at(self._temporary, self._copied, more + last)
            self._fs.sync([self._temporary])
            self._fs.rename(self._temporary, self._path)
            self._fs.sync_dirs([self._path.parent])
        self.adopt(self._copied + len(more) + len(last))
        self.last = self.length - len(last), last[: FRAME.size]

    def adopt(self, length: int, moved: int = 0) -> None:
        """Adopts the present file, of that length, after a compaction; its records have ``moved`` to the front."""
        stat = self._fs.stat(self._path)
        self._inode, self.length = stat.inode if stat else 0, length
        self.last = self.last[0] - moved, self.last[1]

    def lease(self, generation: int) -> Lease:
        self.require_usable()
        return Lease(generation, self._inode, self.length, self.last)

    def take_over(self, lease: Lease) -> None:
        """Continues the file as it was left. LockLostError: it is another one, or has grown."""
        self._inode, self.length, self.last = lease.inode, lease.length, lease.last
        self.require_owned()

    @property
    def poisoned(self) -> bool:
        return self._poison is not None

    def require_usable(self) -> None:
        if self._poison is not None:
            raise CommitUnknownError(
                "the commit log is unusable after an earlier failure",
                where=self._path,
                found=self._poison,
                hint="close it and open the stream again. Recovery finds out what was committed",
            )

    def require_owned(self) -> None:
        """LockLostError when the file is not the one that this generation wrote last; costs one stat."""
        stat = self._fs.stat(self._path)
        if stat is None or (stat.inode, stat.size) != (self._inode, self.length):
            raise lock_lost(self._fs, self._lock_path, "another generation has opened the commit log")
        self._shared = stat.links > 1

    def append(self, record: Record, *, sync: bool) -> None:
        """Appends one record. EpochConflictError: nothing landed. CommitUnknownError: the sync failed."""
        data = frame(encode(record))
        try:
            if self._shared:
                with self._fs.during("log-own"):
                    self._take_copy()
            with self._fs.during("log-append"):
                self._fs.write_at(self._path, self.length, data)
        except OSError as error:
            self._withdraw(error)
        if sync:
            with self.unknown_on_failure("the log could not be synced"), self._fs.during("log-sync"):
                self._fs.sync([self._path])
        self.last = self.length, data[: FRAME.size]
        self.appended = data
        self.length += len(data)

    def _take_copy(self) -> None:
        """Replaces a file that a backup shares by a hard link with a copy, so that the backup does not change."""
        self._fs.shorten(self._path, self.length)
        stat = self._fs.stat(self._path)
        self._inode, self._shared = stat.inode if stat else 0, False
        with self.unknown_on_failure("the log's own copy could not be made durable"):
            self._fs.sync_dirs([self._path.parent])

    @contextmanager
    def unknown_on_failure(self, what: str) -> Iterator[None]:
        """Turns an OSError of the body into CommitUnknownError and poisons the log: a sync is never retried."""
        try:
            yield
        except OSError as error:
            raise self.poison(what, error) from error

    def poison(self, what: str, error: OSError) -> CommitUnknownError:
        """Makes the log unusable; returns the error to raise."""
        self._poison = f"{what}: {error}"
        return CommitUnknownError(
            what,
            where=self._path,
            expected="all of it on disk",
            found=error,
            hint="check the disk, then open the stream again. Delete nothing: recovery finds out what was committed",
            phase=phase_of(error),
        )

    def _withdraw(self, error: OSError) -> NoReturn:
        try:
            self._fs.truncate(self._path, self.length)
        except OSError as second:
            raise self.poison("a partly written record could not be removed from the log", second) from error
        raise EpochConflictError(
            "the record could not be written",
            where=self._path,
            found=error,
            hint="free space on the disk and retry the batch. The log is unchanged",
            phase=phase_of(error),
        ) from error
