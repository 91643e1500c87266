"""Indexes of a staged location: for each grouping column, and for each ``DataIndex`` of the schema; written and proved.

``Index-<Cols>`` is a table of column files: the keys, ascending, null first. Keys of a grouping column have
``dh_begin_pos`` (inclusive) and ``dh_end_pos`` (exclusive), those of any other index ``dh_row_set``. Beside
``table.parquet`` each index is written twice: ``.dh_metadata/indexes/<Cols>/index_<Cols>_table.parquet`` is what
Deephaven's Parquet reader takes, the keys and the row set of each in row groups of as many as those of the rows.

What an index over any columns stores, which rows have which keys, is found here too.

A staged index is proved by the check of ``verify``, with the rows as the readers of a merge have them: those of the
column files or, where there are none, of ``table.parquet`` as DuckDB reads it; so is the file that Deephaven's Parquet
reader takes. Symbols are compared by their ids.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sparkhaven.readers.checks.findings import Finding
from sparkhaven.readers.checks.index_rows import KEYS, Blocks, index_findings, open_index, sidecar_findings
from sparkhaven.readers.checks.index_rows import Index as IndexFile
from sparkhaven.store.errors import CorruptFileError, ValidationFailedError
from sparkhaven.store.format.column.codecs import encode_entries
from sparkhaven.store.format.parquet.footer import ROW_SET_CODEC, Footer, file_schema
from sparkhaven.store.format.table import table_size
from sparkhaven.store.format.table.definition import SPLAYED
from sparkhaven.store.format.table.tbl import encode_tbl
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import PARQUET, ROW_SET, index_of, sidecar_of
from sparkhaven.store.native.rows import Bound, at_or_after, sorted_rows
from sparkhaven.store.scan.column_file import ColumnFile, open_column
from sparkhaven.store.scan.index_file import index_columns, is_contiguous, key_columns
from sparkhaven.store.types.codings.byte_array import binary_parts
from sparkhaven.store.types.codings.row_set import encode_sets
from sparkhaven.store.types.model import Column, Storage, TableSchema
from sparkhaven.store.types.row_ranges import Positions
from sparkhaven.writers.append.column_files import ColumnFiles
from sparkhaven.writers.merge.plan.merge_plan import MergePlan
from sparkhaven.writers.merge.sources.merge_source import ColumnSource
from sparkhaven.writers.merge.sources.sort_keys import (
    INT_NULL,
    Words,
    distinct,
    look_up,
    ordinals,
    picked,
    rank_ordinals,
    ranked_symbols,
    word_count,
)
from sparkhaven.writers.merge.write.finish import Finished, joined_runs, staged_source
from sparkhaven.writers.merge.write.parquet_check import (
    DEFAULT_CODEC,
    FileSink,
    column_batches,
    duckdb_reader,
    parquet_writer,
)
from sparkhaven.writers.merge.write.row_order import to_arrow
from sparkhaven.writers.merge.write.staging import Runs

BLOCK = 1 << 20
SAMPLE = 1 << 14  # words by which keys are cut into pieces
ROW_BYTES = 200  # of a row with a key of its own, beside its values: words, order, ranges, its set
UTF16_ORDER = np.arange(256, dtype=np.uint64)  # the first bytes of U+E000 to U+FFFF come after those of U+10000 and up
NO_ID = np.int32(-1)

UTF16_ORDER[0xEE:0xF0] += np.uint64(10)


@dataclass(frozen=True, slots=True)
class KeyRows:
    """The keys, ascending, one array a column, and the ranges of rows of key ``i``: from ``bounds[i]`` on."""

    keys: tuple[pa.Array, ...]
    starts: Positions
    stops: Positions
    bounds: Positions

    def sets(self) -> list[bytes]:
        """The row set of each key."""
        return encode_sets(self.starts, self.stops, self.bounds)


def key_words(array: pa.Array, column: Column) -> list[Words]:
    """Words that together are ordered and equal as the keys of an index are: null first, all NaN equal.

    One, but for values of a codec that have more than seven bytes.
    """
    if column.storage is Storage.FIXED:
        entries = encode_entries(array, column.type)
        return [ordinals(entries, column.type, word=word) for word in range(word_count(column.type))]
    if pa.types.is_dictionary(array.type):
        _, (lut,) = ranked_symbols([array.dictionary])
        return [rank_ordinals(np.where(_valid(array.indices), lut[_ids(array.indices)], np.int32(-(2**31))))]
    _, (lut,) = ranked_symbols([array])
    return [rank_ordinals(lut[:-1])]


def _ids(indices: pa.Array) -> npt.NDArray[np.int32]:
    ids: npt.NDArray[np.int32] = indices.fill_null(0).to_numpy(zero_copy_only=False)
    return ids


def _valid(indices: pa.Array) -> npt.NDArray[np.bool_]:
    valid: npt.NDArray[np.bool_] = indices.is_valid().to_numpy(zero_copy_only=False)
    return valid


def group_rows(source: ColumnSource, block: int = BLOCK) -> KeyRows:
    """The keys of a grouping column whose equal values stand together, each with one range.

    ``block`` rows are read at once.
    """
    column, rows = source.column, len(source.source)
    symbols = source.symbols() if column.storage is Storage.SYMBOL else None
    ranks = None if symbols is None else ranked_symbols([symbols])[1][0]
    run_entries, run_words, run_starts = [], [], []
    for first, stop in source.source.blocks(block):
        entries = source.entries(first, stop) if symbols is None else source.ids(first, stop, len(symbols))
        words = ordinals(entries, column.type) if ranks is None else rank_ordinals(look_up(ranks, entries))
        runs = np.concatenate((np.zeros(1, np.int64), np.flatnonzero(words[1:] != words[:-1]) + 1))
        run_entries.append(entries[runs])
        run_words.append(words[runs])
        run_starts.append(runs + first)
    entries, words, starts = np.concatenate(run_entries), np.concatenate(run_words), np.concatenate(run_starts)
    fresh = np.flatnonzero(np.concatenate((np.ones(1, np.bool_), words[1:] != words[:-1])))  # runs of a former block
    order = fresh[np.argsort(words[fresh], kind="stable")]
    stops = np.empty_like(starts)
    stops[fresh] = np.append(starts[fresh][1:], rows)
    keys = to_arrow(entries[order], column) if symbols is None else _texts(symbols, entries[order])
    return KeyRows((keys,), starts[order], stops[order], np.arange(len(order) + 1))


def symbol_groups(runs: Sequence[Runs | None], rows: int, texts: pa.StringArray) -> KeyRows | None:
    """The keys of symbols by the runs of their ranks in ``texts``. None: equal ones do not stand together."""
    joined = joined_runs(runs)
    if joined is None or not distinct(joined.words):
        return None
    order = np.argsort(joined.words, kind="stable")
    ranks = (joined.words[order] ^ np.uint32(1 << 31)).view(np.int32)
    stops = np.append(joined.starts[1:], rows)
    return KeyRows((_texts(texts, ranks),), joined.starts[order], stops[order], np.arange(len(order) + 1))


def _texts(symbols: pa.Array, ids: npt.NDArray[np.int32]) -> pa.Array:
    """The texts of symbol ids, null first."""
    nulls = int(np.count_nonzero(ids[:1] == INT_NULL))
    texts = picked(symbols, ids[nulls:])
    return pa.concat_arrays([pa.nulls(nulls, pa.string()), texts]) if nulls else texts


def key_rows(arrays: Sequence[pa.Array], columns: Sequence[Column], numbers: Positions | None = None) -> KeyRows:
    """The keys of rows and where they are. ``numbers``: the rows of the location that these are, ascending.

    In memory are the values, and 16 bytes a row.
    """
    rows = len(arrays[0])
    words = [word for array, column in zip(arrays, columns, strict=True) for word in key_words(array, column)]
    order = sorted_rows(words)
    fresh = np.ones(rows, np.bool_)
    fresh[1:] = False
    for word in words:
        ordered = word[order]
        fresh[1:] |= ordered[1:] != ordered[:-1]
    del words
    firsts = pa.array(order[fresh].astype(np.int64))
    keys = tuple(_plain(array.take(firsts)) for array in arrays)
    placed = order.astype(np.int64) if numbers is None else numbers[order]
    breaks = fresh.copy()
    breaks[1:] |= placed[1:] != placed[:-1] + 1
    edges = np.flatnonzero(breaks)
    starts, stops = placed[edges], placed[np.append(edges[1:], rows) - 1] + 1
    return KeyRows(keys, starts, stops, np.append(np.searchsorted(edges, np.flatnonzero(fresh)), len(edges)))


def key_pieces(
    opened: Sequence[ColumnFile], columns: Sequence[Column], stored: int, rows: int, *, block: int, budget: int
) -> Iterator[KeyRows]:
    """The keys of columns of a location and where they are, key after key, in pieces; ``stored``: bytes of all rows.

    A piece takes ``budget`` bytes at most, unless one key has more rows than that; ``block`` rows are read at once.
    """
    if not rows:  # of a date that was filled: no key
        return
    most = max(budget // (ROW_BYTES + 3 * stored // rows), 1)
    if rows <= most:
        yield key_rows([column.read() for column in opened], columns)
        return
    leading = LeadingWords(columns[0])
    blocks = [(first, min(first + block, rows)) for first in range(0, rows, block)]
    step = max(rows * word_count(columns[0].type) // SAMPLE, 1)
    samples = ([word[::step].copy() for word in leading.of(opened[0].read(*part))] for part in blocks)
    for low, high in pairwise([None, *_cuts(samples, 2 * -(-rows // most)), None]):
        parts: list[list[pa.Array]] = []
        numbers: list[Positions] = []
        for first, stop in blocks:
            lead = opened[0].read(first, stop)
            words = leading.of(lead)
            inside = np.ones(stop - first, np.bool_) if low is None else at_or_after(words, low)
            if high is not None:
                inside &= ~at_or_after(words, high)
            chosen = np.flatnonzero(inside)
            if len(chosen):
                others = [column.read(first, stop) for column in opened[1:]]
                parts.append([_plain(array.take(pa.array(chosen))) for array in (lead, *others)])
                numbers.append(chosen + first)
        if parts:
            yield key_rows(
                [pa.concat_arrays(arrays) for arrays in zip(*parts, strict=True)], columns, np.concatenate(numbers)
            )


def _cuts(samples: Iterable[Sequence[Words]], pieces: int) -> list[Bound]:
    """At most ``pieces - 1`` ascending bounds that cut the sampled words of blocks into about equal parts."""
    words = [np.concatenate(parts) for parts in zip(*samples, strict=True)]
    order = sorted_rows(words)
    rows = (order[len(order) * number // pieces] for number in range(1, pieces))
    return list(dict.fromkeys(tuple(int(word[row]) for word in words) for row in rows))


class LeadingWords:
    """Words that ascend with the values of a key column, the same for equal ones: of texts one of their first bytes."""

    def __init__(self, column: Column) -> None:
        self._column = column
        self._table: tuple[int, npt.NDArray[np.uint64]] | None = None  # of the last dictionary, by its address

    def of(self, array: pa.Array) -> list[Words]:
        if self._column.storage is Storage.FIXED:
            return key_words(array, self._column)
        if not pa.types.is_dictionary(array.type):
            return [_text_words(array)]
        texts = array.dictionary
        address = (texts.buffers()[2].address if texts.buffers()[2] else 0) + len(texts)
        if self._table is None or self._table[0] != address:
            self._table = address, np.append(_text_words(texts), np.uint64(0))
        return [self._table[1][np.where(_valid(array.indices), _ids(array.indices), -1)]]


def _text_words(texts: pa.Array) -> npt.NDArray[np.uint64]:
    """A byte that is 0 for null only, then the first seven of UTF-8, in the order of UTF-16."""
    starts, data = binary_parts(texts.cast(pa.large_string()).view(pa.large_binary()))
    lengths = np.diff(starts)
    words = np.where(np.asarray(texts.is_valid()), np.uint64(1), np.uint64(0))
    for index in range(7):
        there = np.flatnonzero(lengths > index)
        octets = np.zeros(len(lengths), np.uint64)
        octets[there] = UTF16_ORDER[data[starts[there] + index]]
        words = words << np.uint64(8) | octets
    words[~np.asarray(texts.is_valid())] = 0
    return words


def _plain(array: pa.Array) -> pa.Array:
    return array.cast(pa.string()) if pa.types.is_dictionary(array.type) else array


@dataclass(frozen=True, slots=True)
class IndexTask:
    """A task: an index over some columns of a finished location; ``now_ms`` is the time of the merge.

    ``groups``: the keys of a grouping column, if the order of the rows told them; else they are read.
    """

    plan: MergePlan
    finished: Finished
    columns: tuple[str, ...]
    now_ms: int
    groups: KeyRows | None = None


@dataclass(frozen=True, slots=True)
class Index:
    """An index that was written: its columns, its keys, and its files as paths below the location."""

    columns: tuple[str, ...]
    keys: int
    files: tuple[str, ...]


def planned_indexes(plan: MergePlan, finished: Finished) -> list[tuple[str, ...]]:
    """The columns of each index of a location: grouping columns that are grouped there, then those of the schema."""
    grouped = [(name,) for name, contiguous in finished.grouped.items() if contiguous]
    return list(dict.fromkeys([*grouped, *plan.schema.built_indexes]))


def with_indexes(finished: Finished, indexes: Sequence[Index]) -> Finished:
    """The location with its new files."""
    files = tuple(name for index in indexes for name in index.files)
    return replace(finished, indexes={index.columns: index.keys for index in indexes}, index_files=files)


def write_index(fs: Fs, task: IndexTask) -> Index:
    """Writes one index of a location whose column files are there, in pieces that fit a worker's memory."""
    plan, finished, names = task.plan, task.finished, task.columns
    location = plan.destinations[finished.destination].stage(plan.table, plan.value)
    by_name = {column.name: column for column in plan.columns}
    columns = [by_name[name] for name in names]
    contiguous = is_contiguous(names, finished.grouped)
    table = _IndexTable(fs, location / index_of(names), index_columns(columns, contiguous=contiguous))
    table.create()
    whole: list[pa.Array] | None = None  # of groups, which are few
    if contiguous:
        source = staged_source(plan, finished)
        groups = task.groups or group_rows(ColumnSource(fs, source, columns[0]), plan.options.sizes.rows)
        table.add([*groups.keys, groups.starts, groups.stops])
        whole = [*groups.keys, pa.array(groups.sets(), pa.binary())] if plan.format != "deephaven" else None
    else:
        limits = {"block": plan.options.sizes.rows, "budget": plan.options.sizes.index_bytes or plan.usable()}
        opened = [open_column(fs, location, column, finished.sizes, finished.rows) for column in columns]
        stored = sum(finished.sizes.get(name, 0) for column in opened for name in column.column.files)
        for piece in key_pieces(opened, columns, stored, finished.rows, **limits):
            table.add([*piece.keys, piece.sets()])
    written = [f"{index_of(names)}/{name}" for name in table.close(plan.schema, names, task.now_ms)]
    if plan.format != "deephaven":
        fs.mkdirs((location / sidecar_of(names)).parent)
        most = plan.options.sizes.group_rows
        pieces = _pieces(whole, most) if whole else table.pieces(most)
        _write_sidecar(fs, location / sidecar_of(names), plan.schema, columns, pieces)
        written.insert(0, sidecar_of(names))
    return Index(names, table.rows, tuple(written))


