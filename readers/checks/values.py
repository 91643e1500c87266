"""Deep checks of one column's values: symbols, statistics, grouping."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from readers.checks.findings import Finding, finding
from store.format.index.grouping import key_identity
from store.format.parquet.names import NAME, in_parquet
from store.io.fs import Fs
from store.scan.columnfile import open_column, read_grouping
from store.types.committed import FileState, RangeStats
from store.types.model import Column, Kind, Storage


@dataclass(frozen=True, slots=True)
class Expected:
    """The committed state of a location, by the commit log (intraday) or the merge record (history)."""

    tier: Literal["intraday", "history"]
    directory: Path
    rows: int
    files: Mapping[str, FileState]
    stats: Mapping[str, Sequence[RangeStats]]
    epoch: int | None = None
    truncated: bool = False
    published: bytes | None = None  # content of ``table.size``, where it follows from the log
    indexes: Mapping[str, FileState] = field(default_factory=dict)  # files of indexes, by their path below the location


def check_values(fs: Fs, expected: Expected, column: Column) -> Iterator[Finding]:
    """Reads a whole column. Damage that stops a read is raised; other damage is a finding."""
    sizes = {name: state.size for name, state in expected.files.items()}
    parquet = in_parquet(sizes)
    path = expected.directory / (NAME if parquet else column.files[0])
    values = open_column(fs, expected.directory, column, sizes, expected.rows).read()
    if column.storage is Storage.SYMBOL and expected.rows and not parquet:
        yield from _symbols(expected, column, values.dictionary)
    for stats in expected.stats.get(column.name, ()):
        wrong = false_statistics(values.slice(stats.start, stats.stop - stats.start), stats)
        if wrong:
            yield finding(
                "error",
                path,
                "statistics are wrong: reads may skip rows that match",
                at=f"rows {stats.start} to {stats.stop}{f' of column {column.name}' if parquet else ''}",
                expected=wrong[0],
                found=wrong[1],
                hint="merge the date, or ingest it again; until then read without --where",
            )
    if column.kind is Kind.GROUPING and not parquet:
        groups = read_grouping(fs, expected.directory, column, expected.rows)
        if groups is not None and len(groups):
            plain = values.cast(column.type.arrow) if pa.types.is_dictionary(values.type) else values
            bad = _ungrouped(plain, groups.keys, groups.starts, groups.stops)
            if bad is not None:
                yield finding(
                    "error",
                    path,
                    "a row does not have the value of its group",
                    at=f"row {bad}",
                    expected=repr(groups.keys[int(np.searchsorted(groups.stops, bad, "right"))]),
                    found=repr(plain[bad].as_py()),
                    hint="merge the date again with --rewrite; until then reads work without the grouping",
                )
        elif groups is None and expected.tier == "history" and expected.rows:
            yield finding("warning", path, "grouping column of history has no grouping", expected="row ranges")


def _ungrouped(values: pa.Array, keys: Sequence[object], starts: np.ndarray, stops: np.ndarray) -> int | None:
    """The first row whose value is not the key of the range it lies in."""
    if pa.types.is_timestamp(values.type):
        values = values.cast(pa.int64())
    for start, key, value in zip(starts.tolist(), keys, values.take(pa.array(starts)).to_pylist(), strict=True):
        if key_identity(key) != key_identity(value):
            return int(start)
    wanted = values.take(pa.array(np.repeat(starts, stops - starts)))
    same = pc.fill_null(pc.equal(values, wanted), pc.and_(values.is_null(), wanted.is_null()))
    if pa.types.is_floating(values.type):
        same = pc.or_(same, pc.fill_null(pc.and_(pc.is_nan(values), pc.is_nan(wanted)), False))
    bad = np.flatnonzero(~same.to_numpy(zero_copy_only=False))
    return int(bad[0]) if len(bad) else None


def _symbols(expected: Expected, column: Column, texts: pa.Array) -> Iterator[Finding]:
    path = expected.directory / column.files[1]
    double = len(texts) - len(texts.unique())
    if double:
        yield finding(
            "warning" if expected.tier == "history" else "note",
            path,
            "a text has several symbols: reads are correct, it only wastes space",
            expected=f"{len(texts) - double} symbols",
            found=f"{len(texts)} symbols",
        )
    if expected.tier == "history":
        units = [text.encode("utf-16-be") for text in texts.to_pylist() if text is not None]
        entry = next((i for i in range(1, len(units)) if units[i] < units[i - 1]), None)
        if entry is not None:
            yield finding("note", path, "symbols of history are not sorted", at=f"entry {entry}", expected="ascending")


def false_statistics(values: pa.Array, stats: RangeStats) -> tuple[str, str] | None:
    """The statistics and the real values, if a reader that uses the statistics could miss rows."""
    nulls = values.null_count
    if len(values) != stats.stop - stats.start or nulls != stats.nulls:
        return f"{stats.nulls} nulls in {stats.stop - stats.start} rows", f"{nulls} nulls in {len(values)} rows"
    plain = values.cast(pa.string()) if pa.types.is_dictionary(values.type) else values
    if pa.types.is_timestamp(plain.type):
        plain = plain.cast(pa.int64())
    if pa.types.is_floating(plain.type):
        nans = pc.sum(pc.is_nan(plain)).as_py() or 0
        if nans != stats.nans:
            return f"{stats.nans} NaN", f"{nans} NaN"
        plain = plain.filter(pc.fill_null(pc.invert(pc.is_nan(plain)), False))
    found = pc.min_max(plain)
    low, high = found["min"].as_py(), found["max"].as_py()
    too_low = stats.low is not None and low is not None and low < stats.low
    too_high = stats.high is not None and high is not None and high > stats.high
    if too_low or too_high:
        return f"{stats.low!r} to {stats.high!r}", f"{low!r} to {high!r}"
    return None
