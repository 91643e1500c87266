"""A Parquet file of another program: opened without trust in it, errors as ours.

The file is read, not mapped: another process may shorten it meanwhile.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from sparkhaven.store.errors import CorruptFileError
from sparkhaven.store.io.fs import Fs

if TYPE_CHECKING:
    from pyarrow.parquet import ParquetFile

BUFFER = 1 << 20  # bytes of a column that are fetched at a time


class _Raw(io.RawIOBase):
    """A file of ``Fs`` as Arrow takes it."""

    def __init__(self, fs: Fs, path: Path) -> None:
        self._file, self._at = fs.open(path), 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._file.size}[whence]
        self._at = base + offset
        return self._at

    def read(self, size: int = -1) -> bytes:
        length = self._file.size - self._at if size < 0 else size
        data = self._file.read(self._at, length)
        self._at += len(data)
        return data


def open_foreign(fs: Fs, path: Path, **options: Any) -> ParquetFile:
    """An open file; CorruptFileError: it is missing, or no Parquet file."""
    from pyarrow.parquet import ParquetFile  # which other commands do not need

    try:
        raw = pa.PythonFile(_Raw(fs, path), mode="r")
    except FileNotFoundError as error:
        raise damaged(path, "the file", "nothing") from error
    with foreign_damage(path):
        return ParquetFile(raw, buffer_size=BUFFER, page_checksum_verification=True, **options)


@contextmanager
def foreign_damage(path: Path, part: str = "") -> Iterator[None]:
    """Errors of Arrow's Parquet reader as a CorruptFileError with the path."""
    try:
        yield
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise damaged(path, "a Parquet file", error, part) from error


def damaged(path: Path, expected: object, found: object, part: str = "") -> CorruptFileError:
    return CorruptFileError(
        "file of the tree is damaged",
        where=f"{path}, {part}" if part else path,
        expected=expected,
        found=found,
        hint="copy it again, or have it written again. Nothing of its date was imported",
    )