def _write_sidecar(
    fs: Fs, path: Path, schema: TableSchema, columns: Sequence[Column], pieces: Iterable[Sequence[pa.Array]]
) -> None:
    """Writes the keys and row sets of each piece as a row group."""
    footer = Footer(codecs={ROW_SET: ROW_SET_CODEC}, sorting={column.name: "Ascending" for column in columns})
    file = file_schema(key_columns(columns), footer).append(pa.field(ROW_SET, pa.binary()))
    fs.write_new(path, b"")
    with FileSink(fs, path) as sink, parquet_writer(sink, file, schema.merge_codec or DEFAULT_CODEC) as writer:
        for arrays in pieces:
            writer.write_table(pa.table([*arrays], file), row_group_size=max(len(arrays[0]), 1))


def _pieces(arrays: Sequence[pa.Array], most: int) -> Iterator[list[pa.Array]]:
    for first in range(0, max(len(arrays[0]), 1), most):
        yield [array.slice(first, most) for array in arrays]


class _IndexTable(ColumnFiles):
    """The column files of an index, which grow by pieces."""

    def add(self, values: Sequence[Any]) -> None:
        """Rows behind those that are there: an array, a list, or positions, for each column."""
        self.append([_array(part, column) for part, column in zip(values, self.columns, strict=True)])

    def close(self, schema: TableSchema, names: Sequence[str], now_ms: int) -> list[str]:
        """Writes definition and sizes; the names of all files."""
        own = TableSchema(schema.namespace, schema.name, self.columns, nested=False)
        self.fs.write_new(self.directory / "table.tbl", encode_tbl(own, storage_type=SPLAYED))
        sorting = dict.fromkeys(names, "Ascending")
        size = table_size.of_files(self.rows, now_ms, self.files, sorted_columns=sorting)
        self.fs.write_new(self.directory / table_size.NAME, table_size.encode(size))
        return [*sorted(self.files), "table.tbl", table_size.NAME]

    def pieces(self, most: int) -> Iterator[list[pa.Array]]:
        """Keys and row sets of at most ``most`` keys each, mapped from the files where their form allows it."""
        sizes = {name: state.size for name, state in self.files.items()}
        opened = [open_column(self.fs, self.directory, c, sizes, self.rows) for c in self.columns]
        for first in range(0, max(self.rows, 1), most):
            arrays = [column.read(first, min(first + most, self.rows)) for column in opened]
            yield [*arrays[:-1], arrays[-1].cast(pa.binary())]


