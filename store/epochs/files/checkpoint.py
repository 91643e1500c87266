"""The checkpoint of a stream: its state at the rollback floor, in one file that is replaced as a whole.

``<stream>.checkpoint`` has the frames of ``store.framing.log_frames``, magic ``SHVCKP2``, number = the floor's epoch
(``SHVCKP3`` once the stream has withdrawn rows, which older releases would show):

1. head, JSON: ``epoch``, ``n`` (last record folded in), ``generation``, ``query``, ``batch``, ``boot``, ``durability``,
   ``schema``, ``horizon``, ``removals`` (bytes of the removals file folded in); where there are some: ``offsets``
   [[topic, partition, stop, topic id, start of the last range, its digest], ...], ``rolledBack`` [[epoch gone back to,
   epoch of the rollback], ...] ascending: epochs between the two are no more, ``rejected`` (newest epoch with rejected
   rows), ``withdrawal`` (newest epoch that withdrew rows), ``rule`` (as in ``open`` records)
2. taken files by (mtime, path), up to 5,000 a frame: u4 count, i8 mtime (ns) of each, i8 size of each, their paths in
   UTF-8 with a zero byte between two
3. one frame a location (``store.epochs.state.locations``), by value of the partitioning column, then internal partition
4. index: JSON {``files`` (count), ``internals``, ``values``, ``shapes`` (``store.epochs.state.packed_location``)}, a
line feed,
   and for each location u4 place of its internal partition, u4 place of its value, u4 length and u8 offset of its frame
5. tail of 32 bytes, the frame around: u8 offset of the index, u8 offset of the first location, u4 CRC-32 of all bytes
   before this frame, u4 zero

*Writer.* Only at a durable epoch; atomic replace, then the new log likewise, in this order. *Reader.* Reads the tail,
then the index, and decodes the requested locations; the taken files are decoded to classify a batch. The checksum of
every decoded frame is verified, that of the whole file only by a writer's start and by ``verify``. If the log's base
epoch is above the checkpoint's epoch, a compaction ran between the two reads: read both again. Records of the log with
``n`` up to that of the first frame are already folded in.

*Version 1* of checkpoints and heads was JSON throughout, and is still read.
Frames of ``store.framing.log_frames``, magic ``SHVCKP1`` or ``SHVHED1``: 1. head, as in version 2, with ``locations``
and ``files`` (counts); 2. taken files, up to 1,000 a frame: ``taken`` [[path, size, mtime ns], ...] by (mtime, path);
3. one frame a location, by key: ``at``, ``since``, ``epoch``, ``rows``, ``files`` {name: [bytes, crc]}, ``stats``
{column: [range, ...]} (``store.epochs.state.log_records``), ``schema``, ``time``, ``truncated``; 4. tail: ``end`` true,
``crc`` (CRC-32 of all bytes before this frame). Every byte is looked at when the file is opened.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from sparkhaven.store.epochs.files.saved_state import (
    ENTRY,
    TAIL,
    TAIL_BYTES,
    Checkpoint,
    Data,
    SavedLocations,
    SavedState,
    damaged,
    read_tail,
)
from sparkhaven.store.epochs.state.file_positions import Taken
from sparkhaven.store.epochs.state.locations import encode_location
from sparkhaven.store.epochs.state.log_records import decode_files, decode_location
from sparkhaven.store.epochs.state.log_values import FileId, LocationState
from sparkhaven.store.epochs.state.offsets import encode_offsets
from sparkhaven.store.epochs.state.packed_location import Numbering, encode_shapes
from sparkhaven.store.epochs.state.replay import StreamState
from sparkhaven.store.framing.canonical import BEHIND, BROKEN, dump, load
from sparkhaven.store.framing.log_frames import (
    CHECKPOINT_MAGIC,
    CHECKPOINT_MAGIC_3,
    HEADER,
    Frame,
    frame,
    frame_at,
    header,
    read_header,
    scan,
    version,
)
from sparkhaven.store.layout import LocationKey

_V1_FILES_A_FRAME = 1000


class _Locations(SavedLocations):
    """Locations of version 1: all are decoded at once."""

    def __init__(self, locations: list[LocationState], files: int) -> None:
        self.files = files
        self._found = {location.key: location for location in locations}

    def keys(self) -> Iterator[LocationKey]:
        return iter(sorted(self._found, key=lambda key: (key.value, key.internal)))

    def values(self) -> list[str]:
        return sorted({key.value for key in self._found})

    def of_value(self, value: str) -> list[LocationKey]:
        return sorted(key for key in self._found if key.value == value)

    def find(self, key: LocationKey) -> LocationState | None:
        return self._found.get(key)

    def packed(self) -> None:
        """They have no bytes: they are decoded."""

    def __len__(self) -> int:
        return len(self._found)

    def __contains__(self, key: object) -> bool:
        return key in self._found


@dataclass(frozen=True, slots=True)
class _Saved(SavedState):
    parts: tuple[Frame, ...] = ()

    def check(self) -> None:
        """It was looked at when it was opened."""

    def files(self) -> Iterator[Taken]:
        for part in self.parts:
            try:
                taken = decode_files(load(part.payload, self.where)["taken"])
            except BROKEN as error:
                raise damaged(self.where, part.offset, "taken files", repr(error)) from error
            yield [f.path for f in taken], [f.size for f in taken], [f.mtime_ns for f in taken]


def open_v1(data: bytes, epoch: int, where: object) -> SavedState:
    """The file with its checksums looked at; CorruptFileError where they do not hold."""
    scanned = scan(data)
    if scanned.rest or len(scanned.frames) < 2:
        raise damaged(where, scanned.end, "sound frames up to the end", f"{scanned.rest} other bytes")
    first, *middle, tail = scanned.frames
    end = load(tail.payload, where)
    crc = zlib.crc32(data[: tail.offset])
    if end.get("end") is not True or end.get("crc") != crc:
        raise damaged(where, tail.offset, f"a tail record with crc {crc}", end)
    head = load(first.payload, where)
    try:
        files, count = int(head["files"]), int(head["locations"])
        of_files = -(-files // _V1_FILES_A_FRAME)
        locations = [decode_location(load(part.payload, where)) for part in middle[of_files:]]
    except BROKEN as error:
        raise damaged(where, first.offset, "all keys of a checkpoint", repr(error)) from error
    if len(locations) != count:
        raise damaged(where, first.offset, f"{count} locations", len(locations))
    return _Saved(epoch, head, _Locations(locations, files), (0, 0), data, where, tuple(middle[:of_files]))


FILES_A_FRAME = 5000
Magics = tuple[bytes, bytes]
CHECKPOINT_MAGICS = CHECKPOINT_MAGIC, CHECKPOINT_MAGIC_3
"""Magic of a file without and with withdrawn rows."""


def encode_checkpoint(
    checkpoint: Checkpoint, *, magics: Magics = CHECKPOINT_MAGICS, more: Mapping[str, Any] | None = None
) -> bytes:
    """The whole file; the state's floor is its epoch. ``more``: further keys of the first record."""
    return b"".join(checkpoint_parts(checkpoint, checkpoint.state.files, magics=magics, more=more))


