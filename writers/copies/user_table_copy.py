"""One user table in a snapshot: its files as one save has left them. A save meanwhile is a SnapshotMovedError.

To intraday data other programs append: each location is copied up to the lengths that its ``table.size`` says.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from sparkhaven.store.epochs.files.published_size import TABLE_SIZE, data_start
from sparkhaven.store.errors import CorruptFileError, SnapshotMovedError
from sparkhaven.store.format.table.table_size import decode
from sparkhaven.store.layout import Layout, LocationKey
from sparkhaven.store.places import TablePlace
from sparkhaven.store.scan.column_file import column_header
from sparkhaven.store.types.committed_columns import UNKNOWN
from sparkhaven.store.users.location_record import CommittedRows
from sparkhaven.store.users.user_table import (
    UserTable,
    intraday_location,
    load_user_table,
    published,
    splayed_of,
)
from sparkhaven.writers.copies.content import user_digest
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
        intraday = {key: _intraday(place, target, copies, key) for key in table.intraday}
        for key, held in table.locations.items():
            if table.splayed:
                _location(place, splayed_of(place, table.since) or place.splayed, target.splayed, copies, held)
            else:
                _location(place, place.user_location(key), target.user_location(key), copies, held)
    except CorruptFileError:
        _require_unchanged(place, table)
        raise
    _require_unchanged(place, table)
    copied = replace(table, intraday=intraday)
    rows = sum(held.rows for held in (*copied.locations.values(), *copied.unsaved.values()))
    return CopiedTable(rows, {}, user_digest(target, copied), (), copies.files)


def _loaded(place: TablePlace) -> UserTable:
    table = load_user_table(place)
    if table is None:
        raise SnapshotMovedError("the table was removed meanwhile", where=place.user_definition, hint="run it again")
    return table


def _require_unchanged(place: TablePlace, table: UserTable) -> None:
    if replace(_loaded(place), intraday=table.intraday) != table:
        raise SnapshotMovedError("the table was saved meanwhile", where=place.user_definition, hint="run it again")


def _intraday(place: TablePlace, target: TablePlace, copies: FileCopies, key: LocationKey) -> CommittedRows:
    source, directory = intraday_location(place, key), intraday_location(target, key)
    data = place.fs.read(source / TABLE_SIZE)
    held = published(decode(data, source / TABLE_SIZE))
    _location(place, source, directory, copies, held)
    copies.write(directory / TABLE_SIZE, data)
    return held


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
