"""What the directories of a stream's locations need so that they hold what the log says: the plan. Reads only.

Of most streams all directories hold exactly what the log says, and the compiled core looks whether they do
(``store.native.files``). What it does not find exact, for whatever reason, is looked at here, and it is known what is
wrong. So a plan does not depend on it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparkhaven.store.epochs.files.published_size import (
    TABLE_DEFINITION,
    TABLE_SIZE,
    data_start,
    read_published,
    record_bytes,
)
from sparkhaven.store.epochs.recovery.witnesses import Witnesses, refuse
from sparkhaven.store.epochs.state.locations import PackedLocations
from sparkhaven.store.epochs.state.log_values import LocationState
from sparkhaven.store.epochs.state.packed_location import Files
from sparkhaven.store.epochs.state.replay import StreamState
from sparkhaven.store.errors import CorruptFileError
from sparkhaven.store.format.table.table_size import TableSize, size_form
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import LocationKey, TableName
from sparkhaven.store.native.files import DIRECTORY, Directories, DirectoryForm, compare_directories
from sparkhaven.store.next_steps import restore_log
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
        if location.truncated or location.withdrawn or location.begun_by is not None:
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


COLUMN_SUFFIXES = (".dat", ".sym", ".bytes", ".ovr")


@dataclass(frozen=True, slots=True)
class Cut:
    """A file to be truncated to ``length``; with a new inode if it is ``shared`` with readers or by hard links."""

    path: Path
    length: int
    dropped: int
    shared: bool


@dataclass(frozen=True, slots=True)
class Moved:
    """A directory that is renamed to ``to``, because it may be a copy of data that nothing else has."""

    path: Path
    to: Path
    reason: str


@dataclass(slots=True)
class Settlement:
    """What has to be done so that the directories hold what the log says.

    ``ahead`` is the newest epoch of the stream that a file of the tree names, where that is beyond the log. ``damaged``
    are locations that were left as they are.
    """

    cuts: list[Cut] = field(default_factory=list)
    stray_files: list[Path] = field(default_factory=list)
    stray_locations: list[Path] = field(default_factory=list)
    moved: list[Moved] = field(default_factory=list)
    foreign: list[Path] = field(default_factory=list)
    unpublished: list[LocationState] = field(default_factory=list)
    undefined: list[LocationState] = field(default_factory=list)
    ahead: int = 0
    damaged: dict[LocationKey, CorruptFileError] = field(default_factory=dict)


def settle_locations(
    place: TablePlace, state: StreamState, keys: Iterable[LocationKey], *, ahead: bool, leave_damaged: bool = False
) -> Settlement:
    """Plans for locations of the state. ``ahead``: a record of a later epoch is not damage (power failure).

    With ``leave_damaged`` locations with missing or short files are collected, else the first is a CorruptFileError.
    """
    plan = Settlement()
    asked = list(keys)
    exact = exact_locations(place, state, asked)
    for key in asked:
        if key in exact:
            continue
        location = state.locations[key]
        directory = place.intraday_location(key)
        names = set(place.fs.names(directory))
        if location.truncated and not names:
            continue
        files = _files_of(place.fs, directory, location)
        data = place.fs.read(directory / TABLE_SIZE) if TABLE_SIZE in names else None
        current = data == record_bytes(state.stream, location)
        record = None
        if data is not None and not current:  # to decode one takes longer than to make one
            record = _published(place, key, state, data, ahead=ahead)
        if record is not None:
            plan.ahead = max(plan.ahead, beyond(record, state))
        damage = None if location.truncated else _damage(place.table, state.stream, location, directory, files)
        if damage is not None:
            if not leave_damaged:
                raise damage
            plan.damaged[key] = damage
            continue
        if not current:
            plan.unpublished.append(location)
        if not location.truncated and TABLE_DEFINITION not in names and place.fs.stat(place.schema) is not None:
            plan.undefined.append(location)
        if not location.truncated:
            _settle_files(directory, location, names, files, record, plan)
    return plan


def damage_of(place: TablePlace, state: StreamState, key: LocationKey) -> str | None:
    """The defect of a location's files, as a sentence; None if they have all committed bytes."""
    directory = place.intraday_location(key)
    location = state.locations.get(key)
    if location is None:
        return None
    damage = _damage(place.table, state.stream, location, directory, _files_of(place.fs, directory, location))
    if damage is None:
        return None
    return f"{damage.what}: {damage.where}, expected {damage.expected}, found {damage.found}"


