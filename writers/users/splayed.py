"""Saves of a splayed user table, which has one location: ``Tables/<Table>/``.

*Replace*

1. write the rows into a directory beside the place, with definition and ``table.size``; sync all of it, and read the
   rows back: what is published was seen
2. swap the two directories: the commit. The file system swaps them in one step; where it cannot, the old one is renamed
   away first, and whoever comes next puts it back if the process ends between the two renames. A first save is
   committed by the definition, since readers find no table without it: see ``mark_first``
3. keep the old directory under a hidden name for ``GRACE_S``, for readers that opened it

*Append*

1. write the rows behind the committed lengths; sync the files, and read the rows back
2. replace ``table.size``: the commit
"""

from __future__ import annotations

from pathlib import Path

from sparkhaven.store.errors import FormatError
from sparkhaven.store.format.table import table_size
from sparkhaven.store.format.table.definition import SPLAYED
from sparkhaven.store.format.table.table_size import TableSize
from sparkhaven.store.format.table.tbl import encode_tbl
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import replaced, saves_beside, staged
from sparkhaven.store.places import TablePlace
from sparkhaven.store.types.model import TableSchema
from sparkhaven.store.users.user_table import DEFINITION, ONE, SAVE, SINCE, CommittedRows, UserTable, save_of, since_of
from sparkhaven.writers.users.arrow_columns import IncomingRows
from sparkhaven.writers.users.location_writer import LocationWriter

GRACE_S = 3600.0  # an old directory stays so long, for readers that opened the table before


def replace_splayed(place: TablePlace, schema: TableSchema, rows: IncomingRows, save: int, now_ms: int) -> int:
    """Makes the rows the whole content of the table; returns their number."""
    fs, path = place.fs, place.splayed
    fs.keep_dirs(path.parent, place.layout.root)
    stage = staged(path, save)
    with fs.during("user-stage"):
        writer = LocationWriter(fs, stage, schema.stored, None)
        try:
            for batch in rows:
                writer.add(batch)
            rows.require(writer.rows)
        except Exception:
            fs.remove_tree(stage)
            raise
        fs.write_new(stage / DEFINITION, encode_tbl(schema, storage_type=SPLAYED))
        fs.write_new(stage / table_size.NAME, _published(writer.held(), save, save, now_ms))
        fs.sync([*writer.touched, stage / DEFINITION, stage / table_size.NAME])
        fs.sync_dirs([stage, path.parent])
        writer.prove()
    mark_first(place)
    with fs.during("user-publish"):
        if fs.stat(path) is None:
            fs.rename(stage, path)
        elif fs.exchange(stage, path):
            fs.sync_dirs([path.parent])
            _set_aside(place, stage)
        else:
            _set_aside(place, path)
            fs.rename(stage, path)
        fs.sync_dirs([path.parent])
    return writer.rows


def append_splayed(place: TablePlace, table: UserTable, rows: IncomingRows, save: int, now_ms: int) -> int:
    """Adds rows behind those of the table; returns their number."""
    fs, path, held = place.fs, place.splayed, table.locations[ONE]
    with fs.during("user-stage"):
        writer = LocationWriter(fs, path, table.schema.stored, held)
        for batch in rows:
            writer.add(batch)
        rows.require(writer.rows - held.rows)
        fs.sync(writer.touched)
        fs.sync_dirs([path])
        writer.prove()
    with fs.during("user-publish"):
        fs.replace(path / table_size.NAME, _published(writer.held(), save, table.since, now_ms))
    return writer.rows - held.rows


def settle_splayed(place: TablePlace, now_s: float) -> None:
    """Ends what a save left that was cut short, and removes old directories after ``GRACE_S``; under the lock."""
    fs, path = place.fs, place.splayed
    names = fs.names(path.parent)
    stages, olds = saves_beside(path, names, "stage"), saves_beside(path, names, "old")
    if path.name not in names and stages and olds:  # between the two renames
        fs.rename(replaced(path, olds.pop()), path)
        fs.sync_dirs([path.parent])
    size = size_of(fs, path)
    for save in stages:
        stage = staged(path, save)
        if size is not None and since_of(size) == save:  # swapped already: this is the old one
            _set_aside(place, stage)
        else:
            fs.remove_tree(stage)
    for save in olds:
        old = replaced(path, save)
        stat = fs.stat(old)
        if stat is not None and now_s - stat.ctime_ns / 1e9 >= GRACE_S:
            fs.remove_tree(old)


def mark_first(place: TablePlace) -> None:
    """Says before rows of a first save get their place that nobody has seen a table until it has a definition."""
    if place.fs.stat(place.user_definition) is None:
        with place.fs.during("user-first"):
            place.fs.replace(place.user_first, b"")


def next_save(place: TablePlace) -> int:
    """A number that no directory of the table has had since the last clean-up."""
    fs, path = place.fs, place.splayed
    size = size_of(fs, path)
    return max([0 if size is None else save_of(size), *saves_beside(path, fs.names(path.parent), "old")]) + 1


def size_of(fs: Fs, directory: Path) -> TableSize | None:
    """What is published there; None for what is damaged too: whoever reads the table reports it."""
    try:
        return table_size.load(fs, directory)
    except FormatError:
        return None


def _set_aside(place: TablePlace, directory: Path) -> None:
    size = size_of(place.fs, directory)
    target = replaced(place.splayed, 0 if size is None else since_of(size))
    place.fs.remove_tree(target)  # of another program: one such is kept
    place.fs.rename(directory, target)


def _published(held: CommittedRows, save: int, since: int, now_ms: int) -> bytes:
    state = {SAVE: str(save), SINCE: str(since)}
    return table_size.encode(table_size.of_files(held.rows, now_ms, held.files, source_state=state))
