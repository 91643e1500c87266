"""The head of a stream: a cache of its state at a recent record, so that the newest state needs few records.

``<stream>.head`` is encoded as a checkpoint (``store.epochs.files.checkpoint``), magic ``SHVHED3``, number = the epoch
of the state. Its first record has further keys:

``durable``        newest epoch that is known to be on disk
``at``             offset in the log of the frame of record ``n``, the last one folded in
``record``         length and CRC-32 of that frame, in hexadecimal
``lastRemoval``    [offset, length and CRC-32 in hexadecimal] of the last frame of removals that is folded in
``floor``          epoch of the checkpoint
``dead``           [[restored epoch, epoch of the rollback], ...] after the checkpoint
``deadLocations``  [[internal, value], ...] of epochs that were rolled back after the checkpoint

*Writer.* The driver, between two batches, when log and removals have grown by 64 KiB and by twice the head's own size
since the last head, so that the cost per epoch is constant; atomic replace without a sync. A failed write is ignored. A
compaction replaces the head. *Reader.* It is used only for the newest state, and only if its first record, index and
tail are sound, the log continues from this checkpoint and has that frame at that offset, the removals have theirs, and
no later record rolls back to an epoch before it; otherwise the log is read from the checkpoint on. The same holds for a
damaged location or list of files in it. After a power failure record numbers may be reused (modes ``periodic`` and
``none``), but never with the same generation, which is part of every record. So the same frame at the same offset means
the same log up to it. The rollback floor stays that of the checkpoint.

The start of a writer reads the whole head, looks at all of its bytes, and decodes a location when it is asked for.
Removals that a usable head has applied name no epoch beyond the log, so of them it looks at the checksums only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sparkhaven.store.epochs.files.checkpoint import Checkpoint, SavedState, encode_checkpoint, open_saved
from sparkhaven.store.epochs.files.logfile import LogFile
from sparkhaven.store.epochs.state.log_records import decode_key
from sparkhaven.store.epochs.state.replay import RolledBackEpochs, StreamState
from sparkhaven.store.errors import CorruptFileError
from sparkhaven.store.framing import BROKEN, HEAD_MAGIC
from sparkhaven.store.places import StreamPlace

GROWTH = 2  # times its own size: what a start decodes is at most this, and writing it costs half of what commits write
Mark = tuple[int, bytes]
"""Offset of a frame, and its length and checksum (as bytes of the frame), which identify it; empty for no frame."""


@dataclass(frozen=True, slots=True)
class Head:
    """A state, bound to log, removals and checkpoint; ``size`` of its file in bytes."""

    state: StreamState
    floor: int
    mark: Mark
    removals: int
    last_removal: Mark
    undone: RolledBackEpochs
    size: int = 0


def encode_head(head: Head) -> bytes:
    more: dict[str, Any] = {
        "durable": head.state.durable,
        "at": head.mark[0],
        "record": head.mark[1].hex(),
        "lastRemoval": [head.last_removal[0], head.last_removal[1].hex()],
        "floor": head.floor,
        "dead": [[to, epoch] for to, epoch in head.undone.dead],
        "deadLocations": [[key.internal, key.value] for key in sorted(head.undone.locations)],
    }
    return encode_checkpoint(Checkpoint(head.state, head.removals), magic=HEAD_MAGIC, more=more)


def open_head(data: bytes | memoryview, where: object) -> SavedState:
    """The file with its checksums looked at; CorruptFileError where they do not hold."""
    return open_saved(data, where, magic=HEAD_MAGIC)


def decode_head(
    saved: SavedState,
    stream: str,
    size: int,
    *,
    locations: bool = True,
    rescue: Callable[[int], StreamState] | None = None,
) -> Head:
    """The head in a file. CorruptFileError: it is incomplete. Without ``locations`` the state has none."""
    checkpoint, first = saved.decode(stream, locations=locations, rescue=rescue), saved.first
    try:
        dead = tuple((int(to), int(epoch)) for to, epoch in first["dead"])
        undone = RolledBackEpochs(dead, frozenset(decode_key(key) for key in first["deadLocations"]))
        mark = int(first["at"]), bytes.fromhex(first["record"])
        last = int(first["lastRemoval"][0]), bytes.fromhex(first["lastRemoval"][1])
    except BROKEN as error:
        raise CorruptFileError(
            "head is incomplete", where=saved.where, expected="all of its keys", found=repr(error)
        ) from error
    return Head(checkpoint.state, saved.number("floor"), mark, checkpoint.removals, last, undone, size)


def read_head(place: StreamPlace, *, held: bool = False) -> memoryview | None:
    """The bytes of the head, mapped, or ``held`` in memory; None if there is none or it is unreadable."""
    try:
        if held:
            return place.fs.held(place.stream_head)
        stat = place.fs.stat(place.stream_head)
        return memoryview(place.fs.map(place.stream_head, stat.size)) if stat else None
    except (OSError, CorruptFileError):
        return None


class HeadWriter:
    """Writes the heads of one generation when they are due."""

    def __init__(self, place: StreamPlace, least_bytes: int) -> None:
        self._place, self._least = place, least_bytes
        self._end = self._size = 0

    def begin(self, end: int, size: int) -> None:
        """The head in use ends at byte ``end`` of the log (0: there is none) and has about ``size`` bytes."""
        self._end, self._size = end, size

    def is_due(self, end: int) -> bool:
        """Whether log and removals, of ``end`` bytes together, have grown enough since the last head."""
        return end - self._end >= max(self._least, GROWTH * self._size)

    def write(self, state: StreamState, undone: RolledBackEpochs, log: LogFile, removals: tuple[int, Mark]) -> bool:
        """Replaces the head by ``state``, which the last record of ``log`` has made; False where that failed.

        Then the previous head stays in use. ``removals``: how many bytes of them are folded in, and
        the last of their frames.
        """
        done = self.replace(Head(state, state.floor, log.last, removals[0], removals[1], undone))
        self._end = log.length + removals[0]
        return done

    def replace(self, head: Head) -> bool:
        """Replaces the file; False where that failed."""
        fs = self._place.fs
        try:
            with fs.during("write-head"):
                data = encode_head(head)
                fs.replace(self._place.stream_head, data, sync=False)
            self._size = len(data)
        except OSError:
            return False  # retried when the log has grown by as much again
        return True
