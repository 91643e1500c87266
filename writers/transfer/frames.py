"""Data frames and Arrow streams as the rows of an import: converted, by date, in memory that is bounded.

A task of Spark, or the one reader of an Arrow stream, converts batch by batch and holds the rows by date until they
take ``memory`` bytes. Then it writes for each date a directory with one ``table.parquet``. Of each date it keeps the
number of rows, the digests of the columns, and a digest of the rows: a sum, which does not depend on their order, and a
running one that does. So the same rows are known again.

The files lie in ``.scratch/<NS.T>/.merge``, which belongs to whoever holds the table's lock: the next one removes what
a killed process left there, and so does ``clean``. Tasks write below a name of their own run, so that one that outlives
its process meets nobody.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import xxhash

from sparkhaven.store.digest import add, value_hashes
from sparkhaven.store.errors import SchemaMismatchError, SettingsError, TableNotFoundError, counted, meant
from sparkhaven.store.framing import dump
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import PARQUET
from sparkhaven.store.native.checked_columns import checksum
from sparkhaven.store.places import TablePlace
from sparkhaven.store.scan.selection import Selection
from sparkhaven.store.source_rows import SourceRows
from sparkhaven.store.types.committed_columns import FileState
from sparkhaven.store.types.model import TableSchema
from sparkhaven.writers.foreign_values import STRICT, AllowedConversions, mapped, partition_values, refused_type, takes
from sparkhaven.writers.merge.executor import EVERY_S
from sparkhaven.writers.merge.plan.merge_plan import DEFAULT_MEMORY
from sparkhaven.writers.merge.publish.staged_locations import taken_rows
from sparkhaven.writers.transfer.date_import import CODEC, ConvertedRows, Part, Progress, parquet_rows, stored_batch
from sparkhaven.writers.transfer.tree_writer import write_parquet_leaf

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
            path = plan.directory / name / PARQUET
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
    """Values in exactly the Arrow type of the column: a text may be a large one."""
    return array if array.type == kind else array.cast(kind)


def _mixed(hashes: npt.NDArray[np.uint64], mixer: np.uint64) -> npt.NDArray[np.uint64]:
    """Hashes of rows of which the sum is not that of the columns: two values that change places change it."""
    words = (hashes + _SALT) * mixer
    words ^= words >> np.uint64(29)
    return words * _SALT ^ (words >> np.uint64(32))


def fit_columns(
    given: pa.Schema,
    schema: TableSchema,
    dates: Sequence[str] | None,
    options: AllowedConversions,
    name: str,
) -> tuple[str, ...]:
    """The columns that are read of a frame, called ``name`` in errors, with the partitioning column if it has that.

    SchemaMismatchError: it lacks columns, has others than the table and the ignored ones, or has one of a type that the
    table does not take.
    """
    columns = {column.name: column for column in schema.columns}
    partitioning = schema.partitioning
    assert partitioning is not None  # noqa: S101  the caller saw it
    names = [field for field in given.names if field not in options.ignored]
    missing = [column.name for column in schema.stored if column.name not in names]
    if partitioning.name not in names and (dates is None or one_date(dates) is None):
        missing.append(partitioning.name)
    odd = [field for field in names if field not in columns]
    twice = [field for field, times in Counter(names).items() if times > 1]
    if twice:
        raise SchemaMismatchError(
            "the rows have a column twice", where=name, expected=f"one column {twice[0]}", found=twice[0]
        )
    if missing:
        hint = meant(missing[0], odd) or "add them. A null of the column's type stands for an unknown value"
        if missing == [partitioning.name]:
            hint = "name the date of all rows with dates: --dates on the command line"
        raise SchemaMismatchError(
            "the rows lack columns of the table",
            where=f"{name}, table {schema.full_name}",
            expected=", ".join(missing),
            found=", ".join(names) or "no column",
            hint=hint,
        )
    if odd:
        raise SchemaMismatchError(
            "the rows have columns that the table lacks",
            where=f"{name}, table {schema.full_name}",
            expected=", ".join(columns),
            found=", ".join(odd),
            hint=meant(odd[0], columns) or "drop them, or ignore them by name: --ignore COLUMN",
        )
    for chosen in names:
        kind = given.field(chosen).type
        if not takes(kind, columns[chosen], options):
            raise refused_type(columns[chosen], kind, name)
    return tuple(names)


def one_date(dates: Sequence[str]) -> str | None:
    """The date, if one is named and no range."""
    return dates[0] if len(dates) == 1 and ".." not in dates[0] else None


def ignored_columns(names: Collection[str], schema: TableSchema) -> frozenset[str]:
    """Names of columns that are not read. SettingsError: the table has one of them."""
    own = sorted(set(names) & {column.name for column in schema.columns})
    if own:
        raise SettingsError(
            "a column of the table cannot be ignored",
            where=schema.full_name,
            expected="columns that the table does not have",
            found=", ".join(own),
        )
    return frozenset(names)


def run_reader(
    fs: Fs, reader: pa.RecordBatchReader, clock: Callable[[], float] = time.monotonic
) -> Callable[[StagePlan, Progress], list[StagedShare]]:
    """What gives the rows of a stream, once; it reports every ``EVERY_S`` seconds by ``clock`` how many were read."""

    def run(plan: StagePlan, on_progress: Progress) -> list[StagedShare]:
        def passing() -> Iterator[pa.RecordBatch]:
            rows, last = 0, clock()
            for batch in reader:
                yield batch
                rows, now = rows + batch.num_rows, clock()
                if now - last >= EVERY_S:
                    on_progress(f"{counted(rows, 'row')} read")
                    last = now

        return [stage_rows(fs, plan, 0, "", passing())]

    return run


SHARE = 4  # of the memory of a worker, what rows wait in


@dataclass(frozen=True, slots=True)
class FrameChoice:
    """What is taken of a frame. ``name`` and ``layout``: what errors and the merge record say of it.

    ``dates``: values and ranges that are taken (None: all), or the one date of rows that have none. ``memory``: bytes
    of a task. ``allow_missing``: no error where there are no rows, or none of a date that is named.
    """

    name: str
    layout: str = "frame"
    dates: tuple[str, ...] | None = None
    conversions: AllowedConversions = STRICT
    memory: int = DEFAULT_MEMORY
    allow_missing: bool = False


RunPlan = Callable[[StagePlan, Progress], Sequence[StagedShare]]


class FrameRows:
    """The rows of a frame, as ``ImportSource``. ``fields``: its columns; ``run`` gives rows to the tasks of a plan."""

    def __init__(
        self, place: TablePlace, schema: TableSchema, fields: pa.Schema, run: RunPlan, choice: FrameChoice
    ) -> None:
        self._place, self._schema, self._fields, self._run = place, schema, fields, run
        self._choice = choice
        self._directory: Path | None = None
        self._shares: list[StagedShare] = []

    @property
    def name(self) -> str:
        return self._choice.name

    @property
    def layout(self) -> str:
        return self._choice.layout

    def check(self) -> None:
        """Raises what ``fit_columns`` raises."""
        self._plan()

    def _plan(self) -> StagePlan:
        chosen = self._choice
        columns = fit_columns(self._fields, self._schema, chosen.dates, chosen.conversions, chosen.name)
        memory = max(chosen.memory // SHARE, 1 << 20)
        return StagePlan(self._schema, columns, chosen.dates, chosen.conversions, None, memory, chosen.name)

    def look(self, on_progress: Progress) -> list[Part]:
        return self._parts(self._plan(), on_progress)

    def take(self, on_progress: Progress) -> list[Part]:
        fs, base = self._place.fs, taken_rows(self._place)
        fs.remove_tree(base)
        self._directory = base / os.urandom(8).hex()
        fs.mkdirs(self._directory)
        with fs.during("frame-stage"):
            return self._parts(replace(self._plan(), directory=self._directory), on_progress)

    def _parts(self, plan: StagePlan, on_progress: Progress) -> list[Part]:
        self._shares = sorted(self._run(plan, on_progress), key=lambda share: share.task)
        totals: dict[str, tuple[int, int]] = {}
        for share in self._shares:
            for value, date in share.dates.items():
                rows, size = totals.get(value, (0, 0))
                totals[value] = rows + date.rows, size + date.bytes
        if not self._choice.allow_missing:
            self._require(totals)
        on_progress(
            f"{counted(sum(rows for rows, _ in totals.values()), 'row')} of {counted(len(totals), 'date')} read"
        )
        return [Part(value, (), *totals[value]) for value in sorted(totals)]

    def _require(self, totals: dict[str, tuple[int, int]]) -> None:
        for date in self._choice.dates or ():
            if not any(Selection.of(date, None).takes_value(value) for value in totals):
                raise TableNotFoundError(
                    "there are no rows of this date",
                    where=self.name,
                    expected=", ".join(sorted(totals)[:5]) or "rows",
                    found=date,
                    hint="name dates that the rows have, or allow empty ones: --allow-empty",
                )
        if not totals:
            raise TableNotFoundError("there are no rows", where=self.name, expected="rows", found="none")

    def id_of(self, part: Part, *, ordered: bool) -> str:
        """Of the values of all rows, whatever tasks they came in; ``ordered``: also of their order."""
        shares = [share.dates[part.value] for share in self._shares if part.value in share.dates]
        content = [sum(share.content[word] for share in shares) % (1 << 64) for word in (0, 1)]
        columns = [[column.name, column.type.name] for column in self._schema.stored]
        said: dict[str, object] = {"rows": part.rows, "content": [f"{word:016x}" for word in content]}
        said |= {"columns": columns} | ({"sequence": [share.sequence for share in shares]} if ordered else {})
        return sha256(dump(said)).hexdigest()[:24]

    def convert(self, part: Part, directory: Path, on_progress: Progress) -> ConvertedRows:
        """The files that were written when the rows were taken."""
        del directory, on_progress
        fs, stored = self._place.fs, self._schema.stored
        files: list[StagedFile] = [f for share in self._shares for f in share.files if f.value == part.value]
        assert self._directory is not None  # noqa: S101  the rows were taken
        sources = [parquet_rows(fs, self._directory / f.directory, f.rows, f.state, stored) for f in files]
        digests = {c.name: add(*(file.digests.get(c.name, 0) for file in files)) for c in stored}
        return ConvertedRows(tuple(sources), digests)

    def release(self) -> None:
        if self._directory is not None:
            self._place.fs.remove_tree(taken_rows(self._place))
            self._directory = None
