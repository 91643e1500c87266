"""The locations of a state: those of a checkpoint or head, decoded lazily, and later changes.

A location of a checkpoint of version 2 is one frame, little-endian: i8 since, i8 epoch, i8 rows, i8 time (ms), i8
time when it was made (ms), i4 schema version, u1 marks (1: truncated, 2: withdrawn rows, 4: an earlier version of the
schema has created it), u4 place of its shape; files (``store.epochs.state.packed_location``); for each group of columns
u4 number of rows of statistics, the u4 length of each, and the rows (``store.epochs.state.statistics``); u4 that
earlier version, where marked; of a location with withdrawn rows their ranges, to the end.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Set
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any, Protocol

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from sparkhaven.store.epochs.state.log_records import RANGE_BYTES, pack_ranges, unpack_ranges
from sparkhaven.store.epochs.state.log_values import LocationState
from sparkhaven.store.epochs.state.packed_location import Files, Shape, Stats
from sparkhaven.store.layout import LocationKey
from sparkhaven.store.types.row_ranges import NO_ROWS

TRUNCATED, WITHDRAWN, BEGUN_EARLIER = 1, 2, 4
_FIXED = struct.Struct("<qqqqqiBI")
_COUNT = struct.Struct("<I")
_NUMBERS = np.dtype(  # the same as _FIXED
    [(name, "<i8") for name in ("since", "epoch", "rows", "time_ms", "made_ms")]
    + [("schema_version", "<i4"), ("marks", "u1"), ("shape", "<u4")]
)
_NO_OCTETS = np.zeros((0, _FIXED.size), np.uint8)


def shape_of(location: LocationState) -> tuple[Shape, Files, Stats]:
    """The file and column names of a location, with its file states and statistics."""
    files, stats = Files.of(location.files), Stats.of(location.stats)
    return (files.names, tuple(names for names, _ in stats.groups)), files, stats


def encode_location(location: LocationState, shapes: MutableMapping[Shape, int]) -> bytes:
    """The payload of a location's frame; ``shapes`` numbers them."""
    shape, files, stats = shape_of(location)
    times = location.since, location.epoch, location.rows, location.time_ms, location.made_ms
    marks = TRUNCATED * location.truncated | WITHDRAWN * bool(location.withdrawn)
    marks |= BEGUN_EARLIER * (location.begun_by is not None)
    parts = [_FIXED.pack(*times, location.schema_version, marks, shapes[shape]), files.data]
    for _, rows in stats.groups:
        parts.append(struct.pack(f"<{1 + len(rows)}I", len(rows), *map(len, rows)))
        parts += rows
    if location.begun_by is not None:
        parts.append(_COUNT.pack(location.begun_by))
    parts.append(pack_ranges(location.withdrawn))
    return b"".join(parts)


