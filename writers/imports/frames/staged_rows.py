"""Rows of a data frame as files of a merge: converted, by date, in memory that is bounded.

A task of Spark, or the one reader of an Arrow stream, converts batch by batch and holds the rows by date until they
take ``memory`` bytes. Then it writes for each date a directory with one ``table.parquet``. Of each date it keeps the
number of rows, the digests of the columns, and a digest of the rows: a sum, which does not depend on their order, and a
running one that does. So the same rows are known again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import xxhash

from sparkhaven.store.digest.row_hashes import value_hashes
from sparkhaven.store.format.parquet.location_files import NAME
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.scan.checksums import checksum
from sparkhaven.store.scan.selection import Selection
from sparkhaven.store.source_rows import SourceRows
from sparkhaven.store.types.committed_columns import FileState
from sparkhaven.store.types.model import TableSchema
from sparkhaven.writers.exports.leaves import write_parquet_leaf
from sparkhaven.writers.imports.foreign_values import AllowedConversions, mapped, partition_values
from sparkhaven.writers.imports.given_rows import CODEC
from sparkhaven.writers.imports.tree_rows import stored_batch

BATCH_ROWS = 1 << 16
_SALT = np.uint64(0x9E3779B97F4A7C15)  # the published constants of SplitMix64
_MIXERS = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))


@dataclass(frozen=True, slots=True)
class StagePlan:
    """What tasks do: ``columns`` are read by name, into files below ``directory``, None to count only.

    ``dates``: values and ranges that are taken, None for all; without a partitioning column among the columns the one
    date of all rows. ``memory``: bytes of rows that a task holds. ``name``: of the frame, in errors.
    """

    schema: TableSchema
    columns: tuple[str, ...]
    dates: tuple[str, ...] | None
    conversions: AllowedConversions
    directory: Path | None
    memory: int
    name: str


@dataclass(frozen=True, slots=True)
class StagedFile:
    """One file with rows of a date: the name of its directory, rows, size and CRC-32, digests of the columns."""

    directory: str
    value: str
    rows: int
    state: FileState
    digests: Mapping[str, int]


@dataclass(slots=True)
class DateShare:
    """What one task has of a date. ``content``: the sum of the rows' hashes, two words of 64 bits. ``sequence``: the
    digest of them in their order.
    """

    rows: int = 0
    bytes: int = 0
    content: tuple[int, int] = (0, 0)
    sequence: str = ""


@dataclass(slots=True)
class StagedShare:
    """The result of a task; ``task`` gives its place in the frame."""

    task: int
    files: list[StagedFile] = field(default_factory=list)
    dates: dict[str, DateShare] = field(default_factory=dict)


def stage_rows(fs: Fs, plan: StagePlan, task: int, attempt: str, batches: Iterator[pa.RecordBatch]) -> StagedShare:
    """Runs one task; ``attempt`` names its files. SchemaMismatchError: a value that its column does not hold."""
    stager, source = _Stager(fs, plan, StagedShare(task), attempt), SourceRows(0)
    for batch in batches:
        source.count(batch.num_rows)
        for first in range(0, batch.num_rows, BATCH_ROWS):
            stager.add(batch.slice(first, BATCH_ROWS))
    share = stager.end()
    source.leave(stager.not_chosen)
    source.require(sum(date.rows for date in share.dates.values()), 0, f"{plan.name}, task {task}")
    if plan.directory is not None:
        staged = SourceRows(sum(date.rows for date in share.dates.values()))
        staged.require(sum(file.rows for file in share.files), 0, plan.directory)
    return share


class _Stager:
    def __init__(self, fs: Fs, plan: StagePlan, share: StagedShare, attempt: str) -> None:
        self._fs, self._plan, self._share, self._attempt = fs, plan, share, attempt
        self._selection = Selection.of(plan.dates, None)
        self._held: dict[str, list[pa.RecordBatch]] = {}
        self._size = self._seen = self._flushed = 0
        self.not_chosen = 0  # rows of dates that are not taken
        self._sequences: dict[str, xxhash.xxh3_128] = {}

    def add(self, batch: pa.RecordBatch) -> None:
        plan, first = self._plan, self._seen
        self._seen += batch.num_rows
        where = plan.name if not self._attempt else f"{plan.name}, task {self._share.task}"
        arrays = []
        for column in plan.schema.stored:
            array = batch.column(batch.schema.get_field_index(column.name))
            name_row = _Row(f"{where}, column {column.name}", first)
            arrays.append(_as_stored(mapped(array, column, name_row, plan.conversions), column.type.arrow))
        hashes = sum(
            (value_hashes(c, a) for c, a in zip(plan.schema.stored, arrays, strict=True)),
            np.zeros(batch.num_rows, np.uint64),
        )
        rows = stored_batch(plan.schema.stored, arrays)
        for value, part, own in self._by_date(batch, rows, hashes, _Row(where, first)):
            self._count(value, part, own)
            if plan.directory is not None:
                self._held.setdefault(value, []).append(part)
                self._size += part.nbytes
        if self._size >= plan.memory:
            self._flush()

    def _by_date(
        self, batch: pa.RecordBatch, rows: pa.RecordBatch, hashes: npt.NDArray[np.uint64], name_row: _Row
    ) -> Iterator[tuple[str, pa.RecordBatch, npt.NDArray[np.uint64]]]:
        plan, column = self._plan, self._plan.schema.partitioning
        assert column is not None  # noqa: S101  the caller saw it
        if column.name not in plan.columns:
            assert plan.dates is not None  # noqa: S101  one date
            yield plan.dates[0], rows, hashes
            return
        values = batch.column(batch.schema.get_field_index(column.name))
        coded = partition_values(values, column, name_row, plan.conversions)
        codes = coded.indices.to_numpy(zero_copy_only=False)
        order = np.argsort(codes, kind="stable")
        ordered = codes[order]
        starts = np.concatenate((np.zeros(1, np.int64), np.flatnonzero(ordered[1:] != ordered[:-1]) + 1))
        stops = np.append(starts[1:], len(order))
        moved = len(starts) > 1
        rows, hashes = (rows.take(pa.array(order)), hashes[order]) if moved else (rows, hashes)
        for start, stop in zip(starts.tolist(), stops.tolist(), strict=True):
            value = coded.dictionary[int(ordered[start])].as_py()
            if self._selection.takes_value(value):
                yield value, rows.slice(start, stop - start), hashes[start:stop]
            else:
                self.not_chosen += stop - start

    def _count(self, value: str, rows: pa.RecordBatch, hashes: npt.NDArray[np.uint64]) -> None:
        share = self._share.dates.setdefault(value, DateShare())
        share.rows += rows.num_rows
        share.bytes += rows.nbytes
        low, high = (int(_mixed(hashes, mixer).sum()) for mixer in _MIXERS)
        share.content = (share.content[0] + low) % (1 << 64), (share.content[1] + high) % (1 << 64)
        self._sequences.setdefault(value, xxhash.xxh3_128()).update(np.ascontiguousarray(hashes).tobytes())

    def _flush(self) -> None:
        fs, plan = self._fs, self._plan
        assert plan.directory is not None  # noqa: S101  else nothing is held
        for number, value in enumerate(sorted(self._held)):
            name = f"{self._share.task}-{self._attempt}-{self._flushed}-{number}"
            path = plan.directory / name / NAME
            fs.mkdirs(path.parent)
            held = pa.Table.from_batches(self._held[value]).unify_dictionaries().combine_chunks().to_batches()
            written = write_parquet_leaf(fs, path, plan.schema.stored, held, CODEC)
            state = FileState(written.bytes, checksum(fs, path, 0, written.bytes))
            self._share.files.append(StagedFile(name, value, written.rows, state, written.digests))
        self._held, self._size, self._flushed = {}, 0, self._flushed + 1

    def end(self) -> StagedShare:
        if self._held:
            self._flush()
        for value, sequence in self._sequences.items():
            self._share.dates[value].sequence = sequence.hexdigest()
        return self._share


@dataclass(frozen=True, slots=True)
class _Row:
    """Names a row of a batch, which begins with row ``first`` of its task."""

    where: str
    first: int

    def __call__(self, row: int) -> str:
        return f"{self.where}, row {self.first + row}"


def _as_stored(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """The same values in exactly the Arrow type of the column: a text may be a large one."""
    return array if array.type == kind else array.cast(kind)


def _mixed(hashes: npt.NDArray[np.uint64], mixer: np.uint64) -> npt.NDArray[np.uint64]:
    """Hashes of rows of which the sum is not that of the columns: two values that change places change it."""
    words = (hashes + _SALT) * mixer
    words ^= words >> np.uint64(29)
    return words * _SALT ^ (words >> np.uint64(32))
