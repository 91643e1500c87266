"""Completes a staged location once all columns are written: prefixes with grouping, definition."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sparkhaven.store.format.column.prefix import plain_prefix, prefix_with_grouping
from sparkhaven.store.format.index.grouping import GroupRanges
from sparkhaven.store.format.table import table_size
from sparkhaven.store.format.table.tbl import encode_tbl
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import index_of
from sparkhaven.store.types.committed_columns import FileState
from sparkhaven.store.types.model import Column, Storage
from sparkhaven.writers.merge.plan.dropped_columns import Unions
from sparkhaven.writers.merge.plan.merge_plan import MergePlan
from sparkhaven.writers.merge.plan.open_source import Columns
from sparkhaven.writers.merge.sources.merge_source import MergeSource
from sparkhaven.writers.merge.sources.sort_keys import distinct, from_ordinals, picked
from sparkhaven.writers.merge.write.column_writes import set_table, write_symbols
from sparkhaven.writers.merge.write.staging import Runs


@dataclass(frozen=True, slots=True)
class Finished:
    """A complete staged location: its rows, the data bytes of each file, and whether each group column is grouped.

    ``indexes``: keys of each index, by its columns; ``index_files``: files of the indexes, as paths below the location.
    """

    destination: int
    rows: int
    sizes: dict[str, int]
    grouped: dict[str, bool]
    indexes: dict[tuple[str, ...], int] = field(default_factory=dict)
    index_files: tuple[str, ...] = ()


def finish(
    fs: Fs,
    plan: MergePlan,
    destination: int,
    rows: int,
    runs: Mapping[str, Sequence[Runs | None]],
    used: Mapping[str, npt.NDArray[np.bool_]],
    unions: Unions,
) -> Finished:
    """Writes prefixes and definition of one destination; ``runs`` are those of its pieces, in order.

    ``used``: per column and destination the symbols in use, where pieces have only counted them; their symbol tables
    are written too.
    """
    location = plan.destinations[destination].stage(plan.table, plan.value)
    sizes: dict[str, int] = {}
    grouped: dict[str, bool] = {}
    for column in plan.columns:
        dat = location / column.files[0]
        ranges = None
        if column.name in runs:
            ranges = group_ranges_of(column, runs[column.name], rows, unions)
            grouped[column.name] = ranges is not None
        if ranges is None:
            fs.write_at(dat, 0, plain_prefix(column))
        else:
            prefix, overflow = prefix_with_grouping(column, ranges)
            if overflow is not None:
                fs.write_new(location / f"{column.name}.ovr", overflow)
            fs.write_at(dat, 0, prefix)
        sizes[dat.name] = rows * column.width
        if column.storage is Storage.SYMBOL:
            if column.name in used:
                write_symbols(fs, plan, destination, column, used[column.name][destination], unions[column.name])
            sizes |= {name: size for name, (size, _) in fs.sizes(location, column.files[1:]).items()}
        elif column.storage is Storage.SET:
            table = pa.array(set_table(Columns(fs, plan), column), pa.string())
            write_symbols(fs, plan, destination, column, np.ones(len(table), np.bool_), table)
            sizes |= {name: size for name, (size, _) in fs.sizes(location, column.files[1:]).items()}
        elif column.storage is Storage.BLOB:
            sizes |= _close_blob(fs, plan, destination, column)
    fs.write_new(location / "table.tbl", encode_tbl(plan.schema))
    return Finished(destination, rows, sizes, grouped)


def group_ranges_of(column: Column, runs: Sequence[Runs | None], rows: int, unions: Unions) -> GroupRanges | None:
    """The grouping of a column from the runs of all pieces; None if equal values are not contiguous."""
    joined = joined_runs(runs)
    if joined is None or not distinct(joined.words):
        return None
    stops = np.append(joined.starts[1:], rows)
    return GroupRanges(tuple(_keys(column, joined.words, unions)), joined.starts, stops, column.type)


def joined_runs(runs: Sequence[Runs | None]) -> Runs | None:
    """The runs of all pieces of a location as one; None if equal values are not contiguous in one of them."""
    known = [run for run in runs if run is not None]
    if len(known) < len(runs):
        return None
    words, starts = (np.concatenate(parts) for parts in zip(*((run.words, run.starts) for run in known), strict=True))
    fresh = np.ones(len(words), bool)
    fresh[1:] = words[1:] != words[:-1]  # a group cut in two
    return Runs(words[fresh], starts[fresh])


def _keys(column: Column, words: npt.NDArray[Any], unions: Unions) -> list[Any]:
    if column.storage is not Storage.FIXED:
        ranks = (words ^ np.uint32(1 << 31)).view(np.int32)
        texts = iter(picked(unions[column.name], ranks[ranks >= 0]).to_pylist())
        return [None if rank < 0 else next(texts) for rank in ranks.tolist()]
    raw = from_ordinals(words, column.type)
    null = raw == raw.dtype.type(column.type.null)
    values = (raw != 0).tolist() if column.type.name == "Boolean" else raw.tolist()
    return [None if missing else value for missing, value in zip(null.tolist(), values, strict=True)]


def _close_blob(fs: Fs, plan: MergePlan, destination: int, column: Column) -> dict[str, int]:
    path = plan.destinations[destination].stage(plan.table, plan.value) / column.files[1]
    stat = fs.stat(path)
    if stat is None:  # null in every row
        fs.write_new(path, b"")
    return {path.name: stat.size if stat else 0}


def staged_source(plan: MergePlan, finished: Finished) -> MergeSource:
    """The staged location as a source, without checksums."""
    directory = plan.destinations[finished.destination].stage(plan.table, plan.value)
    files = {name: FileState(size, 0) for name, size in finished.sizes.items()}
    return MergeSource(directory, "", "", 0, 0, 0, finished.rows, finished.rows, files)


def sort_directions(plan: MergePlan) -> dict[str, str]:
    """The columns that the rows are sorted by, most significant first, as Deephaven spells their order."""
    return {key.column: "Descending" if key.descending else "Ascending" for key in plan.ordering}


def size_record(plan: MergePlan, finished: Finished, files: Mapping[str, FileState], now_ms: int) -> bytes:
    size = table_size.of_files(
        finished.rows,
        now_ms,
        dict(sorted(files.items())),
        schema_version=plan.schema.version,
        sorted_columns=sort_directions(plan),
        data_indexes={index_of(names): keys for names, keys in finished.indexes.items()},
    )
    return table_size.encode(size)
