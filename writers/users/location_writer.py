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

from sparkhaven.store.digest.column_digest import CACHED_ROWS, RowDigests, to_hex
from sparkhaven.store.errors import LockLostError, SchemaMismatchError, ValidationFailedError, counted
from sparkhaven.store.format.column.prefix import LITTLE, charset_of, encode_prefix
from sparkhaven.store.format.column.symbols import decode_symbols
from sparkhaven.store.io.fs import Fs, Lock
from sparkhaven.store.places import TablePlace
from sparkhaven.store.scan.column_file import open_column
from sparkhaven.store.types.committed_columns import UNKNOWN, FileState
from sparkhaven.store.types.model import Column, Storage
from sparkhaven.store.users.user_table import CommittedRows
from sparkhaven.writers.append.column_files import ColumnFiles, cut_tails
from sparkhaven.writers.append.column_values import column_values
from sparkhaven.writers.append.worker_cache import Ids, ids_of

EMPTY = FileState(0, UNKNOWN)
SYMBOLIC = (Storage.SYMBOL, Storage.SET)


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