def _array(values: Any, column: Column) -> pa.Array:
    return pa.array(values) if isinstance(values, np.ndarray) else pa.array(values, column.type.arrow)


def directories_of(files: tuple[str, ...]) -> Iterator[str]:
    """The directories of files below a location, each once, those inside first."""
    directories = {str(parent) for name in files for parent in Path(name).parents if str(parent) != "."}
    yield from sorted(directories, key=lambda name: (-name.count("/"), name))


@dataclass(frozen=True, slots=True)
class IndexCheck:
    """A task: the index over some columns of a finished location."""

    plan: MergePlan
    finished: Finished
    columns: tuple[str, ...]

    def size(self) -> int:
        """Bytes of rows that are read."""
        names = [name for column in self.plan.columns if column.name in self.columns for name in column.files]
        return sum(self.finished.sizes.get(name, 0) for name in names)


def check_index(fs: Fs, task: IndexCheck) -> None:
    """ValidationFailedError: the index is not that of the rows."""
    _Check(fs, task).run()


class _Check:
    def __init__(self, fs: Fs, task: IndexCheck) -> None:
        self.fs, self.plan, self.finished, self.names = fs, task.plan, task.finished, task.columns
        self.location = task.plan.destinations[task.finished.destination].stage(task.plan.table, task.plan.value)
        self.directory = self.location / index_of(task.columns)
        by_name = {column.name: column for column in task.plan.columns}
        self.columns = [by_name[name] for name in task.columns]

    def run(self) -> None:
        """In memory are four bytes a row, the index, and what a block of rows takes."""
        try:
            contiguous = is_contiguous(self.names, self.finished.grouped)
            index = open_index(self.fs, self.directory, self.columns, self.names, contiguous=contiguous)
            if len(index) != self.finished.indexes[self.names]:
                keys = self.finished.indexes[self.names]
                raise self._wrong("it has another number of keys", f"{keys} keys", f"{len(index)} keys")
            self._require(index_findings(index, self.finished.rows, self._rows, _first_disorder))
            if self.plan.format != "deephaven":
                self._require(sidecar_findings(self._sidecar(index), index, self.finished.rows))
        except CorruptFileError as error:
            raise self._wrong(error.what, error.expected, error.found) from error

    def _require(self, findings: Iterator[Finding]) -> None:
        for defect in findings:
            raise self._wrong(defect.what, defect.expected, f"{defect.found}, {defect.at}")

    def _rows(self, number: int, keys: pa.Array) -> tuple[pa.Array, Blocks]:
        column = self.columns[number]
        if column.storage is Storage.SYMBOL and self.plan.format != "parquet":
            return self._symbols(column, keys)
        return keys, self._blocks(column)

    def _symbols(self, column: Column, keys: pa.Array) -> tuple[pa.Array, Blocks]:
        """The ids that the rows of each key must have, and those that they have."""
        source = ColumnSource(self.fs, staged_source(self.plan, self.finished), column)
        symbols = source.symbols()
        union, (symbol_ranks, key_ranks) = ranked_symbols([symbols, keys])
        by_rank = np.full(len(union) + 1, NO_ID, np.int32)
        present = np.flatnonzero(symbol_ranks[:-1] != INT_NULL)
        by_rank[symbol_ranks[present]] = present
        by_rank[-1] = INT_NULL
        ids = by_rank[np.where(key_ranks[:-1] == INT_NULL, len(union), key_ranks[:-1])]  # NO_ID: no row has the key
        blocks = source.source.blocks(self.plan.options.sizes.rows)
        return pa.array(ids), ((first, pa.array(source.entries(first, stop))) for first, stop in blocks)

    def _blocks(self, column: Column) -> Iterator[tuple[int, pa.Array]]:
        """A key column of the location, block by block, with the number of the first row."""
        rows, most = self.finished.rows, self.plan.options.sizes.rows
        if self.plan.format != "parquet":
            opened = open_column(self.fs, self.location, column, self.finished.sizes, rows)
            for first in range(0, rows, most):
                array = opened.read(first, min(first + most, rows))
                yield first, array.cast(pa.string()) if pa.types.is_dictionary(array.type) else array
            return
        first = 0
        for batch in self._batches(self.location / PARQUET, [column], most):
            yield first, batch.column(0).cast(column.type.arrow)
            first += batch.num_rows

    def _sidecar(self, index: IndexFile) -> IndexFile:
        path, stored = self.location / sidecar_of(self.names), index_columns(self.columns, contiguous=False)
        batches = list(self._batches(path, stored, KEYS))
        kinds = (*(key.type for key in index.keys), pa.large_binary())
        arrays = [
            pa.concat_arrays([batch.column(number).cast(kind) for batch in batches]) if batches else pa.array([], kind)
            for number, kind in enumerate(kinds)
        ]
        return IndexFile(path, index.columns, tuple(arrays[:-1]), (arrays[-1],))

    def _batches(self, path: Path, columns: Sequence[Column], most: int) -> Iterator[pa.RecordBatch]:
        """What DuckDB reads of a Parquet file."""
        with duckdb_reader(self._wrong) as connection:
            yield from column_batches(connection, path, columns, most)

    def _wrong(self, what: str, expected: object, found: object) -> ValidationFailedError:
        return ValidationFailedError(
            f"staged index: {what}",
            where=self.directory,
            expected=expected,
            found=found,
            hint="merge the date again. If the error comes back, the disk or memory is faulty",
            phase="check",
        )


def _first_disorder(index: IndexFile, first: int, stop: int) -> int | None:
    """The same by words that are ordered as the keys are, all of a column at once."""
    begin = max(first - 1, 0)
    words = [
        word
        for key, column in zip(index.keys, index.columns, strict=True)
        for word in key_words(key.slice(begin, stop - begin), column)
    ]
    less: npt.NDArray[np.bool_] = np.zeros(max(len(words[0]) - 1, 0), np.bool_)
    for word in reversed(words):
        less = (word[:-1] < word[1:]) | ((word[:-1] == word[1:]) & less)
    return None if less.all() else begin + 1 + int(np.argmin(less))