def decode_location(key: LocationKey, data: bytes, shapes: tuple[Shape, ...]) -> LocationState:
    """The inverse. IndexError, ValueError, struct.error: data is missing."""
    since, epoch, rows, time_ms, made_ms, schema, marks, shape = _FIXED.unpack_from(data)
    names, groups = shapes[shape]
    offset = _FIXED.size
    length = Files.length(len(names), data, offset)
    files = Files(names, data[offset : offset + length])
    offset += length
    packed = []
    for columns in groups:
        (count,) = _COUNT.unpack_from(data, offset)
        ends = [*accumulate(struct.unpack_from(f"<{count}I", data, offset + 4), initial=offset + 4 + 4 * count)]
        packed.append((columns, tuple(data[a:b] for a, b in pairwise(ends))))
        offset = ends[-1]
    withdrawn, begun_by = NO_ROWS, None
    if marks & BEGUN_EARLIER:
        (begun_by,) = _COUNT.unpack_from(data, offset)
        offset += _COUNT.size
    if marks & WITHDRAWN:
        withdrawn = unpack_ranges(data[offset:], (len(data) - offset) // RANGE_BYTES)
    elif offset != len(data):
        raise ValueError(f"location ends at byte {offset} of {len(data)}")
    stats = Stats(tuple(packed))
    times = time_ms, bool(marks & TRUNCATED), made_ms
    return LocationState(key, since, epoch, rows, files, stats, schema, *times, withdrawn, begun_by)


@dataclass(frozen=True, slots=True)
class PackedLocations:
    """Locations as a file stores them: the ``numbers`` before the files of each, whose states begin at ``starts``.

    ``numbers`` has ``since``, ``epoch``, ``rows``, ``time_ms``, ``made_ms``, ``schema_version``, ``marks``, ``shape``.
    """

    keys: list[LocationKey]
    numbers: NDArray[Any]
    starts: NDArray[np.int64]
    data: bytes | memoryview
    shapes: tuple[Shape, ...]

    @staticmethod
    def of(
        keys: list[LocationKey], data: bytes | memoryview, offsets: NDArray[np.int64], shapes: tuple[Shape, ...]
    ) -> PackedLocations:
        """Those whose payloads begin at ``offsets``. IndexError, ValueError: data is missing."""
        octets = sliding_window_view(np.frombuffer(data, np.uint8), _FIXED.size)[offsets] if keys else _NO_OCTETS
        return PackedLocations(
            keys, np.ascontiguousarray(octets).view(_NUMBERS)[:, 0], offsets + _FIXED.size, data, shapes
        )

    def without(self, keys: Set[LocationKey]) -> PackedLocations:
        """These locations without some."""
        if not keys:
            return self
        others = [index for index, key in enumerate(self.keys) if key not in keys]
        left = [self.keys[index] for index in others]
        return PackedLocations(left, self.numbers[others], self.starts[others], self.data, self.shapes)


class LazyLocations(Protocol):
    """Locations stored in a file, by value of the partitioning column, then internal partition.

    ``packed``: all of them, in the order of ``keys``; None unless their bytes are in memory, and sound.
    """

    def packed(self) -> PackedLocations | None: ...
    def keys(self) -> Iterator[LocationKey]: ...
    def of_value(self, value: str) -> list[LocationKey]: ...
    def values(self) -> list[str]: ...
    def find(self, key: LocationKey) -> LocationState | None: ...
    def __len__(self) -> int: ...
    def __contains__(self, key: object) -> bool: ...


class Locations(MutableMapping[LocationKey, LocationState]):
    """Locations by key; stored locations and pending changes are decoded on first use."""

    __slots__ = ("_by_value", "_gone", "_known", "_later", "_saved")

    def __init__(
        self, known: Mapping[LocationKey, LocationState] | None = None, saved: LazyLocations | None = None
    ) -> None:
        self._known: dict[LocationKey, LocationState] = dict(known or {})
        self._saved = saved
        self._gone: set[LocationKey] = set()
        self._later: dict[LocationKey, list[Callable[[LocationState | None], LocationState]]] = {}
        self._by_value: dict[str, list[LocationKey]] | None = None  # of what is known or pending; made when asked for

    def __getitem__(self, key: LocationKey) -> LocationState:
        location = self._known.get(key)
        if location is None and self._saved is not None and key not in self._gone:
            location = self._saved.find(key)
        for step in self._later.pop(key, ()):
            location = step(location)
        if location is None:
            raise KeyError(key)
        self._known[key] = location
        return location

    def __setitem__(self, key: LocationKey, location: LocationState) -> None:
        if key not in self._known:
            self._by_value = None
        self._later.pop(key, None)
        self._known[key] = location

    def __delitem__(self, key: LocationKey) -> None:
        if key not in self:
            raise KeyError(key)
        self._by_value = None
        self._known.pop(key, None)
        self._later.pop(key, None)
        if self._saved is not None:
            self._gone.add(key)

    def copy(self) -> Locations:
        """A copy of these locations; what is decoded or changed here later is not so there."""
        copied = Locations(self._known, self._saved)
        copied._gone = set(self._gone)
        copied._later = {key: list(steps) for key, steps in self._later.items()}
        copied._by_value = self._by_value
        return copied

    def later(self, key: LocationKey, step: Callable[[LocationState | None], LocationState]) -> None:
        if key not in self._known and key not in self._later:
            self._by_value = None
        self._later.setdefault(key, []).append(step)

    def settle(self) -> None:
        """Applies all pending changes. Decodes everything, and releases the file, unless its bytes are held."""
        if self._saved is not None and self._saved.packed() is not None:
            for key in list(self._later):
                self[key]
            return
        self._known = {key: self[key] for key in list(self)}
        self._saved = self._by_value = None
        self._gone.clear()

    def __contains__(self, key: object) -> bool:
        if key in self._known or key in self._later:
            return True
        return self._saved is not None and key not in self._gone and key in self._saved

    def __iter__(self) -> Iterator[LocationKey]:
        saved = () if self._saved is None else self._saved.keys()
        seen = self._known.keys() | self._later.keys()
        yield from list(self._known)
        yield from [key for key in self._later if key not in self._known]
        yield from (key for key in saved if key not in seen and key not in self._gone)

    def __len__(self) -> int:
        if self._saved is None:
            return len(self._known.keys() | self._later.keys())
        return sum(1 for _ in self)

    def stored(self) -> PackedLocations | None:
        """Those that were not decoded yet, of a file whose bytes are held; None: there is no such file."""
        packed = None if self._saved is None else self._saved.packed()
        return None if packed is None else packed.without(self._known.keys() | self._later.keys() | self._gone)

    def truncated(self) -> list[LocationState]:
        """Those that are truncated; only they are decoded."""
        stored = self.stored()
        if stored is None:
            return [location for location in self.values() if location.truncated]
        keys = [stored.keys[index] for index in np.flatnonzero(stored.numbers["marks"] & TRUNCATED).tolist()]
        keys += [key for key in (*self._known, *self._later) if self[key].truncated]
        return [self[key] for key in dict.fromkeys(keys)]

    def dates(self) -> set[str]:
        dates = {key.value for key in self._known} | {key.value for key in self._later}
        if self._saved is None:
            return dates
        doubtful = {key.value for key in self._gone}
        dates |= {value for value in self._saved.values() if value not in doubtful}
        return dates | {value for value in doubtful if any(k not in self._gone for k in self._saved.of_value(value))}

    def of_date(self, value: str) -> list[LocationState]:
        keys = set(self._keys_by_value().get(value, ()))
        if self._saved is not None:
            keys |= {key for key in self._saved.of_value(value) if key not in self._gone}
        return [self[key] for key in sorted(keys)]

    def _keys_by_value(self) -> dict[str, list[LocationKey]]:
        """Who asks for one date after the other does not look at all locations each time."""
        by_value = self._by_value
        if by_value is None:
            by_value = {}
            for key in (*self._known, *self._later):
                by_value.setdefault(key.value, []).append(key)
            self._by_value = by_value
        return by_value

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Mapping):
            return NotImplemented
        return set(self) == set(other) and all(self[key] == other[key] for key in self)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr({key: self[key] for key in self})

    def __copy__(self) -> Locations:
        return Locations({key: self[key] for key in self})
