"""Finds the locations whose directories hold exactly what the log says: of most streams all. Reads only.

The compiled core looks at them (``store.native.files``). What it does not find exact, for whatever reason, is
looked at by ``directory_plan``, which knows what is wrong. So a plan does not depend on it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparkhaven.store.epochs.files.published_size import data_start
from sparkhaven.store.epochs.state.locations import PackedLocations
from sparkhaven.store.epochs.state.log_values import LocationState
from sparkhaven.store.epochs.state.packed_location import Files
from sparkhaven.store.epochs.state.replay import StreamState
from sparkhaven.store.format.table.size_forms import size_form
from sparkhaven.store.layout import LocationKey
from sparkhaven.store.native.files import DIRECTORY, Directories, DirectoryForm, compare_directories
from sparkhaven.store.places import TablePlace


def exact_locations(place: TablePlace, state: StreamState, keys: Iterable[LocationKey]) -> set[LocationKey]:
    """Those of these locations of the state of which recovery has nothing to do or to say."""
    stored = state.locations.stored()
    exact = _exact_stored(place, state.stream, stored) if stored is not None else set()
    others = keys if stored is None else set(keys).difference(stored.keys)
    return exact | _exact_decoded(place, state.stream, [state.locations[key] for key in others])


def _exact_stored(place: TablePlace, stream: str, stored: PackedLocations) -> set[LocationKey]:
    """Of locations that were not decoded, and are not."""
    asked = np.flatnonzero((stored.numbers["marks"] == 0) & (stored.numbers["shape"] < len(stored.shapes)))
    numbers, keys = stored.numbers[asked], [stored.keys[index] for index in asked.tolist()]
    versions = numbers["schema_version"].astype(np.uint32)
    kinds, forms = np.unique(numbers["shape"].astype(np.int64) << 32 | versions, return_inverse=True)
    entries = np.zeros(len(keys), DIRECTORY)
    entries["form"], entries["packed"] = forms, stored.starts[asked]
    entries["rows"], entries["time"], entries["epoch"] = numbers["rows"], numbers["time_ms"], numbers["epoch"]
    alike = [_form(stream, stored.shapes[kind >> 32][0], kind & 0xFFFFFFFF) for kind in kinds.tolist()]
    return _compared(place, keys, alike, entries, stored.data)


def _exact_decoded(place: TablePlace, stream: str, locations: list[LocationState]) -> set[LocationKey]:
    forms: dict[tuple[tuple[str, ...], int], int] = {}
    keys: list[LocationKey] = []
    entries: list[tuple[int, int, int, int, int, int]] = []
    packed: list[bytes] = []
    end = 0
    for location in locations:
        if location.truncated or location.withdrawn:
            continue
        files = Files.of(location.files)
        form = forms.setdefault((files.names, location.schema_version), len(forms))
        keys.append(location.key)
        entries.append((form, 0, end, location.rows, location.time_ms, location.epoch))
        packed.append(files.data)
        end += len(files.data)
    alike = [_form(stream, *kind) for kind in forms]
    return _compared(place, keys, alike, np.array(entries, DIRECTORY), b"".join(packed))


def _compared(
    place: TablePlace,
    keys: list[LocationKey],
    forms: list[DirectoryForm],
    entries: NDArray[Any],
    packed: bytes | memoryview,
) -> set[LocationKey]:
    if not keys:
        return set()
    end = place.table.table
    paths = [f"{internal}/{value}/{end}" for internal, value in keys]
    exact = compare_directories(place.fs, Directories(place.intraday, forms, paths, entries, packed))
    return {key for key, good in zip(keys, exact.tolist(), strict=True) if good}


def _form(stream: str, names: tuple[str, ...], schema_version: int) -> DirectoryForm:
    form = size_form(stream, names, schema_version, False)
    return DirectoryForm(names, tuple(map(data_start, names)), form.template, form.places)
