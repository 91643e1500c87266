"""The checkpoint of a stream: its state at the rollback floor, in one file that is replaced as a whole.

``<stream>.checkpoint`` has the frames of ``store.framing.log_frames``, magic ``SHVCKP3``, number = the floor's epoch:

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
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
from sparkhaven.store.epochs.state.locations import encode_location
from sparkhaven.store.epochs.state.log_values import FileId
from sparkhaven.store.epochs.state.offsets import encode_offsets
from sparkhaven.store.epochs.state.packed_location import Numbering, encode_shapes
from sparkhaven.store.epochs.state.replay import StreamState
from sparkhaven.store.framing.canonical import BEHIND, BROKEN, dump, load
from sparkhaven.store.framing.log_frames import (
    CHECKPOINT_MAGIC,
    HEADER,
    frame,
    frame_at,
    header,
    read_header,
)

FILES_A_FRAME = 5000


def encode_checkpoint(
    checkpoint: Checkpoint, *, magic: bytes = CHECKPOINT_MAGIC, more: Mapping[str, Any] | None = None
) -> bytes:
    """The whole file; the state's floor is its epoch. ``more``: further keys of the first record."""
    return b"".join(checkpoint_parts(checkpoint, checkpoint.state.files, magic=magic, more=more))


def checkpoint_parts(
    checkpoint: Checkpoint,
    taken: Iterable[FileId],
    *,
    magic: bytes = CHECKPOINT_MAGIC,
    more: Mapping[str, Any] | None = None,
) -> Iterator[bytes]:
    """The file in pieces, with files ``taken`` by (mtime, path) in place of those of the state."""
    state = checkpoint.state
    crc = end = 0

    def piece(data: bytes) -> bytes:
        nonlocal crc, end
        crc, end = zlib.crc32(data, crc), end + len(data)
        return data

    yield piece(header(magic, state.epoch) + frame(dump(_first(state, checkpoint.removals, more))))
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


def open_saved(data: Data, where: object, *, magic: bytes = CHECKPOINT_MAGIC) -> SavedState:
    """Opens the file by its first frame, index and tail. CorruptFileError: their checksums do not match."""
    epoch = read_header(data, magic, where)
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
