"""Rows of a quarantine, read from its Delta table without Spark, and its data files.

Files are written by us, and read whoever has written them, in portions that fit into memory.
"""

from __future__ import annotations

import json
import uuid
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from sparkhaven.store.delta.snapshot import read_snapshot
from sparkhaven.store.errors import CorruptFileError
from sparkhaven.store.io.fs import Fs
from sparkhaven.writers.quarantine.row_choice import (
    CHOOSING,
    COLUMNS,
    Chosen,
    Dead,
    QuarantinedRow,
    among,
    epochs_of,
    fitting,
)

FILE_BYTES = 32 << 20  # of a file; it is held in memory until it is written
PORTION_BYTES = 8 << 20  # of rows that are read or encoded together, as far as they are of about one size
PORTION_ROWS = 10_000

Numbers = npt.NDArray[np.int64]
AT_ONCE = 10_000  # rows whose payloads are held together
AT_ONCE_BYTES = 32 << 20  # of their payloads
PAYLOAD_BYTES = 1 << 20  # at most, of one row
_SORTED = [("SourcePartition", "ascending"), ("Position", "ascending")]
_KEYS = ("SourcePartition", "Position", "PayloadBytes")
_WITHOUT_DATA = ("SourcePartition", "Position", "Reason", "Column", "Expected", "Epoch", "Time")


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


@dataclass(frozen=True, slots=True)
class QuarantineRows:
    """The rows of one stream in the Delta table at ``place``; ``owner`` is namespace, table and stream.

    ``dead`` epochs (after, up to and including; None: all later) are left out, and rows that they requeued are pending.
    ``at_once``: rows whose payloads are held together, at most.
    """

    fs: Fs
    place: Path
    owner: tuple[str, str, str]
    dead: Dead = ()
    at_once: int = AT_ONCE

    def count(self, chosen: Chosen) -> int:
        return sum(len(keys) for _, keys in self._keys(self._files(), chosen))

    def size(self) -> int:
        """Bytes of the data files, which reading the rows reads whole."""
        return sum(stat.size for path in self._files() if (stat := self.fs.stat(path)) is not None)

    def pending(self, newest: int) -> tuple[dict[str, int], list[dict[str, Any]]]:
        """Pending rows by reason; and the ``newest`` of them, without payloads and values, the last one first."""
        counts: Counter[str] = Counter()
        last: pa.Table | None = None
        for path in self._files():
            rows = read_columns(self.fs, path, list(dict.fromkeys((*CHOOSING, *_WITHOUT_DATA))))
            fits = fitting(rows, self.owner, Chosen(state="pending"), self.dead)
            rows = rows.filter(pa.array(fits)).select(list(_WITHOUT_DATA))
            counts.update(rows["Reason"].to_pylist())
            last = _last(rows if last is None else pa.concat_tables([last, rows]), newest)
        return dict(sorted(counts.items())), [] if last is None else last.to_pylist()

    def rows(self, chosen: Chosen, limit: int = 0) -> Iterator[QuarantinedRow]:
        """Chosen rows by source and position, as mappings of the table's columns; ``limit`` 0: all of them.

        Memory holds the keys of the rows that are returned, and the payloads of a portion of them. CorruptFileError
        for a data file that cannot be read; for the log what ``store.delta.snapshot.read_snapshot`` raises.
        """
        paths = self._files()
        keys: pa.Table | None = None
        for number, some in self._keys(paths, chosen):
            some = some.append_column("File", pa.array(np.full(len(some), number, np.int64)))
            keys = some if keys is None else pa.concat_tables([keys, some])
            if limit and len(keys) > 2 * limit:
                keys = keys.sort_by(_SORTED).slice(0, limit).combine_chunks()
        if keys is None:
            return
        keys = keys.sort_by(_SORTED)
        keys = keys.slice(0, limit) if limit else keys
        for start, end in portions(keys["PayloadBytes"].to_numpy(), self.at_once):
            yield from self._whole(paths, keys.slice(start, end - start))

    def _keys(self, paths: Sequence[Path], chosen: Chosen) -> Iterator[tuple[int, pa.Table]]:
        """Chosen rows by number of the data file: ``_KEYS``, and their number ``Row`` in the file."""
        for number, path in enumerate(paths):
            rows = read_columns(self.fs, path, (*CHOOSING, "PayloadBytes"))
            fits = fitting(rows, self.owner, chosen, self.dead)
            if fits.any():
                keys = rows.select(list(_KEYS)).append_column("Row", pa.array(np.arange(len(rows))))
                yield number, keys.filter(pa.array(fits))

    def _files(self) -> list[Path]:
        return read_snapshot(self.fs, self.place).paths()

    def _whole(self, paths: Sequence[Path], keys: pa.Table) -> Iterator[QuarantinedRow]:
        files, numbers = keys["File"].to_numpy(), keys["Row"].to_numpy()
        order = np.lexsort((numbers, files))  # as they are read
        parts = []
        for file in np.unique(files).tolist():
            wanted = np.sort(numbers[files == file])
            parts += [rows for _, rows in read_rows(self.fs, paths[file], wanted)]
        positions = np.empty(len(order), np.int64)
        positions[order] = np.arange(len(order))
        rows = pa.concat_tables(parts, promote_options="default").take(pa.array(positions))
        undone = among(epochs_of(rows, "RequeuedEpoch"), self.dead)
        for row, is_undone in zip(rows.to_pylist(), undone.tolist(), strict=True):
            yield row | {"RequeuedEpoch": None, "RequeuedTime": None} if is_undone else row


def portions(
    payloads: np.ndarray[Any, np.dtype[np.int64]], at_once: int = AT_ONCE, size: int = AT_ONCE_BYTES
) -> Iterator[tuple[int, int]]:
    """Start and end of runs of at most ``at_once`` rows, of at most ``size`` bytes of payload unless it is one row."""
    start, held = 0, 0
    for row, payload in enumerate(payloads.tolist()):
        bytes_of = min(payload or 0, PAYLOAD_BYTES)
        if row > start and (held + bytes_of > size or row - start >= at_once):
            yield start, row
            start, held = row, 0
        held += bytes_of
    if start < len(payloads):
        yield start, len(payloads)


def _last(rows: pa.Table, count: int) -> pa.Table:
    """The newest rows, the last one first."""
    order = [("Time", "descending"), ("SourcePartition", "ascending"), ("Position", "descending")]
    return rows.sort_by(order).slice(0, count)
