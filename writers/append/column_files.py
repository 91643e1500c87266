"""Column files of one directory, which grow by arrays: of an index, an exported leaf, a location of a user table.

Nothing here syncs or commits. Whoever opens the files again does so by the lengths that were committed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa

from sparkhaven.store.epochs.files.published_size import physical_size
from sparkhaven.store.errors import CorruptFileError
from sparkhaven.store.format.column.codecs import Base, encode_column
from sparkhaven.store.format.column.prefix import encode_prefix
from sparkhaven.store.format.column.region import DAT
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.native.checked_columns import crc32
from sparkhaven.store.types.committed_columns import FileState
from sparkhaven.store.types.model import Column
from sparkhaven.writers.append.worker_cache import Ids


def cut_tails(fs: Fs, directory: Path, files: Mapping[str, FileState], hint: str | None = None) -> bool:
    """Truncates files to what is committed of them; whether one is another file by now, which its directory names.

    CorruptFileError: a file is shorter; nothing is changed.
    """
    longer: dict[Path, tuple[int, bool]] = {}
    there = fs.sizes(directory, files)
    for name, state in files.items():
        length, (size, links) = physical_size(name, state.size), there.get(name, (-1, 0))
        if size < length:
            raise CorruptFileError(
                "file is shorter than its committed length",
                where=directory / name,
                expected=f"{length} bytes",
                found="no file" if size < 0 else f"{size} bytes",
                hint=hint,
            )
        if size > length:
            longer[directory / name] = length, links > 1
    for path, (length, shared) in longer.items():
        if shared:  # a backup made of hard links has the same inode
            fs.shorten(path, length)
        else:
            fs.truncate(path, length)
    return any(shared for _, shared in longer.values())


class ColumnFiles:
    """``files``: what each has; ``touched``: paths of those that were written to."""

    def __init__(self, fs: Fs, directory: Path, columns: Sequence[Column]) -> None:
        self.fs, self.directory, self.columns = fs, directory, tuple(columns)
        self.rows = 0
        self.files: dict[str, FileState] = {}
        self.touched: dict[Path, None] = {}
        self.ids: dict[str, Ids] = {}  # by column, of its symbols

    def create(self) -> None:
        """Makes the directory, with files without rows."""
        self.fs.mkdirs(self.directory)
        for column in self.columns:
            for name in column.files:
                self.fs.write_new(self.directory / name, encode_prefix(column) if name.endswith(DAT) else b"")
                self.files[name] = FileState(0, 0)
                self.touched[self.directory / name] = None

    def append(self, arrays: Sequence[pa.Array]) -> None:
        """Writes rows, an array for each column; all are encoded before the first byte is written."""
        parts: list[tuple[str, memoryview]] = []
        for column, array in zip(self.columns, arrays, strict=True):
            sizes, ids = {name: self.files[name].size for name in column.files}, self.ids.setdefault(column.name, {})
            encoded = encode_column(column, array, Base(self.rows, sizes, ids))
            parts += encoded.parts.items()
            ids.update(zip(encoded.symbols, range(len(ids), len(ids) + len(encoded.symbols)), strict=True))
        for name, data in parts:
            if not len(data):
                continue
            path, state = self.directory / name, self.files[name]
            self.fs.write_at(path, physical_size(name, state.size), data)
            self.files[name] = FileState(state.size + len(data), crc32(data, state.crc))
            self.touched[path] = None
        self.rows += len(arrays[0])
