"""Rows of a date that a merge leaves out: all but the first or last of those with equal keys.

The keys are read in passes, each over those whose hash is in its share, so that memory is bounded. Keys are compared
by value: null equals null, NaN equals NaN, and the zeros are one. Only rows that have a double are read whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sparkhaven.store.digest.column_digest import add, digest_array, to_hex
from sparkhaven.store.digest.row_hashes import digest_rows, value_hashes
from sparkhaven.store.format.parquet.location_files import in_parquet
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.merges.merge_proofs import LeftOut
from sparkhaven.store.native.rows import sorted_rows
from sparkhaven.store.scan.column_file import ColumnFile, ParquetColumns, open_column, open_parquet
from sparkhaven.store.types.dedupe import DedupeRule
from sparkhaven.store.types.model import Column, TableSchema
from sparkhaven.store.types.row_ranges import Positions, RowRanges
from sparkhaven.writers.merge.sources.block_sizes import SIZES
from sparkhaven.writers.merge.sources.merge_source import MergeSource

ROW_BYTES = 96  # of a row in a pass: codes, order and numbers, with copies while they are sorted


@dataclass(frozen=True, slots=True)
class Duplicates:
    """What is left out of sources: ``kept`` rows of each, None where that is all of them."""

    kept: tuple[RowRanges | None, ...]
    left_out: LeftOut


class _Rows:
    """The rows of all sources, numbered in their order."""

    def __init__(self, fs: Fs, sources: Sequence[MergeSource]) -> None:
        self.fs, self.sources = fs, sources
        self.firsts = np.concatenate(
            (np.zeros(1, np.int64), np.cumsum([len(source) for source in sources], dtype=np.int64))
        )
        self._opened: dict[tuple[int, str], ColumnFile] = {}
        self._parquet: dict[int, ParquetColumns] = {}

    def open(self, index: int, column: Column) -> ColumnFile:
        key = index, column.name
        if key not in self._opened:
            source = self.sources[index]
            sizes, named = {name: state.size for name, state in source.files.items()}, column.at(source.named_by)
            if not in_parquet(sizes):
                self._opened[key] = open_column(self.fs, source.directory, named, sizes, source.rows)
            else:
                if index not in self._parquet:
                    self._parquet[index] = open_parquet(self.fs, source.directory, sizes, source.rows)
                self._opened[key] = self._parquet[index].column(named)
        return self._opened[key]

    def blocks(self) -> Iterator[tuple[int, RowRanges, int]]:
        """Source, rows of its location that it keeps, and the number of the first of them."""
        for index, source in enumerate(self.sources):
            number = int(self.firsts[index])
            for part in source.rows_kept.steps(SIZES.rows) if len(source) else ():
                yield index, part, number
                number += part.rows

    def read(self, index: int, column: Column, rows: RowRanges) -> pa.Array:
        opened = self.open(index, column)
        return opened.read(rows.start, rows.stop) if len(rows) == 1 else opened.take(rows)

    def located(self, index: int, numbers: Positions) -> Positions:
        """The rows of a source's location that have these numbers."""
        source = self.sources[index]
        own: Positions = numbers - self.firsts[index]
        rows: Positions = own + source.start if source.kept is None else source.kept.positions[own]
        return rows

    def take(self, column: Column, numbers: Positions) -> pa.Array:
        """The values of some rows, by their numbers in ascending order."""
        parts = []
        for index in range(len(self.sources)):
            low, high = np.searchsorted(numbers, self.firsts[index : index + 2])
            if low < high:
                rows = self.located(index, numbers[low:high])
                parts.append(_plain(self.open(index, column).take(RowRanges.at(rows))))
        return pa.concat_arrays(parts)


