"""The checkpoint of a stream: its state at the rollback floor, in one file that is replaced as a whole.

``<stream>.checkpoint`` has the frames of ``store.framing.frames``, magic ``SHVCKP2``, number = the floor's epoch:

1. head, JSON: ``epoch``, ``n`` (last record folded in), ``generation``, ``query``, ``batch``, ``boot``, ``durability``,
   ``schema``, ``horizon``, ``removals`` (bytes of the removals file folded in); where there are some: ``offsets``
   [[topic, partition, stop, topic id, start of the last range, its digest], ...], ``rolledBack`` [[epoch gone back to,
   epoch of the rollback], ...] ascending: epochs between the two are no more, ``rejected`` (newest epoch with rejected
   rows), ``zone`` (as in ``open`` records)
2. taken files by (mtime, path), up to 5,000 a frame: u4 count, i8 mtime (ns) of each, i8 size of each, their paths in
   UTF-8 with a zero byte between two
3. one frame a location (``store.epochs.state.locations``), by value of the partitioning column, then internal partition
4. index: JSON {``files`` (count), ``internals``, ``values``, ``shapes`` (``store.epochs.state.reports``)}, a line feed,
   and for each location u4 place of its internal partition, u4 place of its value, u4 length and u8 offset of its frame
5. tail of 32 bytes, the frame around: u8 offset of the index, u8 offset of the first location, u4 CRC-32 of all bytes
   before this frame, u4 zero

*Writer.* Only at an epoch that is durable; atomic replace, then the new log likewise, in this order. *Reader.* It goes
from the tail to the index, and decodes the locations that are asked for; the taken files are for who judges a batch.
Every frame that is decoded is held against its checksum, the whole file only by a writer's start and by ``verify``. A
log whose base epoch is above the checkpoint's epoch means that a compaction came between the two reads: read both
again. Records of the log with ``n`` up to the head's are folded in already. ``store.epochs.files.checkpoint_v1`` has
the older version.
"""

from __future__ import annotations

import struct
import zlib
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any

import numpy as np

from store.epochs.state.files import FileWindow
from store.epochs.state.locations import Locations, decode_location, encode_location
from store.epochs.state.offsets import decode_offsets, encode_offsets
from store.epochs.state.records import BROKEN, decode_zone
from store.epochs.state.remembered import Taken
from store.epochs.state.replay import StreamState
from store.epochs.state.reports import Places, Shape, decode_shapes, encode_shapes
from store.epochs.state.rollbacks import RolledBack
from store.epochs.state.values import FileId, LocationState
from store.errors import CorruptFileError
from store.framing.canonical import dump, load, written
from store.framing.frames import CHECKPOINT_MAGIC, HEADER, Frame, frame, frame_at, header, read_header, version
from store.layout import LocationKey