def checkpoint_parts(
    checkpoint: Checkpoint,
    taken: Iterable[FileId],
    *,
    magics: Magics = CHECKPOINT_MAGICS,
    more: Mapping[str, Any] | None = None,
) -> Iterator[bytes]:
    """The file in pieces, with files ``taken`` by (mtime, path) in place of those of the state."""
    state = checkpoint.state
    crc = end = 0

    def piece(data: bytes) -> bytes:
        nonlocal crc, end
        crc, end = zlib.crc32(data, crc), end + len(data)
        return data

    yield piece(
        header(magics[bool(state.withdrawal)], state.epoch) + frame(dump(_first(state, checkpoint.removals, more)))
    )
    count, files = 0, iter(taken)
    while some := list(islice(files, FILES_A_FRAME)):
        count += len(some)
        yield piece(frame(_encode_taken(some)))
    internals, values, shapes = Numbering(), Numbering(), Numbering()
    first, entries = end, []
    for key in sorted(state.locations, key=lambda key: (key.value, key.internal)):
        data = frame(encode_location(state.locations[key], shapes))
        entries.append(ENTRY.pack(internals[key.internal], values[key.value], len(data), end))
        yield piece(data)
    names = {"internals": list(internals), "values": list(values), "shapes": encode_shapes(shapes)}
    index = end
    yield piece(frame(dump({"files": count, **names}) + BEHIND + b"".join(entries)))
    yield frame(TAIL.pack(index, first, crc, 0))


def decode_checkpoint(data: bytes, stream: str, where: object) -> Checkpoint:
    """The checkpoint in a file. CorruptFileError: it is damaged or inconsistent."""
    saved = open_saved(data, where)
    saved.check()
    checkpoint = saved.decode(stream)
    checkpoint.state.locations.settle()
    checkpoint.state.files.read()
    return checkpoint


def open_saved(data: Data, where: object, *, magics: Magics = CHECKPOINT_MAGICS) -> SavedState:
    """Opens the file by its first frame, index and tail. CorruptFileError: their checksums do not match."""
    epoch = read_header(data, magics[1], where)
    if version(data) == 1:
        return open_v1(bytes(data), epoch, where)
    index, first, _, _ = read_tail(data, where)
    if not HEADER.size < first <= index <= len(data) - TAIL_BYTES:
        raise damaged(where, len(data) - TAIL_BYTES, "offsets inside of the file", f"{first} and {index}")
    opening, names = frame_at(data, HEADER.size), frame_at(data, index)
    if opening is None or names is None or names.end != len(data) - TAIL_BYTES:
        raise damaged(where, index, "sound first and last frames", "damage")
    try:
        locations = SavedLocations(data, names.payload, where)
    except BROKEN as error:
        raise damaged(where, index, "all keys of an index", repr(error)) from error
    return SavedState(epoch, load(opening.payload, where), locations, (opening.end, first), data, where)


def _first(state: StreamState, removals: int, more: Mapping[str, Any] | None) -> dict[str, Any]:
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
        "removals": removals,
        **(more or {}),
    }
    if state.offsets:
        head["offsets"] = encode_offsets(state.offsets)
    if state.rolled_back:
        head["rolledBack"] = [[to, epoch] for to, epoch in state.rolled_back]
    if state.rejected:
        head["rejected"] = state.rejected
    if state.withdrawal:
        head["withdrawal"] = state.withdrawal
    if state.rule is not None:
        head["rule"] = state.rule.to_json()
    return head


def _encode_taken(files: Sequence[FileId]) -> bytes:
    count = len(files)
    numbers = struct.pack(f"<I{2 * count}q", count, *(f.mtime_ns for f in files), *(f.size for f in files))
    return numbers + "\0".join(f.path for f in files).encode("utf-8", "surrogatepass")
