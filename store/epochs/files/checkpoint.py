"""The checkpoint of a stream: its state at the rollback floor, in one file that is replaced as a whole.

``<stream>.checkpoint`` has the frames of ``store.framing``, magic ``SHVCKP3``, number = the floor's epoch:

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
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any

import numpy as np

from sparkhaven.store.epochs.state.file_positions import FileWindow, Taken
from sparkhaven.store.epochs.state.locations import Locations, PackedLocations, decode_location, encode_location
from sparkhaven.store.epochs.state.log_values import FileId, LocationState
from sparkhaven.store.epochs.state.offsets import decode_offsets, encode_offsets
from sparkhaven.store.epochs.state.packed_location import Numbering, Shape, decode_shapes, encode_shapes
from sparkhaven.store.epochs.state.replay import RolledBack, StreamState
from sparkhaven.store.epochs.state.resume_rules import decode_rule
from sparkhaven.store.errors import CorruptFileError
from sparkhaven.store.framing import (
    BEHIND,
    BROKEN,
    CHECKPOINT_MAGIC,
    FRAME,
    HEADER,
    Frame,
    dump,
    frame,
    frame_at,
    header,
    load,
    read_header,
    written,
)
from sparkhaven.store.layout import LocationKey
from sparkhaven.store.native.checked_columns import crc32

ENTRY = struct.Struct("<IIIQ")
_ENTRIES = np.dtype([("internal", "<u4"), ("value", "<u4"), ("length", "<u4"), ("offset", "<u8")])  # the same
Data = bytes | memoryview
TAIL = struct.Struct("<QQII")
TAIL_BYTES = 8 + TAIL.size
FILES_A_FRAME = 5000


class SavedLocations:
    """The locations of a checkpoint or head, decoded one by one. CorruptFileError: the frame of one is damaged."""

    def __init__(self, data: Data, index: bytes, where: object) -> None:
        self._data, self._where, self._base = data, where, 0
        self._held = False  # the file is mapped, and may be damaged or go
        self._packed: PackedLocations | None = None
        text = written(index)
        value = load(text, where)
        self.files = int(value["files"])
        self._shapes: tuple[Shape, ...] = decode_shapes(value["shapes"])
        self._internals, self._values = list(map(str, value["internals"])), list(map(str, value["values"]))
        packed = index[len(text) + len(BEHIND) :]
        self._entries = np.frombuffer(packed, _ENTRIES) if packed else np.zeros(0, _ENTRIES)
        self._numbers = {name: number for number, name in enumerate(self._values)}
        counted = np.arange(len(self._values) + 1)  # values are numbered in file order
        self._starts: list[int] = np.searchsorted(self._entries["value"], counted).tolist()

    def hold(self, first: int, end: int) -> None:
        """Keeps a copy of the bytes that they have in the file, which are sound, and of no other."""
        self._data, self._base, self._held = bytes(self._data[first:end]), first, True

    def keys(self) -> Iterator[LocationKey]:
        if self._packed is not None:
            return iter(self._packed.keys)
        internals, values = self._internals, self._values
        named = zip(self._entries["internal"].tolist(), self._entries["value"].tolist(), strict=True)
        return (LocationKey(internals[internal], values[value]) for internal, value in named)

    def values(self) -> list[str]:
        return self._values

    def of_value(self, value: str) -> list[LocationKey]:
        first, last = self._span(value)
        return [LocationKey(self._internals[n], value) for n in self._entries["internal"][first:last].tolist()]

    def _span(self, value: str) -> tuple[int, int]:
        """The entries of a partition value: from the first to the one behind the last."""
        number = self._numbers.get(value)
        return (0, 0) if number is None else (self._starts[number], self._starts[number + 1])

    def find(self, key: LocationKey) -> LocationState | None:
        index = self._place(key)
        if index is None:
            return None
        _, _, length, offset = self._entries[index].item()
        part = frame_at(self._data, offset - self._base, length)
        if part is None:
            raise damaged(self._where, offset, f"the location {key.internal}/{key.value}", "damage")
        try:
            return decode_location(key, part.payload, self._shapes)
        except BROKEN as error:
            raise damaged(self._where, offset, f"the location {key.internal}/{key.value}", repr(error)) from error

    def _place(self, key: LocationKey) -> int | None:
        first, last = self._span(key.value)
        for index, internal in enumerate(self._entries["internal"][first:last].tolist(), first):
            if self._internals[internal] == key.internal:
                return index
        return None

    def packed(self) -> PackedLocations | None:
        """All of them as they are stored, in the order of ``keys``; None: their bytes are not held."""
        if self._packed is None and self._held:
            offsets = self._entries["offset"].astype(np.int64) - self._base + FRAME.size
            self._packed = PackedLocations.of(list(self.keys()), self._data, offsets, self._shapes)
        return self._packed

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: object) -> bool:
        return isinstance(key, LocationKey) and self._place(key) is not None


def damaged(where: object, offset: int, expected: object, found: object) -> CorruptFileError:
    """The error of a part of a checkpoint or head that is not what it should be."""
    return CorruptFileError(
        "checkpoint is damaged",
        where=f"{where} at byte {offset}",
        expected=expected,
        found=found,
        hint="restore it from a copy. The log begins where it ends and cannot replace it",
    )


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A state, and the number of bytes of the removals file that are folded into it."""

    state: StreamState
    removals: int


