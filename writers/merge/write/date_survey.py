"""Surveys a date before it is written: its distinct strings, and the size of each piece."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sparkhaven.store.io.fs import Fs
from sparkhaven.store.native.rows import Bound, Pieces, numbered_pieces
from sparkhaven.store.types.model import Column, Storage
from sparkhaven.writers.merge.plan.dropped_columns import RankedUnions, union_columns
from sparkhaven.writers.merge.plan.merge_plan import MergePlan
from sparkhaven.writers.merge.plan.open_source import Columns
from sparkhaven.writers.merge.sources.merge_source import ColumnSource, check_crc
from sparkhaven.writers.merge.sources.sort_keys import INT_NULL, sorted_symbols
from sparkhaven.writers.merge.write.dictionaries import load_unions
from sparkhaven.writers.merge.write.row_order import Keys


def unions(fs: Fs, plan: MergePlan) -> RankedUnions:
    """Sorted distinct strings over all sources of every column that needs them, in memory, for a small date."""
    ranked = RankedUnions(Columns(fs, plan))
    complete(plan, ranked)
    return ranked


def complete(plan: MergePlan, ranked: RankedUnions) -> None:
    """Adds the distinct strings of every column that needs them and has none yet."""
    for column in union_columns(plan):
        if column.name in ranked:
            continue
        if column.storage is Storage.SYMBOL:
            ranked.add(column)
        else:
            sources = [ranked.columns.open(index, column) for index in range(len(plan.sources))]
            ranked[column.name] = _distinct_texts(sources, plan.options.sizes.rows)


def _distinct_texts(sources: Sequence[ColumnSource], most: int) -> pa.StringArray:
    union = pa.array([], pa.string())
    for source in sources:
        for first, stop in source.source.blocks(most):
            union = sorted_symbols([union, source.texts(first, stop)])
    return union


@dataclass(frozen=True, slots=True)
class Stretch:
    """A task: count rows ``[first, stop)`` (from its start) of one source, by piece and destination."""

    plan: MergePlan
    index: int
    first: int
    stop: int
    bounds: tuple[Bound, ...]


@dataclass(frozen=True, slots=True)
class Counts:
    """Per piece and destination: rows, bytes of each blob column; per destination the symbols in use."""

    rows: npt.NDArray[np.int64]  # pieces x destinations
    blobs: dict[str, npt.NDArray[np.int64]]
    used: dict[str, npt.NDArray[np.bool_]]  # column -> destinations x union

    @staticmethod
    def add(parts: Iterable[Counts]) -> Counts:
        first, *rest = parts
        rows = first.rows.copy()
        blobs = {name: array.copy() for name, array in first.blobs.items()}
        used = {name: array.copy() for name, array in first.used.items()}
        for part in rest:
            rows += part.rows
            for name, array in part.blobs.items():
                blobs[name] += array
            for name, flags in part.used.items():
                used[name] |= flags
        return Counts(rows, blobs, used)


def store_used(fs: Fs, plan: MergePlan, used: Mapping[str, npt.NDArray[np.bool_]]) -> None:
    """Stores which symbols are in use, instead of sending one byte per symbol to each task."""
    for column in plan.symbol_columns:
        fs.write_new(_used_file(plan, column), used[column.name].tobytes())


def load_used(fs: Fs, plan: MergePlan) -> dict[str, npt.NDArray[np.bool_]]:
    """Per column the symbols in use, destinations x union, memory-mapped."""
    used = {}
    for column in plan.symbol_columns:
        stat = fs.stat(_used_file(plan, column))
        assert stat is not None, column.name  # noqa: S101  written before any task starts
        flags = np.frombuffer(fs.map(_used_file(plan, column), stat.size), np.bool_)
        wide = len(plan.destinations)
        used[column.name] = flags.reshape(wide, len(flags) // wide)
    return used


def _used_file(plan: MergePlan, column: Column) -> Path:
    return plan.work / f"used-{column.id}"


def measure(fs: Fs, stretch: Stretch) -> Counts:
    plan = stretch.plan
    texts = load_unions(fs, plan)
    keys = Keys(fs, plan, texts)
    pieces, wide = len(stretch.bounds) + 1, len(plan.destinations)
    cells = pieces * wide
    rows = np.zeros(cells, np.int64)
    blobs = {c.name: np.zeros(cells, np.int64) for c in plan.blob_columns}
    used = {c.name: np.zeros((wide, len(texts[c.name])), bool) for c in plan.symbol_columns}
    for first, stop in plan.sources[stretch.index].blocks(plan.options.sizes.rows, stretch.first, stretch.stop):
        destination, numbers = pieces_of(keys, stretch.index, first, stop, stretch.bounds)
        cell = cells_of(destination, numbers, wide)
        rows += np.bincount(cell, minlength=cells)
        for column in plan.blob_columns:
            lengths = np.diff(keys.open(stretch.index, column).ends(first, stop))
            # sums of integers below 2^53 are exact in float64
            blobs[column.name] += np.bincount(cell, weights=lengths, minlength=cells).astype(np.int64)
        for column in plan.symbol_columns:
            _mark(used[column.name], keys.ranks(stretch.index, column, first, stop), destination)
    return Counts(
        rows.reshape(pieces, wide), {name: array.reshape(pieces, wide) for name, array in blobs.items()}, used
    )


def pieces_of(
    keys: Keys, index: int, first: int, stop: int, bounds: Sequence[Bound]
) -> tuple[npt.NDArray[np.int64], Pieces]:
    """The destination of rows of a source, and the piece between bounds that each is in."""
    wide = len(keys.plan.destinations)
    depth = max([int(wide > 1), *map(len, bounds)])
    words = keys.words(index, first, stop, 0, depth)
    destination = words[0].astype(np.int64) if wide > 1 else np.zeros(stop - first, np.int64)
    return destination, numbered_pieces(words, bounds) if bounds else np.zeros(stop - first, np.uint32)


def cells_of(destination: npt.NDArray[np.int64], pieces: Pieces, wide: int) -> npt.NDArray[np.int64]:
    """The cell of rows among ``Counts.rows``: destinations times the piece, and the destination."""
    return destination + pieces.astype(np.int64) * wide


def _mark(used: npt.NDArray[np.bool_], ranks: npt.NDArray[np.int32], destination: npt.NDArray[Any]) -> None:
    valid = ranks != INT_NULL
    if len(used) == 1:
        used[0, ranks[valid]] = True
    else:
        used[destination[valid], ranks[valid]] = True


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A task: compare one file of one source with its committed checksum."""

    plan: MergePlan
    index: int
    name: str


def verify_file(fs: Fs, task: SourceFile) -> None:
    """CorruptFileError: a source file differs from what was committed."""
    source = task.plan.sources[task.index]
    check_crc(fs, source.directory / task.name, source.files[task.name], stream=source.stream)


def source_files(plan: MergePlan, verified: Set[tuple[int, str]]) -> list[SourceFile]:
    """Every committed file of every source but ``verified`` ones, those of columns that are dropped too."""
    return [
        SourceFile(plan, index, name)
        for index, source in enumerate(plan.sources)
        for name in sorted(source.files)
        if (index, name) not in verified
    ]
