"""Finds the locations whose directories hold exactly what the log says: of most streams all. Reads only.

The compiled core looks at them (``store.native.directories``). What it does not find exact, for whatever reason, is
looked at by ``directory_plan``, which knows what is wrong. So a plan does not depend on it.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from sparkhaven.store.epochs.files.published_size import data_start
from sparkhaven.store.epochs.state.packed_location import Files
from sparkhaven.store.epochs.state.replay import StreamState
from sparkhaven.store.format.table.size_forms import size_form
from sparkhaven.store.layout import LocationKey
from sparkhaven.store.native.directories import DIRECTORY, Directories, DirectoryForm, compare_directories
from sparkhaven.store.places import TablePlace


def exact_locations(place: TablePlace, state: StreamState, keys: Iterable[LocationKey]) -> set[LocationKey]:
    """Those of these locations of the state of which recovery has nothing to do or to say."""
    forms: dict[tuple[tuple[str, ...], int], int] = {}
    asked: list[LocationKey] = []
    paths: list[str] = []
    entries: list[tuple[int, int, int, int, int, int]] = []
    packed: list[bytes] = []
    end, table = 0, place.table.table
    for key in keys:
        location = state.locations[key]
        if location.truncated or location.withdrawn:
            continue
        files = Files.of(location.files)
        form = forms.setdefault((files.names, location.schema_version), len(forms))
        asked.append(key)
        paths.append(f"{key.internal}/{key.value}/{table}")
        entries.append((form, 0, end, location.rows, location.time_ms, location.epoch))
        packed.append(files.data)
        end += len(files.data)
    if not asked:
        return set()
    exact = compare_directories(
        place.fs,
        Directories(
            place.intraday,
            [_form(state.stream, *kind) for kind in forms],
            paths,
            np.array(entries, DIRECTORY),
            b"".join(packed),
        ),
    )
    return {key for key, good in zip(asked, exact.tolist(), strict=True) if good}


def _form(stream: str, names: tuple[str, ...], schema_version: int) -> DirectoryForm:
    form = size_form(stream, names, schema_version, False)
    return DirectoryForm(names, tuple(map(data_start, names)), form.blank, form.places)