@dataclass(frozen=True, slots=True)
class SavedState:
    """A checkpoint or head: its ``first`` record, the rest undecoded. CorruptFileError, of all methods: damaged."""

    epoch: int
    first: Mapping[str, Any]
    locations: SavedLocations
    taken: tuple[int, int]
    data: Data
    where: object

    def number(self, key: str) -> int:
        try:
            return int(self.first[key])
        except BROKEN as error:
            raise self._incomplete(error) from error

    def rolled_back(self) -> RolledBack:
        try:
            return _rolled_back(self.first)
        except BROKEN as error:
            raise self._incomplete(error) from error

    def check(self) -> None:
        index, _, crc, _ = read_tail(self.data, self.where)
        computed = crc32(memoryview(self.data)[:-TAIL_BYTES])
        if computed != crc:
            raise damaged(self.where, index, f"bytes with crc {crc}", f"crc {computed}")

    def hold(self) -> None:
        """Looks at all bytes, which are in memory and stay as they are: then no part is damaged later."""
        self.check()
        index, first, _, _ = read_tail(self.data, self.where)
        self.locations.hold(first, index)

    def files(self) -> Iterator[Taken]:
        (offset, end), count = self.taken, 0
        while offset < end:
            part = frame_at(self.data, offset)
            if part is None:
                raise damaged(self.where, offset, "taken files", "damage")
            taken = _decode_taken(part, self.where)
            yield taken
            offset, count = part.end, count + len(taken[0])
        if count != self.locations.files:
            raise damaged(self.where, end, f"{self.locations.files} taken files", count)

    def decode(
        self, stream: str, *, locations: bool = True, rescue: Callable[[int], StreamState] | None = None
    ) -> Checkpoint:
        """The state, with or without ``locations``. ``rescue`` loads it another way if a part is damaged."""
        saved = _Rescued(self.locations, self.epoch, rescue) if rescue else self.locations
        try:
            state = first_state(stream, self.first, Locations(saved=saved) if locations else Locations())
            read = partial(_rescued_files, self.files, self.epoch, rescue) if rescue else self.files
            state.files = FileWindow.later(read, self.locations.files, int(self.first["horizon"]))
            if state.epoch != self.epoch:
                raise damaged(self.where, 0, f"epoch {self.epoch}", state.epoch)
            return Checkpoint(state, int(self.first["removals"]))
        except BROKEN as error:
            raise self._incomplete(error) from error

    def _incomplete(self, error: Exception) -> CorruptFileError:
        return damaged(self.where, HEADER.size, "all keys of a checkpoint", repr(error))


class _Rescued:
    """Locations of a head; a damaged one is loaded from checkpoint and log."""

    def __init__(self, saved: SavedLocations, epoch: int, rescue: Callable[[int], StreamState]) -> None:
        self._saved, self._epoch, self._rescue = saved, epoch, rescue
        self.keys, self.values, self.of_value = saved.keys, saved.values, saved.of_value

    def find(self, key: LocationKey) -> LocationState | None:
        try:
            return self._saved.find(key)
        except CorruptFileError:
            return self._rescue(self._epoch).locations.get(key)

    def packed(self) -> PackedLocations | None:
        return None

    def __len__(self) -> int:
        return len(self._saved)

    def __contains__(self, key: object) -> bool:
        return key in self._saved


def _rescued_files(
    read: Callable[[], Iterator[Taken]], epoch: int, rescue: Callable[[int], StreamState]
) -> Iterator[Taken]:
    try:
        yield from list(read())
    except CorruptFileError:
        files = list(rescue(epoch).files)
        yield [f.path for f in files], [f.size for f in files], [f.mtime_ns for f in files]


def first_state(stream: str, head: Mapping[str, Any], locations: Locations) -> StreamState:
    epoch = int(head["epoch"])
    return StreamState(
        stream=stream,
        generation=int(head["generation"]),
        epoch=epoch,
        floor=epoch,
        files=FileWindow(horizon=int(head["horizon"])),
        locations=locations,
        last_query=head["query"],
        last_batch=head["batch"],
        boot_id=str(head["boot"]),
        schema_version=int(head["schema"]),
        durability=head["durability"],
        durable=int(head.get("durable", epoch)),
        n=int(head["n"]),
        offsets=decode_offsets(head.get("offsets", ())),
        rolled_back=_rolled_back(head),
        rejected=int(head.get("rejected", 0)),
        rule=decode_rule(head),
        withdrawal=int(head.get("withdrawal", 0)),
    )


def _rolled_back(head: Mapping[str, Any]) -> RolledBack:
    return tuple((int(to), int(epoch)) for to, epoch in head.get("rolledBack", ()))


def read_tail(data: Data, where: object) -> tuple[int, int, int, int]:
    """Offsets of index and first location, the CRC-32 of all before the tail, and zero."""
    offset = len(data) - TAIL_BYTES
    part = frame_at(data, offset) if offset > HEADER.size else None
    if part is None or len(part.payload) != TAIL.size:
        raise damaged(where, max(offset, 0), "a tail", "other bytes")
    index, first, crc, zero = TAIL.unpack(part.payload)
    return index, first, crc, zero


def _decode_taken(part: Frame, where: object) -> Taken:
    try:
        (count,) = struct.unpack_from("<I", part.payload)
        numbers = np.frombuffer(part.payload, "<i8", 2 * count, 4)
        paths = part.payload[4 + 16 * count :].decode("utf-8", "surrogatepass").split("\0")
        if len(paths) != count:
            raise ValueError(f"{len(paths)} paths of {count} files")
    except BROKEN as error:
        raise damaged(where, part.offset, "taken files", repr(error)) from error
    return paths, numbers[count:], numbers[:count]


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
