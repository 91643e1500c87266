"""A checkpoint or head on disk, decoded lazily; ``store.epochs.files.checkpoint`` documents the format.

The locations of a checkpoint or head on disk, decoded one by one; ``store.epochs.files.checkpoint`` documents the
format.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from sparkhaven.store.epochs.state.file_positions import FileWindow, Taken
from sparkhaven.store.epochs.state.locations import Locations, PackedLocations, decode_location
from sparkhaven.store.epochs.state.log_values import LocationState
from sparkhaven.store.epochs.state.offsets import decode_offsets
from sparkhaven.store.epochs.state.packed_location import Shape, decode_shapes
from sparkhaven.store.epochs.state.replay import StreamState
from sparkhaven.store.epochs.state.resume_rules import decode_rule
from sparkhaven.store.epochs.state.rollbacks import RolledBack
from sparkhaven.store.errors import CorruptFileError
from sparkhaven.store.framing.canonical import BEHIND, BROKEN, load, written
from sparkhaven.store.framing.log_frames import FRAME, HEADER, Frame, frame_at
from sparkhaven.store.layout import LocationKey
from sparkhaven.store.native.checked_columns import crc32

ENTRY = struct.Struct("<IIIQ")
_ENTRIES = np.dtype([("internal", "<u4"), ("value", "<u4"), ("length", "<u4"), ("offset", "<u8")])  # the same
Data = bytes | memoryview


class SavedLocations:
    """The locations of such a file. CorruptFileError: the frame of a location is damaged."""

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


TAIL = struct.Struct("<QQII")
TAIL_BYTES = 8 + TAIL.size


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A state, and the number of bytes of the removals file that are folded into it."""

    state: StreamState
    removals: int


@dataclass(frozen=True, slots=True)
class SavedState:
    """Such a file: its ``first`` record, the rest undecoded. CorruptFileError, of every method: it is damaged."""

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
            return tuple((int(to), int(epoch)) for to, epoch in self.first.get("rolledBack", ()))
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
        rolled_back=tuple((int(to), int(rollback)) for to, rollback in head.get("rolledBack", ())),
        rejected=int(head.get("rejected", 0)),
        rule=decode_rule(head),
        withdrawal=int(head.get("withdrawal", 0)),
    )


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
