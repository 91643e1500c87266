"""Rows of one location of a user table: a new one, or rows behind those that are committed.

Nothing here commits: bytes behind the committed lengths do not exist for readers, and opening a location truncates what
an earlier save left there.

Saves hold the lock of the user table, ``.<Table>-LOCKFILE`` by ``fcntl``, from begin to end.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa

from sparkhaven.store.digest.column_digest import CACHED_ROWS, add, digest_rows, row_hashes, to_hex
from sparkhaven.store.epochs.files.published_size import physical_size
from sparkhaven.store.errors import CorruptFileError, LockLostError, SchemaMismatchError, ValidationFailedError, counted
from sparkhaven.store.format.column.codecs import Base, encode_column
from sparkhaven.store.format.column.prefix import LITTLE, charset_of, encode_prefix
from sparkhaven.store.format.column.symbols import decode_symbols
from sparkhaven.store.io.fs import Fs, Lock
from sparkhaven.store.native.checked_columns import crc32
from sparkhaven.store.places import TablePlace
from sparkhaven.store.scan.column_file import open_column
from sparkhaven.store.types.committed_columns import UNKNOWN, FileState
from sparkhaven.store.types.model import Column, Storage
from sparkhaven.store.users.location_record import CommittedRows
from sparkhaven.writers.append.column_values import column_values
from sparkhaven.writers.append.worker_cache import Ids, ids_of

EMPTY = FileState(0, UNKNOWN)
SYMBOLIC = (Storage.SYMBOL, Storage.SET)


class LocationWriter:
    """Writes to one directory. Before the commit sync ``touched`` files, then the directory, and call ``prove``.

    ``held``: what is committed there; None makes the directory with empty files. CorruptFileError: a file is shorter
    than committed. SchemaMismatchError: another program wrote it in another form.
    """

    def __init__(self, fs: Fs, directory: Path, columns: tuple[Column, ...], held: CommittedRows | None) -> None:
        self._fs, self.directory, self._columns = fs, directory, columns
        self.touched: dict[Path, None] = {}
        self._files: dict[str, FileState] = {}
        self._ids: dict[str, Ids] = {}
        self.rows = self._first = self._given = 0
        if held is None:
            fs.mkdirs(directory)
            for column in columns:
                for name in column.files:
                    self._create(column, name)
        else:
            self.rows, self._files = held.rows, dict(held.files)
            self._first = held.rows
            for column in columns:
                self._resume(column)

    def _create(self, column: Column, name: str) -> None:
        self._fs.write_new(self.directory / name, encode_prefix(column) if name.endswith(".dat") else b"")
        self._files[name] = FileState(0, 0)
        self.touched[self.directory / name] = None

    def _resume(self, column: Column) -> None:
        path, prefix = self.directory / column.files[0], encode_prefix(column)
        same = column.files[0] in self._files and self._fs.read_range(path, 0, len(prefix)) == prefix
        if not same or any(self._files.get(name, EMPTY).crc == UNKNOWN for name in column.files):
            raise SchemaMismatchError(
                "another program wrote the files of a column, in a form that takes no rows of ours",
                where=path,
                expected=f"column {column.name} as this release writes it",
                found="another prefix, or other files",
                hint="read the table and save it with mode replace",
            )
        for name in column.files:
            self._cut(self.directory / name, physical_size(name, self._files[name].size))
        if column.storage in SYMBOLIC:
            _, sym, text = (self.directory / name for name in column.files)
            ends, data = (self._files[name] for name in column.files[1:])
            buffers = self._fs.map(sym, ends.size), self._fs.map(text, data.size)
            symbols = decode_symbols(*buffers, charset_of(column), LITTLE, str(sym)).to_pylist() if ends.size else []
            self._ids[column.name] = ids_of(symbols, sym)

    def _cut(self, path: Path, length: int) -> None:
        stat = self._fs.stat(path)
        if stat is None or stat.size < length:
            raise CorruptFileError(
                "file is shorter than its committed length",
                where=path,
                expected=f"{length} bytes",
                found="no file" if stat is None else f"{stat.size} bytes",
                hint="restore the file from a copy, or save the table with mode replace",
            )
        if stat.size > length and stat.links > 1:  # a backup made of hard links has the same inode
            self._fs.shorten(path, length)
        elif stat.size > length:
            self._fs.truncate(path, length)

    def append(self, batch: pa.RecordBatch) -> None:
        """Writes rows; every column is encoded before the first byte is written."""
        parts: list[tuple[str, memoryview]] = []
        for column in self._columns:
            sizes = {name: self._files[name].size for name in column.files}
            base = Base(self.rows, sizes, self._ids.get(column.name, {}))
            encoded = encode_column(column, column_values(column, [batch]), base)
            parts += encoded.parts.items()
            if encoded.symbols:
                ids = self._ids.setdefault(column.name, {})
                ids.update(zip(encoded.symbols, range(len(ids), len(ids) + len(encoded.symbols)), strict=True))
        for name, data in parts:
            if not len(data):
                continue
            path, state = self.directory / name, self._files[name]
            self._fs.write_at(path, physical_size(name, state.size), data)
            self._files[name] = FileState(state.size + len(data), crc32(data, state.crc))
            self.touched[path] = None
        self._given = add(self._given, digest_rows(row_hashes(self._columns, batch.columns, batch.num_rows)))
        self.rows += batch.num_rows

    def prove(self) -> None:
        """ValidationFailedError: the rows that were added, read from their files as a reader does, are not those given.

        Nothing may be committed then.
        """
        sizes, there = {name: state.size for name, state in self._files.items()}, 0
        opened = [open_column(self._fs, self.directory, column, sizes, self.rows) for column in self._columns]
        for first in range(self._first, self.rows, CACHED_ROWS):
            stop = min(first + CACHED_ROWS, self.rows)
            arrays = [column.read(first, stop) for column in opened]
            there = add(there, digest_rows(row_hashes(self._columns, arrays, stop - first)))
        if there != self._given:
            raise ValidationFailedError(
                "the saved rows are not those that were given",
                where=self.directory,
                expected=f"{counted(self.rows - self._first, 'row')} with digest {to_hex(self._given)}",
                found=f"rows with digest {to_hex(there)} in the files",
                hint="nothing was published. Look at the disk of this path, then save again",
                phase="check",
            )

    def held(self) -> CommittedRows:
        """What the location has once it is committed."""
        return CommittedRows(self.rows, dict(self._files))


PAUSE_S = 0.01


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
