"""The head of a stream: its state at a recent record, so that the newest state need not be put together from all.

``<stream>.head`` is encoded as a checkpoint (``store.epochs.checkpoint``), magic ``SHVHED1``, number = the epoch of the
state. Its first record has further keys:

``durable``        newest epoch that is known to be on disk
``record``         CRC-32 of the payload of record ``n``, the last one folded in
``removalsCrc``    CRC-32 of the bytes of the removals file that are folded in
``floor``          epoch of the checkpoint
``dead``           [[epoch gone back to, epoch of the rollback], ...] after the checkpoint
``deadLocations``  [[internal, value], ...] that epochs touched which were rolled back after the checkpoint

It is a cache. *Writer.* The driver, between two batches, when the log has grown by 1 MiB and by twice the head's own
size since the last one, so that the cost per epoch is constant; atomic replace without a sync. What cannot be written
is left. A compaction drops it. *Reader.* It is used for the newest state only, and only where all of it is sound, the
log holds a record with that number and checksum after this very checkpoint, the removals begin with those bytes, and no
later record goes back behind it; else it counts for nothing, and the log is read from the checkpoint on. Numbers come
again after a power cut has taken the end of the log (modes ``periodic`` and ``none``), but never with the same
generation, which is part of every record. So the same record at the same number means the same log up to it. The floor
stays that of the checkpoint.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from store.epochs.checkpoint import Checkpoint, Saved, encode_checkpoint, open_saved
from store.epochs.framing import HEAD_MAGIC, Frame
from store.epochs.graves import Graves
from store.epochs.locations import Locations
from store.epochs.logfile import LogFile
from store.epochs.records import decode_key, load
from store.epochs.replay import StreamState
from store.errors import CorruptFileError, UnsupportedVersionError
from store.fs import Fs
from store.layout import Layout, TableName

HEAD_BYTES = 1 << 20
GROWTH = 2  # times its own size: what a start decodes is at most this, and writing it costs half of what commits write


@dataclass(frozen=True, slots=True)
class Head:
    """A state with what binds it to log, removals and checkpoint; ``size`` of its file in bytes."""

    state: StreamState
    floor: int
    record_crc: int
    removals: int
    removals_crc: int
    graves: Graves
    size: int = 0


def encode_head(head: Head) -> bytes:
    """The whole file."""
    more: dict[str, Any] = {
        "durable": head.state.durable,
        "record": head.record_crc,
        "removalsCrc": head.removals_crc,
        "floor": head.floor,
        "dead": [[to, epoch] for to, epoch in head.graves.dead],
        "deadLocations": [[key.internal, key.value] for key in sorted(head.graves.locations)],
    }
    return encode_checkpoint(Checkpoint(head.state, head.removals), magic=HEAD_MAGIC, more=more)


def open_head(data: bytes, where: object) -> Saved:
    """The file with its checksums looked at; CorruptFileError where they do not hold."""
    return open_saved(data, where, magic=HEAD_MAGIC)


def decode_head(
    saved: Saved, stream: str, size: int, *, locations: bool = True, rescue: Callable[[], Locations] | None = None
) -> Head:
    """The head in a file; CorruptFileError where a part is missing. Without ``locations`` the state has none."""
    found, first = saved.decode(stream, locations=locations, rescue=rescue), saved.first
    try:
        dead = tuple((int(to), int(epoch)) for to, epoch in first["dead"])
        graves = Graves(dead, frozenset(decode_key(key) for key in first["deadLocations"]))
    except (KeyError, TypeError, ValueError) as error:
        raise CorruptFileError(
            "head is incomplete", where=saved.where, expected="all of its keys", found=repr(error)
        ) from error
    floor, record, removals = (saved.number(key) for key in ("floor", "record", "removalsCrc"))
    return Head(found.state, floor, record, found.removals, removals, graves, size)


@dataclass(frozen=True, slots=True)
class HeadFiles:
    """Where the head of a stream is, and what it is bound to beside the log."""

    fs: Fs
    path: Path
    removals: Path

    @classmethod
    def of(cls, fs: Fs, layout: Layout, table: TableName, stream: str) -> HeadFiles:
        """Those of a stream."""
        return cls(fs, layout.stream_head(table, stream), layout.stream_removals(table, stream))

    def read(self) -> bytes | None:
        """The bytes that are there; None where there is no head or it cannot be read."""
        try:
            return self.fs.read(self.path)
        except OSError:
            return None

    def find(
        self, data: bytes, stream: str, checkpoint: Saved | None, frames: Sequence[Frame], *, locations: bool
    ) -> tuple[int, Head] | None:
        """The head in ``data`` and which of the frames of the log it ends with; None if it is not to be used.

        Whether a later record goes back behind it is not looked at.
        """
        try:
            saved = open_head(data, self.path)
            saved.check()
            index = self._place(saved, checkpoint, frames)
            return None if index is None else (index, decode_head(saved, stream, len(data), locations=locations))
        except (CorruptFileError, UnsupportedVersionError, OSError):
            return None

    def _place(self, saved: Saved, checkpoint: Saved | None, frames: Sequence[Frame]) -> int | None:
        floor, folded = (checkpoint.epoch, checkpoint.number("n")) if checkpoint else (0, 0)
        n, first = saved.number("n"), load(frames[0].payload, self.path).get("n") if frames else None
        if saved.number("floor") != floor or n <= folded or not isinstance(first, int) or first > folded + 1:
            return None
        index = n - first
        if index >= len(frames) or zlib.crc32(frames[index].payload) != saved.number("record"):
            return None
        if load(frames[index].payload, self.path).get("n") != n:
            return None  # the log has a gap: reading all of it tells where
        removals = saved.number("removals")
        return index if self.removals_crc(removals) == saved.number("removalsCrc") else None

    def removals_crc(self, end: int) -> int:
        """CRC-32 of the first ``end`` bytes of the removals; CorruptFileError or OSError where they are not there."""
        return zlib.crc32(self.fs.read_range(self.removals, 0, end)) if end else 0


class HeadWriter:
    """Keeps the head of one generation: when the next one is due, and writing it."""

    def __init__(self, files: HeadFiles, least_bytes: int) -> None:
        self._files, self._least = files, least_bytes
        self._end = self._size = 0

    def begin(self, end: int, size: int) -> None:
        """The head in use ends at byte ``end`` of the log (0: there is none) and has about ``size`` bytes."""
        self._end, self._size = end, size

    def is_due(self, log_bytes: int) -> bool:
        """Whether a log of that many bytes has grown enough since the last head."""
        return log_bytes - self._end >= max(self._least, GROWTH * self._size)

    def write(self, state: StreamState, graves: Graves, log: LogFile, *, removals_end: int) -> bool:
        """Replaces the head by ``state``, which the last record of ``log`` has made; False where that failed.

        The log goes on without it then, as with the one before.
        """
        fs, done = self._files.fs, True
        try:
            with fs.during("write-head"):
                crc = self._files.removals_crc(removals_end)
                data = encode_head(Head(state, state.floor, log.last_crc, removals_end, crc, graves))
                fs.replace(self._files.path, data, sync=False)
            self._size = len(data) + removals_end
        except (OSError, CorruptFileError):
            done = False  # tried again when the log has grown as much once more
        self._end = log.length
        return done

    def drop(self, size: int) -> None:
        """Removes the head: the log before it is gone. The next one will have about ``size`` bytes."""
        try:
            with self._files.fs.during("drop-head"):
                self._files.fs.unlink(self._files.path)
        except OSError:
            pass  # it is bound to a checkpoint that is no more
        self._end, self._size = 0, size
