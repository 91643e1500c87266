"""Checkpoints and heads of version 1, as they were written once: JSON throughout.

Frames of ``store.framing.log_frames``, magic ``SHVCKP1`` or ``SHVHED1``: 1. head, as in version 2, with ``locations``
and ``files`` (counts); 2. taken files, up to 1,000 a frame: ``taken`` [[path, size, mtime ns], ...] by (mtime, path);
3. one frame a location, by key: ``at``, ``since``, ``epoch``, ``rows``, ``files`` {name: [bytes, crc]}, ``stats``
{column: [range, ...]} (``store.epochs.state.log_records``), ``schema``, ``time``, ``truncated``; 4. tail: ``end`` true,
``crc`` (CRC-32 of all bytes before this frame). Every byte is looked at when the file is opened.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass

from sparkhaven.store.epochs.files.saved_locations import SavedLocations, damaged
from sparkhaven.store.epochs.files.saved_state import SavedState
from sparkhaven.store.epochs.state.log_records import decode_files, decode_location
from sparkhaven.store.epochs.state.log_values import LocationState
from sparkhaven.store.epochs.state.taken_files import Taken
from sparkhaven.store.framing.canonical import BROKEN, load
from sparkhaven.store.framing.log_frames import Frame, scan
from sparkhaven.store.layout import LocationKey

FILES_A_FRAME = 1000


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
        of_files = -(-files // FILES_A_FRAME)
        locations = [decode_location(load(part.payload, where)) for part in middle[of_files:]]
    except BROKEN as error:
        raise damaged(where, first.offset, "all keys of a checkpoint", repr(error)) from error
    if len(locations) != count:
        raise damaged(where, first.offset, f"{count} locations", len(locations))
    return _Saved(epoch, head, _Locations(locations, files), (0, 0), data, where, tuple(middle[:of_files]))
