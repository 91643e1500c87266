"""The ``table.parquet`` of one location, read column by column and row group by row group.

The committed bytes are mapped. Rows, types and field ids must be those of the location and its schema; damage is a
CorruptFileError with the path.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa

from sparkhaven.store.errors import CorruptFileError
from sparkhaven.store.format.parquet.footer import KEY, Footer, as_column, check_field, checked_chunks, decode_footer
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.types.model import Column
from sparkhaven.store.types.null_char import exchanged, other_null
from sparkhaven.store.types.row_ranges import RowRanges


class CommittedParquet:
    """An open file of ``rows`` committed rows. CorruptFileError: it is damaged, or has another number of rows."""

    def __init__(self, path: Path, data: pa.Buffer, rows: int) -> None:
        from pyarrow.parquet import ParquetFile  # which few readers need

        self.path, self.rows, self._size = path, rows, data.size
        with damage_at(path):
            self.file = ParquetFile(pa.BufferReader(data))
            self.schema = self.file.schema_arrow
        metadata = self.file.metadata
        if metadata.num_rows != rows:
            raise CorruptFileError(
                "Parquet file has another number of rows than its location",
                where=path,
                expected=f"{rows} rows",
                found=f"{metadata.num_rows} rows",
            )
        sizes = [metadata.row_group(index).num_rows for index in range(metadata.num_row_groups)]
        self.firsts = np.concatenate((np.zeros(1, np.int64), np.cumsum(sizes, dtype=np.int64)))

    @property
    def footer(self) -> Footer:
        return decode_footer((self.file.metadata.metadata or {}).get(KEY), self.path)

    def has(self, column: Column) -> bool:
        """Whether the file has the column, under the name that it has there; raises what ``check_field`` raises.

        Without it every row is null: the column is newer than the file.
        """
        field = self._field(column)
        if field < 0:
            return False
        check_field(self.schema.field(field), column, self.path)
        return True

    def _field(self, column: Column) -> int:
        """The number of the field of a column; -1 without one."""
        indices = self.schema.get_all_field_indices(column.name)
        return int(indices[0]) if indices else -1

    def uncompressed(self, column: Column) -> int:
        if not self.has(column):
            return 0
        field = self._field(column)
        with damage_at(self.path):
            metadata = checked_chunks(self.file.metadata, self._size)
        groups = range(metadata.num_row_groups)
        return sum(int(metadata.row_group(group).column(field).total_uncompressed_size) for group in groups)

    def reading(self, column: Column) -> ParquetReading | None:
        return ParquetReading(self, column) if self.has(column) else None

    def group(self, index: int, column: Column) -> pa.Array:
        with damage_at(self.path, f"column {column.name}, row group {index}"):
            name = self.schema.field(self._field(column)).name
            chunked = self.file.read_row_group(index, [name], use_threads=False).column(0)
            array = as_column(chunked, column)
        if len(array) != self.firsts[index + 1] - self.firsts[index]:
            raise CorruptFileError(
                f"column {column.name} of row group {index} has another number of rows than the group",
                where=self.path,
                expected=int(self.firsts[index + 1] - self.firsts[index]),
                found=len(array),
            )
        unit = other_null(column.type)
        return array if unit is None else exchanged(array, unit)


def parquet_schema(fs: Fs, path: Path, size: int) -> tuple[int, pa.Schema]:
    """Rows and fields of a file of so many bytes; CorruptFileError: it is damaged."""
    from pyarrow.parquet import ParquetFile  # which few readers need

    with damage_at(path):
        file = ParquetFile(fs.map(path, size))
        return file.metadata.num_rows, file.schema_arrow


class ParquetReading:
    """One column; keeps the row group that was read last, since batches are smaller."""

    def __init__(self, rows: CommittedParquet, column: Column) -> None:
        self._rows, self._column = rows, column
        self._kept: tuple[int, pa.Array] | None = None

    def read(self, start: int, stop: int, has_nulls: bool | None) -> pa.Array:
        firsts = self._rows.firsts
        low = int(np.searchsorted(firsts, start, side="right")) - 1
        high = int(np.searchsorted(firsts, stop, side="left"))
        parts = []
        for index in range(low, high):
            first = int(firsts[index])
            array = self._group(index)
            begin = max(start - first, 0)
            parts.append(array.slice(begin, min(stop - first, len(array)) - begin))
        return parts[0] if len(parts) == 1 else as_column(pa.chunked_array(parts), self._column)

    def take(self, rows: RowRanges, has_nulls: bool | None) -> pa.Array:
        """Some rows; row groups without any are not read."""
        del has_nulls
        chosen, firsts = rows.positions, self._rows.firsts
        edges = np.searchsorted(chosen, firsts)
        parts = []
        for index in np.flatnonzero(np.diff(edges)).tolist():
            inside = chosen[edges[index] : edges[index + 1]] - firsts[index]
            parts.append(self._group(index).take(pa.array(inside)))
        return parts[0] if len(parts) == 1 else as_column(pa.chunked_array(parts), self._column)

    def _group(self, index: int) -> pa.Array:
        if self._kept is None or self._kept[0] != index:
            self._kept = None  # before the next is read: both need not be in memory
            self._kept = index, self._rows.group(index, self._column)
        return self._kept[1]


@contextmanager
def damage_at(path: Path, part: str = "") -> Iterator[None]:
    """Errors of Arrow's Parquet reader as a CorruptFileError with the path."""
    try:
        yield
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        if isinstance(error, FileNotFoundError):
            raise
        what, where = "Parquet file is damaged", f"{path}, {part}" if part else path
        raise CorruptFileError(what, where=where, expected="a Parquet file", found=error) from error