def find_duplicates(
    fs: Fs, schema: TableSchema, sources: Sequence[MergeSource], rule: DedupeRule, memory: int
) -> Duplicates:
    """What the rule leaves out of sources that are in order; ``memory``: bytes. Raises what opening a column raises."""
    rows = _Rows(fs, sources)
    total = int(rows.firsts[-1])
    passes = max(1, -(-total * ROW_BYTES // memory))
    pairs = [_superseded(rows, schema, rule, number, passes) for number in range(passes)]
    dropped, winners = (np.concatenate([pair[side] for pair in pairs]) for side in (0, 1))
    order = np.argsort(dropped)
    dropped, winners = dropped[order], winners[order]
    kept: list[RowRanges | None] = []
    for index, source in enumerate(sources):
        low, high = np.searchsorted(dropped, rows.firsts[index : index + 2])
        gone = RowRanges.at(rows.located(index, dropped[low:high]))
        left = gone.outside(source.start, source.stop)
        kept.append(left.intersection(source.rows_kept) if low < high else source.kept)
    return Duplicates(tuple(kept), _told(rows, schema, dropped, winners))


def _superseded(
    rows: _Rows, schema: TableSchema, rule: DedupeRule, share: int, shares: int
) -> tuple[Positions, Positions]:
    """The rows of a share of the keys that are left out, and for each the row that is kept in its place."""
    columns = [_column(schema, name) for name in rule.columns]
    parts: list[list[pa.Array]] = [[] for _ in columns]
    numbers: list[Positions] = []
    for index, part, number in rows.blocks():
        values = [_key(rows.read(index, column, part)) for column in columns]
        own = np.arange(number, number + part.rows)
        if shares > 1:
            hashes = np.zeros(len(own), np.uint64)
            for column, array in zip(columns[: len(rule.keys)], values, strict=False):
                hashes += value_hashes(column, array)
            mine = hashes % np.uint64(shares) == share
            own, values = own[mine], [array.filter(pa.array(mine)) for array in values]
        numbers.append(own)
        for column_parts, array in zip(parts, values, strict=True):
            column_parts.append(array)
    number_of = np.concatenate(numbers) if numbers else np.zeros(0, np.int64)
    if not len(number_of):
        return number_of, number_of
    arrays = [pa.chunked_array(part) for part in parts]
    groups = _groups(arrays[: len(rule.keys)])
    ranks = [_ranks(array) for array in arrays[len(rule.keys) :]]
    order = sorted_rows([groups.view(np.uint64), *ranks])  # which keeps the order of the rows where all else is equal
    groups, number_of = groups[order], number_of[order]
    starts = np.concatenate((np.zeros(1, np.int64), np.flatnonzero(groups[1:] != groups[:-1]) + 1))
    lengths = np.diff(np.append(starts, len(groups)))
    winner = starts if rule.keep == "first" else starts + lengths - 1
    gone = np.ones(len(groups), np.bool_)
    gone[winner] = False
    return number_of[gone], np.repeat(number_of[winner], lengths)[gone]


def _groups(keys: Sequence[pa.ChunkedArray]) -> npt.NDArray[np.int64]:
    """A number for each row that equal keys have in common."""
    groups: npt.NDArray[np.int64] | None = None
    for values in keys:
        coded = values.combine_chunks().dictionary_encode()
        codes = pc.fill_null(coded.indices.cast(pa.int64()), len(coded.dictionary)).to_numpy(zero_copy_only=False)
        if groups is not None:
            _, codes = np.unique(groups * (len(coded.dictionary) + 1) + codes, return_inverse=True)
        groups = codes
    assert groups is not None  # noqa: S101  a rule has keys
    return groups


def _ranks(values: pa.ChunkedArray) -> npt.NDArray[np.uint64]:
    """Dense ranks, null first."""
    whole = values.combine_chunks()
    ranks: npt.NDArray[np.uint64] = pc.rank(whole, sort_keys="ascending", tiebreaker="dense").to_numpy().copy()
    ranks[np.asarray(whole.is_null())] = 0
    return ranks


def _plain(values: pa.Array) -> pa.Array:
    """Values without a dictionary."""
    return values.dictionary_decode() if pa.types.is_dictionary(values.type) else values


def _key(values: pa.Array) -> pa.Array:
    """Values of which equal ones have equal bits."""
    if pa.types.is_floating(values.type):
        values = pc.add(values, pa.scalar(0.0, values.type))
        return pc.if_else(pc.is_nan(values), pa.scalar(float("nan"), values.type), values)
    return _plain(values)


def _column(schema: TableSchema, name: str) -> Column:
    column = schema.column(name)
    assert column is not None, name  # noqa: S101  the rule was checked with this schema
    return column


def _told(rows: _Rows, schema: TableSchema, dropped: Positions, winners: Positions) -> LeftOut:
    """What the record says of the rows that are left out: their digests, and how many equal the row that is kept."""
    digests, identical = {column.name: 0 for column in schema.stored}, 0
    filled, row_digest = {column.id: 0 for column in schema.stored}, 0
    for first in range(0, len(dropped), SIZES.rows):
        gone, instead = dropped[first : first + SIZES.rows], winners[first : first + SIZES.rows]
        kept, of = np.unique(instead, return_inverse=True)
        hashes, others = np.zeros(len(gone), np.uint64), np.zeros(len(kept), np.uint64)
        for column in schema.stored:
            values = rows.take(column, gone)
            digests[column.name] = add(digests[column.name], digest_array(column, values, hashes))
            filled[column.id] += len(values) - values.null_count
            others += value_hashes(column, rows.take(column, kept))
        differing, row_digest = hashes - others[of], add(row_digest, digest_rows(hashes))
        identical += int(np.count_nonzero(differing == 0))
    if not len(dropped):
        return LeftOut()
    as_text = {name: to_hex(digest) for name, digest in digests.items()}
    return LeftOut(len(dropped), identical, as_text, filled=filled, row_digest=to_hex(row_digest))
