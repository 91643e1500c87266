"""One user table in a snapshot: its files as one save has left them. A save meanwhile is a SnapshotMovedError."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

from sparkhaven.store.epochs.files.published_size import data_start
from sparkhaven.store.errors import CorruptFileError, SnapshotMovedError
from sparkhaven.store.framing.canonical import dump
from sparkhaven.store.layout import Layout
from sparkhaven.store.places import TablePlace
from sparkhaven.store.scan.column_file import column_header
from sparkhaven.store.users.location_record import CommittedRows
from sparkhaven.store.users.user_table import UNKNOWN, UserTable, load_user_table, splayed_of
from sparkhaven.writers.copies.file_copies import FileCopies
from sparkhaven.writers.copies.manifest import CopiedTable


def copy_user_table(place: TablePlace, copies: FileCopies) -> CopiedTable:
    """Copies a user table below ``copies.top``. CorruptFileError: a file is damaged."""
    target = TablePlace(place.fs, Layout(copies.top), place.table)
    table = _loaded(place)
    try:
        copies.write(target.user_definition, place.fs.read(place.user_definition))
        if table.record is not None:
            copies.write(target.user_locations, place.fs.read(place.user_locations))
        for key, held in table.locations.items():
            if table.splayed:
                _location(place, splayed_of(place, table.since) or place.splayed, target.splayed, copies, held)
            else:
                _location(place, place.user_location(key), target.user_location(key), copies, held)
    except CorruptFileError:
        _require_unchanged(place, table)
        raise
    _require_unchanged(place, table)
    rows = sum(held.rows for held in table.locations.values())
    return CopiedTable(rows, {}, user_digest(table), (), copies.files)


def user_digest(table: UserTable) -> str:
    """A digest of the lengths and checksums of all files."""
    files = {
        f"{key.internal}/{key.value}": {name: [state.size, state.crc] for name, state in held.files.items()}
        for key, held in table.locations.items()
    }
    return sha256(dump({"user": files})).hexdigest()[:32]


def _loaded(place: TablePlace) -> UserTable:
    table = load_user_table(place)
    if table is None:
        raise SnapshotMovedError("the table was removed meanwhile", where=place.user_definition, hint="run it again")
    return table


def _require_unchanged(place: TablePlace, table: UserTable) -> None:
    if _loaded(place) != table:
        raise SnapshotMovedError("the table was saved meanwhile", where=place.user_definition, hint="run it again")


def _location(place: TablePlace, source: Path, directory: Path, copies: FileCopies, held: CommittedRows) -> None:
    for name, stat in place.fs.entries(source):
        if stat.is_dir:
            continue
        if name not in held.files:
            copies.write(directory / name, place.fs.read(source / name))
            continue
        state = held.files[name]
        start = column_header(place.fs, source / name).data_offset if name.endswith(".dat") else 0
        known = state.crc if state.crc != UNKNOWN and start == data_start(name) else None
        copies.commit(source / name, directory / name, start + state.size, known)
