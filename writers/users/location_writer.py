"""Rows of one location of a user table: a new one, or rows behind those that are committed; and splayed tables.

``LocationWriter`` commits nothing: bytes behind the committed lengths do not exist for readers, and opening a location
truncates what an earlier save left there. Saves hold the lock of the user table, ``.<Table>-LOCKFILE`` by ``fcntl``,
from begin to end.

A splayed table is one location, ``Tables/<Table>/``.

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

import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa

from sparkhaven.store.digest import CACHED_ROWS, RowDigests, to_hex
from sparkhaven.store.errors import FormatError, LockLostError, SchemaMismatchError, ValidationFailedError, counted
from sparkhaven.store.format.column.prefix import LITTLE, charset_of, encode_prefix
from sparkhaven.store.format.column.symbols import decode_symbols
from sparkhaven.store.format.table import table_size
from sparkhaven.store.format.table.definition import SPLAYED
from sparkhaven.store.format.table.table_size import TableSize
from sparkhaven.store.format.table.tbl import encode_tbl
from sparkhaven.store.io.fs import Fs, Lock
from sparkhaven.store.layout import replaced, saves_beside, staged
from sparkhaven.store.places import TablePlace
from sparkhaven.store.scan.column_file import open_column
from sparkhaven.store.types.committed_columns import UNKNOWN, FileState
from sparkhaven.store.types.model import Column, Storage, TableSchema
from sparkhaven.store.user_tables import DEFINITION, ONE, SAVE, SINCE, CommittedRows, UserTable, save_of, since_of
from sparkhaven.writers.append.column_files import ColumnFiles, column_values, cut_tails
from sparkhaven.writers.append.worker_cache import Ids, ids_of
from sparkhaven.writers.users.arrow_columns import IncomingRows

EMPTY = FileState(0, UNKNOWN)
SYMBOLIC = (Storage.SYMBOL, Storage.SET)
PAUSE_S = 0.01
GRACE_S = 3600.0  # an old directory stays so long, for readers that opened the table before


class LocationWriter(ColumnFiles):
    """Writes to one directory. Before the commit sync ``touched`` files, then the directory, and call ``prove``.

    ``held``: what is committed there; None makes the directory with empty files. CorruptFileError: a file is shorter
    than committed. SchemaMismatchError: another program wrote it in another form.
    """

    def __init__(self, fs: Fs, directory: Path, columns: tuple[Column, ...], held: CommittedRows | None) -> None:
        super().__init__(fs, directory, columns)
        self._given = RowDigests(columns)
        if held is None:
            self.create()
        else:
            self.rows, self.files = held.rows, dict(held.files)
            for column in columns:
                self._require_form(column)
            cut_tails(fs, directory, self.files, "restore the file from a copy, or save the table with mode replace")
            for column in columns:
                if column.storage in SYMBOLIC:
                    self.ids[column.name] = self._symbols(column)

    def _require_form(self, column: Column) -> None:
        path, prefix = self.directory / column.files[0], encode_prefix(column)
        same = column.files[0] in self.files and self.fs.read_range(path, 0, len(prefix)) == prefix
        if not same or any(self.files.get(name, EMPTY).crc == UNKNOWN for name in column.files):
            raise SchemaMismatchError(
                "another program wrote the files of a column, in a form that takes no rows of ours",
                where=path,
                expected=f"column {column.name} as this release writes it",
                found="another prefix, or other files",
                hint="read the table and save it with mode replace",
            )

    def _symbols(self, column: Column) -> Ids:
        _, sym, text = (self.directory / name for name in column.files)
        ends, data = (self.files[name] for name in column.files[1:])
        buffers = self.fs.map(sym, ends.size), self.fs.map(text, data.size)
        symbols = decode_symbols(*buffers, charset_of(column), LITTLE, str(sym)).to_pylist() if ends.size else []
        return ids_of(symbols, sym)

    def add(self, batch: pa.RecordBatch) -> None:
        """Writes rows; every column is encoded before the first byte is written."""
        self.append([column_values(column, [batch]) for column in self.columns])
        self._given.add(batch.columns, batch.num_rows)

    def prove(self) -> None:
        """ValidationFailedError: the rows that were added, read from their files as a reader does, are not those given.

        Nothing may be committed then.
        """
        sizes, read = {name: state.size for name, state in self.files.items()}, RowDigests(self.columns)
        opened = [open_column(self.fs, self.directory, column, sizes, self.rows) for column in self.columns]
        for first in range(self.rows - self._given.rows, self.rows, CACHED_ROWS):
            stop = min(first + CACHED_ROWS, self.rows)
            read.add([column.read(first, stop) for column in opened], stop - first)
        if read.row_digest != self._given.row_digest:
            raise ValidationFailedError(
                "the saved rows are not those that were given",
                where=self.directory,
                expected=f"{counted(self._given.rows, 'row')} with digest {to_hex(self._given.row_digest)}",
                found=f"rows with digest {to_hex(read.row_digest)} in the files",
                hint="nothing was published. Look at the disk of this path, then save again",
                phase="check",
            )

    def held(self) -> CommittedRows:
        """What the location has once it is committed."""
        return CommittedRows(self.rows, dict(self.files))


def lock_user_table(
    place: TablePlace,
    wait_s: float,
    clock: Callable[[], float] = time.monotonic,
    pause: Callable[[float], None] = time.sleep,
) -> Lock:
    """Takes the lock, and waits ``wait_s`` seconds for it; the file is made where there is none.

    LockLostError: another process held it all the time.
    """
    fs, path = place.fs, place.user_lock
    fs.keep_dirs(path.parent, place.layout.root)
    if fs.create(path):
        fs.sync_dirs([path.parent])
    until = clock() + wait_s
    while (lock := fs.record_lock(path)) is None:
        if clock() >= until:
            raise LockLostError(
                "another process is saving the user table",
                where=path,
                expected=f"free within {wait_s:g} seconds",
                found="still locked",
                hint="wait until it ends. `fuser` on the file names the process",
            )
        pause(PAUSE_S)
    return lock


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