@dataclass(frozen=True, slots=True)
class _File:
    """Bytes that are committed of a file, and its bytes and links on disk; None where it is not there."""

    name: str
    expected: int
    found: int | None
    links: int


def _files_of(fs: Fs, directory: Path, location: LocationState) -> list[_File]:
    """The committed files whose length is another one than was committed: of most locations none."""
    if location.truncated:
        return []
    files = Files.of(location.files)
    sizes = fs.sizes(directory, files.names)
    others = []
    for name, start, size in zip(files.names, _starts(files.names), files.sizes, strict=True):
        expected, there = start + size, sizes.get(name)
        if there is None or there[0] != expected:
            others.append(_File(name, expected, *(there or (None, 0))))
    return others


@lru_cache(256)
def _starts(names: tuple[str, ...]) -> tuple[int, ...]:
    """Where the data of each file begins; most locations have the same files."""
    return tuple(data_start(name) for name in names)


def _damage(
    table: TableName, stream: str, location: LocationState, directory: Path, files: list[_File]
) -> CorruptFileError | None:
    for file in files:
        if file.found is None or file.found < file.expected:
            key = f"{location.key.internal}/{location.key.value}"
            return CorruptFileError(
                "committed file is missing" if file.found is None else "file is shorter than its committed length",
                where=directory / file.name,
                expected=f"{file.expected} bytes",
                found="nothing" if file.found is None else f"{file.found} bytes",
                hint="restore the file from a copy, or roll back to an epoch before it, or set the location aside with"
                f" `sparkhaven recover {table} {stream} --quarantine {key}`. Nothing was changed or deleted",
            )
    return None


def _published(
    place: TablePlace, key: LocationKey, state: StreamState, data: bytes, *, ahead: bool
) -> TableSize | None:
    """The record of a location, which differs from what would be written now; None if it is torn."""
    path = place.intraday_location(key) / TABLE_SIZE
    record = read_published(data, path)
    if record is None:
        return None
    if beyond(record, state) and not ahead:
        log = place.of_stream(state.stream).stream_log
        raise CorruptFileError(
            "a location was published at an epoch that is missing in the commit log. Acknowledged records are lost",
            where=path,
            expected=f"epoch {state.epoch} at most",
            found=f"epoch {record.epoch}",
            hint=restore_log(place.table, state.stream, log),
        )
    if record.stream not in (None, state.stream):
        raise CorruptFileError(
            "a location of this stream was published by another stream",
            where=path,
            expected=f"stream {state.stream}, whose log has {key.internal}/{key.value}",
            found=f"stream {record.stream}",
            hint="a location has one writer. Restore the directory from a copy, or set it aside. Nothing was changed",
        )
    if record.truncated and not state.locations[key].truncated:
        refuse(Witnesses(place, [state]).location(key))
    return record


def beyond(record: TableSize, state: StreamState) -> int:
    """The epoch of a record of this stream if the log does not have it, else 0."""
    epoch = record.epoch or 0
    return epoch if record.stream == state.stream and epoch > state.epoch else 0


def _settle_files(
    directory: Path,
    location: LocationState,
    names: set[str],
    files: list[_File],
    published: TableSize | None,
    plan: Settlement,
) -> None:
    committed = location.files
    for file in files:
        if file.found is not None and file.found > file.expected:
            mapped = published is not None and published.data_file_sizes.get(file.name, 0) > committed[file.name].size
            cut = Cut(directory / file.name, file.expected, file.found - file.expected, mapped or file.links > 1)
            plan.cuts.append(cut)
    for name in sorted(names.difference(committed)):
        if name.endswith(COLUMN_SUFFIXES) or is_temporary(name):
            plan.stray_files.append(directory / name)


def is_temporary(name: str) -> bool:
    return name.startswith(".") and ".tmp-" in name
