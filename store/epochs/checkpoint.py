"""The checkpoint of a stream: its state at the rollback floor, in one file that is replaced as a whole.

``<stream>.checkpoint`` has the frames of ``store.epochs.framing``, magic ``SHVCKP1``, number = the floor's epoch:

1. head: ``epoch``, ``n`` (last record folded in), ``generation``, ``query``, ``batch``, ``boot``, ``durability``,
   ``schema``, ``horizon``, ``removals`` (bytes of the removals file folded in), ``locations`` and ``files`` (counts),
   where there are some: ``offsets`` [[topic, partition, stop, topic id, start of the last range, its digest], ...],
   ``rolledBack`` [[epoch gone back to, epoch of the rollback], ...] ascending: epochs between the two are no more
2. taken files, up to 1,000 a frame: ``taken`` [[path, size, mtime ns], ...] by (mtime, path)
3. one frame a location, by key: ``at``, ``since``, ``epoch``, ``rows``, ``files``, ``stats``, ``schema``, ``time``,
   ``truncated`` (as ``store.epochs.records`` spells them)
4. tail: ``end`` true, ``crc`` (CRC-32 of all bytes before this frame)

*Writer.* Only at an epoch that is durable; atomic replace, then the new log likewise, in this order. *Reader.* A log
whose base epoch is above the checkpoint's epoch means that a compaction came between the two reads: read both again.
Records of the log with ``n`` up to the head's are folded in already.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from store.epochs.framing import CHECKPOINT_MAGIC, HEADER, Frame, frame, header, read_header, scan
from store.epochs.offsets import decode_offsets, encode_offsets
from store.epochs.positions import FileWindow
from store.epochs.records import decode_files, decode_location, dump, encode_location, load
from store.epochs.replay import StreamState
from store.epochs.rollbacks import RolledBack
from store.errors import CorruptFileError

FILES_A_FRAME = 1000


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A state with the bytes of the removals file that are folded into it."""

    state: StreamState
    removals: int


@dataclass(frozen=True, slots=True)
class Saved:
    """A file of this form whose checksums hold: its ``first`` record, and those of files and locations, not decoded.

    Every method raises CorruptFileError where a part is missing or the counts do not agree.
    """

    epoch: int
    first: Mapping[str, Any]
    middle: tuple[Frame, ...]
    where: object

    def number(self, key: str) -> int:
        """A number of the first record."""
        try:
            return int(self.first[key])
        except (KeyError, TypeError, ValueError) as error:
            raise self._incomplete(error) from error

    def rolled_back(self) -> RolledBack:
        """The rollbacks that are folded in."""
        try:
            return tuple((int(to), int(made)) for to, made in self.first.get("rolledBack", ()))
        except (TypeError, ValueError) as error:
            raise self._incomplete(error) from error

    def decode(self, stream: str, *, locations: bool = True) -> Checkpoint:
        """The state; without ``locations`` only what does not speak of them."""
        try:
            return _decode(self, stream, locations=locations)
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise self._incomplete(error) from error

    def _incomplete(self, error: Exception) -> CorruptFileError:
        return _damaged(self.where, HEADER.size, "all keys of a checkpoint", repr(error))


def encode_checkpoint(
    checkpoint: Checkpoint, *, magic: bytes = CHECKPOINT_MAGIC, more: Mapping[str, Any] | None = None
) -> bytes:
    """The whole file; the state's floor is its epoch. ``more``: further keys of the first record."""
    state = checkpoint.state
    taken = [[f.path, f.size, f.mtime_ns] for f in state.files]
    head: dict[str, Any] = {
        "epoch": state.epoch,
        "n": state.n,
        "generation": state.generation,
        "query": state.last_query,
        "batch": state.last_batch,
        "boot": state.boot_id,
        "durability": state.durability,
        "schema": state.schema_version,
        "horizon": state.horizon,
        "removals": checkpoint.removals,
        "locations": len(state.locations),
        "files": len(taken),
        **(more or {}),
    }
    if state.offsets:
        head["offsets"] = encode_offsets(state.offsets)
    if state.rolled_back:
        head["rolledBack"] = [[to, epoch] for to, epoch in state.rolled_back]
    parts = [header(magic, state.epoch), frame(dump(head))]
    starts = range(0, len(taken), FILES_A_FRAME)
    parts.extend(frame(dump({"taken": taken[start : start + FILES_A_FRAME]})) for start in starts)
    parts.extend(frame(dump(encode_location(state.locations[key]))) for key in sorted(state.locations))
    body = b"".join(parts)
    return body + frame(dump({"end": True, "crc": zlib.crc32(body)}))


def decode_checkpoint(data: bytes, stream: str, where: object) -> Checkpoint:
    """The checkpoint in a file; anything that is not whole and consistent is a CorruptFileError."""
    return open_saved(data, where).decode(stream)


def open_saved(data: bytes, where: object, *, magic: bytes = CHECKPOINT_MAGIC) -> Saved:
    """The file with its checksums looked at; CorruptFileError where they do not hold."""
    epoch = read_header(data, magic, where)
    found = scan(data)
    if found.rest or len(found.frames) < 2:
        raise _damaged(where, found.end, "whole frames up to the end", f"{found.rest} bytes that are none")
    first, *middle, tail = found.frames
    end = load(tail.payload, where)
    crc = zlib.crc32(data[: tail.offset])
    if end.get("end") is not True or end.get("crc") != crc:
        raise _damaged(where, tail.offset, f"a tail record with crc {crc}", end)
    return Saved(epoch, load(first.payload, where), tuple(middle), where)


def _decode(saved: Saved, stream: str, *, locations: bool) -> Checkpoint:
    head, where = saved.first, saved.where
    epoch = int(head["epoch"])
    state = StreamState(
        stream=stream,
        generation=int(head["generation"]),
        epoch=epoch,
        floor=epoch,
        files=FileWindow(horizon=int(head["horizon"])),
        last_query=head["query"],
        last_batch=head["batch"],
        boot_id=str(head["boot"]),
        schema_version=int(head["schema"]),
        durability=head["durability"],
        durable=int(head.get("durable", epoch)),
        n=int(head["n"]),
        offsets=decode_offsets(head.get("offsets", ())),
        rolled_back=saved.rolled_back(),
    )
    of_files = -(-int(head["files"]) // FILES_A_FRAME)
    for part in saved.middle[:of_files]:
        state.files.take(decode_files(load(part.payload, where)["taken"]), state.horizon)
    for part in saved.middle[of_files:] if locations else ():
        location = decode_location(load(part.payload, where))
        state.locations[location.key] = location
    found = len(state.locations) if locations else len(saved.middle) - of_files
    counts = (epoch, found, len(state.files))
    expected = (saved.epoch, int(head["locations"]), int(head["files"]))
    if counts != expected:
        raise _damaged(where, 0, f"epoch, locations, files {expected}", counts)
    return Checkpoint(state, int(head["removals"]))


def _damaged(where: object, offset: int, expected: object, found: object) -> CorruptFileError:
    return CorruptFileError(
        "checkpoint is damaged",
        where=f"{where} at byte {offset}",
        expected=expected,
        found=found,
        hint="restore it from a copy; the log beside it begins where it ends, so nothing can stand in for it",
    )
