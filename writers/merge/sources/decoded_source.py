"""A column of a source whose values are decoded and encoded anew, as an earlier form of a widened column is."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sparkhaven.store.format.column.blobs import encode_blobs
from sparkhaven.store.format.column.coded import encode_coded_blobs
from sparkhaven.store.format.column.fixed import encode_entries
from sparkhaven.store.format.column.plain_texts import WIDTH
from sparkhaven.store.format.column.prefix import charset_of
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.scan.column_file import ColumnFile, open_column
from sparkhaven.store.types.model import Column, Storage
from sparkhaven.store.types.widening import same_form
from sparkhaven.writers.merge.sources.merge_source import ColumnSource, MergeSource


class DecodedSource(ColumnSource):
    """One column of one source by its values: entries and bytes as a file of its newest form would have them."""

    def __init__(self, fs: Fs, source: MergeSource, column: Column, opened: ColumnFile, name: str) -> None:
        """``name``: the file that errors tell of."""
        self.fs, self.source, self.column, self._opened = fs, source, column, opened
        self._where = f"{source.directory / name}, row "

    @property
    def absent(self) -> bool:
        return self._opened.absent

    @property
    def as_stored(self) -> bool:
        return False

    @property
    def region(self) -> None:
        return None

    @property
    def encoding(self) -> str | None:
        """The charset of encoded texts: that which the schema declares."""
        return None if self.absent or self.column.storage is Storage.FIXED else charset_of(self.column)

    def entries(self, first: int, stop: int) -> npt.NDArray[Any]:
        """Raw entries of absolute rows ``[first, stop)``: numbers, or the ends of blobs in these rows."""
        if self.column.storage is Storage.BLOB:
            return self.ends(first, stop)[1:]
        return encode_entries(self._opened.read(first, stop), self.column.type)

    def ends(self, first: int, stop: int) -> npt.NDArray[np.int64]:
        """Ends of the encoded values of rows ``[first, stop)``, counted from 0, with the 0 before the first."""
        return self._encoded(first, stop)[0]

    def blobs(self, first: int, stop: int) -> pa.Array:
        ends, data = self._encoded(first, stop)
        buffers = [None, pa.py_buffer(ends), pa.py_buffer(data)]
        return pa.LargeBinaryArray.from_buffers(pa.large_binary(), stop - first, buffers)

    def _encoded(self, first: int, stop: int) -> tuple[npt.NDArray[np.int64], memoryview]:
        if self.absent:
            return np.zeros(stop - first + 1, np.int64), memoryview(b"")
        values, coding = self._opened.read(first, stop), self.column.type.blob

        def locate(index: int) -> str:
            return self._where + str(first + index)

        if coding is not None:
            ends, data = encode_coded_blobs(values, coding, 0, locate=locate)
        else:
            ends, data = encode_blobs(values, charset_of(self.column), 0, locate=locate)
        return np.concatenate((np.zeros(1, np.int64), np.frombuffer(ends, f"<i{WIDTH}"))), data

    def texts(self, first: int, stop: int) -> pa.Array:
        return self._opened.read(first, stop)


def widened_source(fs: Fs, source: MergeSource, column: Column) -> ColumnSource:
    """A column of a location of column files, in its newest form. Raises as ``ColumnSource``."""
    plain = ColumnSource(fs, source, column)
    written = plain.column
    if plain.absent or same_form(written, column):
        return plain
    sizes = {name: source.files[name].size for name in written.files}
    opened = open_column(fs, source.directory, column, sizes, source.rows)
    return DecodedSource(fs, source, column, opened, written.files[0])
