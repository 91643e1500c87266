"""The locations of a checkpoint or head on disk, decoded one by one; ``store.epochs.files.checkpoint`` documents the
format.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

import numpy as np

from sparkhaven.store.epochs.state.locations import PackedLocations, decode_location
from sparkhaven.store.epochs.state.log_values import LocationState
from sparkhaven.store.epochs.state.packed_reports import Shape, decode_shapes
from sparkhaven.store.errors import CorruptFileError
from sparkhaven.store.framing.canonical import BEHIND, BROKEN, load, written
from sparkhaven.store.framing.log_frames import FRAME, frame_at
from sparkhaven.store.layout import LocationKey

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
