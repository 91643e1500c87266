"""Data files of a quarantine, in portions that fit into memory: written by us, read whoever has written them."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from sparkhaven.store.errors import CorruptFileError
from sparkhaven.store.io.fs import Fs
from sparkhaven.writers.quarantine.quarantine_columns import COLUMNS

FILE_BYTES = 32 << 20  # of a file; it is held in memory until it is written
PORTION_BYTES = 8 << 20  # of rows that are read or encoded together, as far as they are of about one size
PORTION_ROWS = 10_000

Numbers = npt.NDArray[np.int64]


class NewFiles:
    """Writes rows into new data files in ``place``; ``adds`` are the actions that add them, after ``close``."""

    def __init__(self, fs: Fs, directory: Path, now_ms: int, *, is_change: bool = True) -> None:
        self.adds: list[dict[str, Any]] = []
        self._fs, self._directory, self._now_ms, self._is_change = fs, directory, now_ms, is_change
        self._paths: list[Path] = []
        self._sink: pa.BufferOutputStream | None = None
        self._writer: pq.ParquetWriter
        self._rows = 0

    def write(self, rows: pa.Table) -> None:
        """Adds rows; all calls have the same columns."""
        if not rows.num_rows:
            return
        if self._sink is None:
            self._sink = pa.BufferOutputStream()
            self._writer = pq.ParquetWriter(self._sink, rows.schema, compression="zstd", compression_level=1)
        portion = max(1, min(PORTION_ROWS, rows.num_rows * PORTION_BYTES // max(rows.nbytes, 1)))
        self._writer.write_table(rows, row_group_size=portion)
        self._rows += rows.num_rows
        if self._sink.tell() >= FILE_BYTES:
            self._end_file()

    def close(self) -> None:
        """Ends the last file and makes all of them durable."""
        self._end_file()
        with self._discarding():
            self._fs.sync(self._paths)
            if self._paths:
                self._fs.sync_dirs([self._directory])

    def discard(self) -> None:
        for path in self._paths:
            self._fs.unlink(path)

    @contextmanager
    def _discarding(self) -> Iterator[None]:
        """A disk that is full, or fails, keeps nothing of what is not committed."""
        try:
            yield
        except OSError:
            self.discard()
            raise

    def _end_file(self) -> None:
        if self._sink is None:
            return
        self._writer.close()
        data = self._sink.getvalue()
        path = self._directory / f"part-{uuid.uuid4()}.zstd.parquet"
        self._paths.append(path)
        with self._discarding():
            self._fs.write_new(path, data)
        self.adds.append(
            {
                "path": path.name,
                "partitionValues": {},
                "size": data.size,
                "modificationTime": self._now_ms,
                "dataChange": self._is_change,
                "stats": json.dumps({"numRecords": self._rows}),
            }
        )
        self._sink, self._rows = None, 0


def read_columns(fs: Fs, path: Path, columns: Sequence[str]) -> pa.Table:
    """Some columns of all rows of a file. CorruptFileError: it cannot be read."""
    with _reading(path):
        return _typed(_open(fs, path).read(list(columns)), columns)


def read_rows(fs: Fs, path: Path, wanted: Numbers | None = None) -> Iterator[tuple[int, pa.Table]]:
    """Whole rows in portions, each with the number of its first row in the file. CorruptFileError: it cannot be read.

    ``wanted`` are sorted numbers of rows: only these are returned, and row groups without one are not read.
    """
    with _reading(path):
        file, offset = _open(fs, path), 0
        for number in range(file.num_row_groups):
            group = file.metadata.row_group(number)
            if wanted is not None and not len(_within(wanted, offset, group.num_rows)):
                offset += group.num_rows
                continue
            size = max(1, min(PORTION_ROWS, group.num_rows * PORTION_BYTES // max(group.total_byte_size, 1)))
            for batch in file.iter_batches(size, row_groups=[number]):
                rows = pa.Table.from_batches([batch])
                picked = None if wanted is None else _within(wanted, offset, len(rows)) - offset
                if picked is None or len(picked):
                    yield offset, _typed(rows if picked is None else rows.take(pa.array(picked)), COLUMNS.names)
                offset += len(batch)


def _within(wanted: Numbers, offset: int, count: int) -> Numbers:
    return wanted[np.searchsorted(wanted, offset) : np.searchsorted(wanted, offset + count)]


def _open(fs: Fs, path: Path) -> pq.ParquetFile:
    stat = fs.stat(path)
    if stat is None:
        raise FileNotFoundError("no such file")
    return pq.ParquetFile(pa.BufferReader(fs.map(path, stat.size)), coerce_int96_timestamp_unit="us")


def _typed(rows: pa.Table, names: Sequence[str]) -> pa.Table:
    """The rows with these columns of a quarantine, typed as it has them; others follow. What a file lacks is null."""
    columns = {}
    for name in names:
        kind = COLUMNS.field(name).type
        there = name in rows.column_names
        columns[name] = rows[name].cast(kind) if there else pa.nulls(len(rows), kind)
    columns |= {name: rows[name] for name in rows.column_names if name not in columns}
    return pa.table(columns)


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    try:
        yield
    except (pa.ArrowException, OSError, KeyError, CorruptFileError) as error:
        raise CorruptFileError(
            "a data file of the quarantine cannot be read",
            where=path,
            found=str(error).partition("\n")[0],
            hint="restore it from a backup of the Delta table. Rows of its other files can still be requeued",
        ) from error
