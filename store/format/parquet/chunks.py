"""The metadata of a Parquet file, safe to be asked for its columns.

Arrow checks a column chunk, with its size statistics, when it makes the object for it. Asked for by ``.column()`` of
PyArrow, a damaged chunk is an exception of C++ that nobody catches: it ends the process. Arrow's reader makes the same
objects for all columns of a row group before it reads the first byte, and there such an exception is an error. So each
row group is begun once on a source that refuses to be read.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from pyarrow.parquet import FileMetaData

ANY_SIZE = 1 << 62
"""Of files whose sizes are not known, as those that ``_metadata`` names."""
_BUFFER = 4096  # of a column; without one the reader of a chunk reads it whole when it is made


def checked_chunks(metadata: FileMetaData, size: int) -> FileMetaData:
    """The same metadata of a file of ``size`` bytes, every column chunk checked as Arrow's reader does.

    pa.ArrowException or OSError: a damaged chunk, or one that lies outside of the file.
    """
    from pyarrow.parquet import ParquetFile  # which few commands need

    unread = ParquetFile(pa.PythonFile(_Unread(size), mode="r"), metadata=metadata, buffer_size=_BUFFER)
    for group in range(metadata.num_row_groups):
        try:
            next(unread.iter_batches(1, row_groups=[group], use_threads=False), None)
        except _ReadError:
            continue  # all chunks were sound
    return metadata


class _ReadError(Exception):
    """The reader wants pages."""


class _Unread(io.RawIOBase):
    """A file of a size that refuses to be read."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self._size, self._offset = size, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._offset

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._offset = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._offset, io.SEEK_END: self._size}[whence]
        return self._offset

    def read(self, size: int = -1) -> bytes:
        del size
        raise _ReadError