FILES_A_FRAME = 5000
_TAIL = struct.Struct("<QQII")
_ENTRY = struct.Struct("<IIIQ")
TAIL_BYTES = 8 + _TAIL.size
Data = bytes | memoryview


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A state with the bytes of the removals file that are folded into it."""

    state: StreamState
    removals: int


class SavedLocations:
    """The locations of a file of this form. CorruptFileError for one whose frame is damaged."""

    def __init__(self, data: Data, index: bytes, where: object) -> None:
        self._data, self._where = data, where
        text = written(index)
        value = load(text, where)
        self.files = int(value["files"])
        self._shapes: tuple[Shape, ...] = decode_shapes(value["shapes"])
        self._internals, self._values = list(map(str, value["internals"])), list(map(str, value["values"]))
        self._entries = list(_ENTRY.iter_unpack(index[len(text) + 1 :])) if len(text) < len(index) else []
        self._places: dict[str, tuple[int, int]] = {}
        places = [entry[1] for entry in self._entries]
        for place, name in enumerate(self._values):  # values are numbered in the order in which they come
            first = bisect_left(places, place)
            self._places[name] = first, bisect_left(places, place + 1, lo=first)

    def keys(self) -> Iterator[LocationKey]:
        """All of them, by value and internal partition."""
        internals, values = self._internals, self._values
        return (LocationKey(internals[entry[0]], values[entry[1]]) for entry in self._entries)

    def values(self) -> list[str]:
        """The values that there are."""
        return self._values

    def of_value(self, value: str) -> list[LocationKey]:
        """Those of one value of the partitioning column."""
        first, last = self._places.get(value, (0, 0))
        return [LocationKey(self._internals[entry[0]], value) for entry in self._entries[first:last]]

    def find(self, key: LocationKey) -> LocationState | None:
        """One of them, decoded."""
        place = self._place(key)
        if place is None:
            return None
        _, _, length, offset = self._entries[place]
        part = frame_at(self._data, offset, length)
        if part is None:
            raise damaged(self._where, offset, f"the location {key.internal}/{key.value}", "damage")
        try:
            return decode_location(key, part.payload, self._shapes)
        except BROKEN as error:
            raise damaged(self._where, offset, f"the location {key.internal}/{key.value}", repr(error)) from error

    def _place(self, key: LocationKey) -> int | None:
        first, last = self._places.get(key.value, (0, 0))
        for place in range(first, last):
            if self._internals[self._entries[place][0]] == key.internal:
                return place
        return None

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: object) -> bool:
        return isinstance(key, LocationKey) and self._place(key) is not None


@dataclass(frozen=True, slots=True)
class Saved:
    """A file of this form: its ``first`` record, and what follows, not decoded.

    Every method raises CorruptFileError where a part is missing or damaged.
    """

    epoch: int
    first: Mapping[str, Any]
    locations: SavedLocations
    taken: tuple[int, int]
    data: Data
    where: object

    def number(self, key: str) -> int:
        """A number of the first record."""
        try:
            return int(self.first[key])
        except BROKEN as error:
            raise self._incomplete(error) from error

    def rolled_back(self) -> RolledBack:
        """The rollbacks that are folded in."""
        try:
            return tuple((int(to), int(made)) for to, made in self.first.get("rolledBack", ()))
        except BROKEN as error:
            raise self._incomplete(error) from error

    def check(self) -> None:
        """Looks at every byte."""
        index, _, crc, _ = _tail(self.data, self.where)
        found = zlib.crc32(self.data[:-TAIL_BYTES])
        if found != crc:
            raise damaged(self.where, index, f"bytes with crc {crc}", f"crc {found}")

    def files(self) -> Iterator[Taken]:
        """The taken files, frame by frame."""
        (at, end), count = self.taken, 0
        while at < end:
            part = frame_at(self.data, at)
            if part is None:
                raise damaged(self.where, at, "taken files", "damage")
            found = _decode_taken(part, self.where)
            yield found
            at, count = part.end, count + len(found[0])
        if count != self.locations.files:
            raise damaged(self.where, end, f"{self.locations.files} taken files", count)

    def decode(
        self, stream: str, *, locations: bool = True, rescue: Callable[[int], StreamState] | None = None
    ) -> Checkpoint:
        """The state; without ``locations`` only what does not speak of them. ``rescue``: in place of a damaged one."""
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
    """Locations of a cache: one that is damaged is put together from what it is a cache of."""

    def __init__(self, saved: SavedLocations, epoch: int, rescue: Callable[[int], StreamState]) -> None:
        self._saved, self._epoch, self._rescue = saved, epoch, rescue
        self.keys, self.values, self.of_value = saved.keys, saved.values, saved.of_value

    def find(self, key: LocationKey) -> LocationState | None:
        try:
            return self._saved.find(key)
        except CorruptFileError:
            return self._rescue(self._epoch).locations.get(key)

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
    """The state that a first record tells of, without files."""
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
        rolled_back=tuple((int(to), int(made)) for to, made in head.get("rolledBack", ())),
        rejected=int(head.get("rejected", 0)),
        zone=decode_zone(head),
    )


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
    internals, values, shapes = Places(), Places(), Places()
    first, entries = end, []
    for key in sorted(state.locations, key=lambda key: (key.value, key.internal)):
        data = frame(encode_location(state.locations[key], shapes))
        entries.append(_ENTRY.pack(internals[key.internal], values[key.value], len(data), end))
        yield piece(data)
    names = {"internals": list(internals), "values": list(values), "shapes": encode_shapes(shapes)}
    index = end
    yield piece(frame(dump({"files": count, **names}) + b"\n" + b"".join(entries)))
    yield frame(_TAIL.pack(index, first, crc, 0))


def decode_checkpoint(data: bytes, stream: str, where: object) -> Checkpoint:
    """The checkpoint in a file; anything that is not whole and consistent is a CorruptFileError."""
    saved = open_saved(data, where)
    saved.check()
    found = saved.decode(stream)
    found.state.locations.settle()
    found.state.files.read()
    return found


def open_saved(data: Data, where: object, *, magic: bytes = CHECKPOINT_MAGIC) -> Saved:
    """The file with its ends looked at; CorruptFileError where their checksums do not hold."""
    from store.epochs.files.checkpoint_v1 import open_v1

    epoch = read_header(data, magic, where)
    if version(data) == 1:
        return open_v1(bytes(data), epoch, where)
    index, first, _, _ = _tail(data, where)
    if not HEADER.size < first <= index <= len(data) - TAIL_BYTES:
        raise damaged(where, len(data) - TAIL_BYTES, "offsets inside of the file", f"{first} and {index}")
    opening, names = frame_at(data, HEADER.size), frame_at(data, index)
    if opening is None or names is None or names.end != len(data) - TAIL_BYTES:
        raise damaged(where, index, "sound first and last frames", "damage")
    try:
        locations = SavedLocations(data, names.payload, where)
    except BROKEN as error:
        raise damaged(where, index, "all keys of an index", repr(error)) from error
    return Saved(epoch, load(opening.payload, where), locations, (opening.end, first), data, where)


def _tail(data: Data, where: object) -> tuple[int, int, int, int]:
    at = len(data) - TAIL_BYTES
    part = frame_at(data, at) if at > HEADER.size else None
    if part is None or len(part.payload) != _TAIL.size:
        raise damaged(where, max(at, 0), "a tail", "bytes that are none")
    index, first, crc, zero = _TAIL.unpack(part.payload)
    return index, first, crc, zero


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
    if state.zone is not None:
        head["zone"] = state.zone
    return head


def _encode_taken(files: Sequence[FileId]) -> bytes:
    count = len(files)
    numbers = struct.pack(f"<I{2 * count}q", count, *(f.mtime_ns for f in files), *(f.size for f in files))
    return numbers + "\0".join(f.path for f in files).encode("utf-8", "surrogatepass")


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


def damaged(where: object, offset: int, expected: object, found: object) -> CorruptFileError:
    """The error for a checkpoint of any version, at a byte of its file."""
    return CorruptFileError(
        "checkpoint is damaged",
        where=f"{where} at byte {offset}",
        expected=expected,
        found=found,
        hint="restore it from a copy; the log beside it begins where it ends, so nothing can stand in for it",
    )
