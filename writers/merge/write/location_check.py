"""Reads a staged location back and compares it with its sources: digests, symbols, groups, checksums, statistics."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sparkhaven.store.digest import CACHED_ROWS, fixed_entries
from sparkhaven.store.errors import ValidationFailedError
from sparkhaven.store.format.column.coded import decode_coded
from sparkhaven.store.format.column.prefix import prefix_with_grouping
from sparkhaven.store.format.index.grouping import GroupRanges
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.native.checked_columns import check_ids, checksum, crc32
from sparkhaven.store.native.digests import EntryBounds, plain_bounds, survey_entries
from sparkhaven.store.native.rows import count_ids
from sparkhaven.store.scan.column_file import OVR, read_grouping
from sparkhaven.store.types.committed_columns import FileState, RangeStats
from sparkhaven.store.types.model import Column, Storage
from sparkhaven.writers.append.column_files import range_stats
from sparkhaven.writers.merge.plan.merge_plan import MergePlan
from sparkhaven.writers.merge.plan.merge_proof import Digests
from sparkhaven.writers.merge.sources.merge_source import ColumnSource
from sparkhaven.writers.merge.sources.sort_keys import Words, is_sorted, ordinals, rank_ordinals
from sparkhaven.writers.merge.write.finish import Finished, group_ranges_of, staged_source
from sparkhaven.writers.merge.write.staging import Runs

MAX_BOUND = 64  # characters of a text kept as a bound
FRACTION_ROWS = 1 << 12  # rows that are looked at together for a fraction
COMPARED = 3  # times as long as a text without symbol table takes one that is compared with the one before, and coded


@dataclass(frozen=True, slots=True)
class ColumnTask:
    """A task: one column of one finished destination."""

    plan: MergePlan
    finished: Finished
    column: Column

    def size(self) -> int:
        """Bytes that are read; those of a symbol table are looked at several times."""
        first, *others = (self.finished.sizes.get(name, 0) for name in self.column.files)
        return first + sum(others) * (COMPARED if self.column.storage is Storage.SYMBOL else 1)


@dataclass(frozen=True, slots=True)
class ColumnFound:
    """Digest, files with checksums, and statistics per row range of one column of a destination.

    What reads columns of fixed width back from column files has no digest of them: ``row_check`` makes it beside that
    of the rows.
    """

    destination: int
    column: str
    digest: int
    files: dict[str, FileState]
    stats: tuple[RangeStats, ...] = field(default=())


def check_column(fs: Fs, task: ColumnTask) -> ColumnFound:
    """Reads one column back. ValidationFailedError: symbols are not sorted and unique, or groups do not match."""
    plan, column, rows = task.plan, task.column, task.finished.rows
    source = ColumnSource(fs, staged_source(plan, task.finished), column)
    reader = _Reader(source, column, Digests(plan.schema))
    for first, stop in source.source.blocks(plan.options.sizes.rows):
        reader.block(first, stop, source.entries(first, stop))
    if task.finished.grouped.get(column.name):
        reader.check_groups(fs, rows)
    files = {column.files[0]: FileState(rows * column.width, reader.crc)}
    for name in column.files[1:]:
        size = task.finished.sizes[name]
        files[name] = FileState(size, checksum(fs, source.source.directory / name, 0, size))
    reader.close()
    digest = reader.digests.totals.get(column.name, 0)
    return ColumnFound(task.finished.destination, column.name, digest, files, tuple(reader.stats))


class _Reader:
    def __init__(self, source: ColumnSource, column: Column, digests: Digests) -> None:
        self.source, self.column, self.digests = source, column, digests
        self.stats: list[RangeStats] = []
        self.crc = 0  # of all entries
        self._symbols = source.symbols() if column.storage in (Storage.SYMBOL, Storage.SET) else None
        self._counts = np.zeros(0 if self._symbols is None else len(self._symbols) + 1, np.int64)
        self._starts: list[npt.NDArray[np.int64]] = []
        self._words: list[Words] = []
        if self._symbols is not None and not is_sorted(self._symbols):
            raise self._wrong("symbol table is not sorted and unique", "sorted, unique", "other")

    def block(self, first: int, stop: int, entries: npt.NDArray[Any]) -> None:
        column, fixed = self.column, fixed_entries(self.column)
        if column.storage is Storage.FIXED and fixed is not None:
            survey = survey_entries(entries, fixed, self.crc, digest=False)
            self.crc = survey.crc
            self.stats.append(_stats_of(survey.bounds, entries, column, first))
            self._changes(first, lambda: ordinals(entries, column.type))
            return
        self.crc = crc32(entries.view(np.uint8).data, self.crc)
        if column.storage is Storage.FIXED:
            self.stats.append(fixed_stats(entries, column, first))
            self._changes(first, lambda: ordinals(entries, column.type))
        elif column.storage is Storage.SET:
            self.digests.sets(column, entries, self._symbols)
            self.stats.append(RangeStats(first, stop, 0))
        elif self._symbols is not None:
            nulls = check_ids(entries, len(self._symbols))
            ids = entries if nulls is not None else self.source.ids(first, stop, len(self._symbols))  # raises
            count_ids(ids, self._counts)
            self.stats.append(self._symbol_stats(ids, nulls or 0, self._symbols, first))
            self._changes(first, lambda: rank_ordinals(ids))
        else:
            blobs = self.source.blobs(first, stop)
            nulls = 0
            for low in range(0, stop - first, CACHED_ROWS):
                nulls += self.digests.encoded(column, blobs.slice(low, CACHED_ROWS), f"column {column.name}")
            self.stats.append(RangeStats(first, stop, nulls))

    def close(self) -> None:
        """Hashes values that were counted first."""
        if self.column.storage is Storage.SYMBOL:
            self.digests.counted(self.column, self._symbols, self._counts)

    def _changes(self, first: int, words_of: Any) -> None:
        if self.column.name not in {c.name for c in self.digests.schema.grouping}:
            return
        words = words_of()
        last = self._words[-1][-1:] if self._words else None
        starts = np.flatnonzero(words[1:] != words[:-1]) + 1
        if last is None or words[0] != last[0]:
            starts = np.concatenate([np.zeros(1, np.int64), starts])
        if len(starts):
            self._starts.append(starts + first)
            self._words.append(words[starts])

    def check_groups(self, fs: Fs, rows: int) -> None:
        """ValidationFailedError: the grouping is not, byte for byte, that of the runs of the data."""
        starts = np.concatenate(self._starts) if self._starts else np.zeros(0, np.int64)
        words = np.concatenate(self._words) if self._words else np.zeros(0, np.uint64)
        texts = {} if self._symbols is None else {self.column.name: self._symbols}
        expected = group_ranges_of(self.column, [Runs(words, starts)], rows, texts)
        if expected is not None and self._holds(fs, expected):
            return
        ranges = read_grouping(fs, self.source.source.directory, self.column, rows)
        if ranges is None:
            raise self._wrong("grouping is missing", "ranges", "none")
        if not np.array_equal(starts, ranges.starts):
            raise self._wrong("grouping ranges are not the runs of the data", f"{len(starts)} runs", len(ranges))
        raise self._wrong("grouping has other keys than the data", f"{len(starts)} keys", "others")

    def _holds(self, fs: Fs, ranges: GroupRanges) -> bool:
        directory, column = self.source.source.directory, self.column
        prefix, overflow = prefix_with_grouping(column, ranges)
        inline = fs.read_range(directory / column.files[0], 0, len(prefix)) == prefix
        return inline and (overflow is None or fs.read(directory / f"{column.name}{OVR}") == overflow)

    def _symbol_stats(self, ids: npt.NDArray[np.int32], nulls: int, symbols: pa.Array, first: int) -> RangeStats:
        stop = first + len(ids)
        if nulls == len(ids):
            return RangeStats(first, stop, nulls)
        low, high = int(ids.view(np.uint32).min()), int(ids.max())  # the null is the largest unsigned, the least signed
        return text_stats(first, stop, nulls, symbols[low].as_py(), symbols[high].as_py())

    def _wrong(self, what: str, expected: object, found: object) -> ValidationFailedError:
        return ValidationFailedError(
            f"staged column {self.column.name}: {what}",
            where=self.source.source.directory,
            expected=expected,
            found=found,
            hint="merge the date again. If the error comes back, the disk or memory is faulty",
            phase="check",
        )


def text_stats(first: int, stop: int, nulls: int, low: str, high: str) -> RangeStats:
    """Statistics of texts; bounds only if they are short and the same by code point and by UTF-16 code unit."""
    plain = max(len(low), len(high)) <= MAX_BOUND and max(low + high, default="") < "\ud800"
    return RangeStats(first, stop, nulls, 0, low, high) if plain else RangeStats(first, stop, nulls)


def _are_microseconds(values: npt.NDArray[np.int64]) -> bool:
    """Whether no value has a fraction of a microsecond; one of the first has, if any."""
    return not any(
        bool((values[low : low + FRACTION_ROWS] % 1000).any()) for low in range(0, len(values), FRACTION_ROWS)
    )


def fixed_stats(entries: npt.NDArray[Any], column: Column, first: int) -> RangeStats:
    """Statistics of raw entries of a fixed-width column."""
    if column.type.fixed is not None:
        return range_stats(decode_coded(pa.py_buffer(entries), column.type.fixed, f"column {column.name}"), first)
    assert column.type.null is not None  # noqa: S101  every other fixed-width type has one
    return _stats_of(plain_bounds(entries, column.type.null), entries, column, first)


def _stats_of(bounds: EntryBounds, entries: npt.NDArray[Any], column: Column, first: int) -> RangeStats:
    stop, low, high = first + len(entries), bounds.low, bounds.high
    if low is None:
        return RangeStats(first, stop, bounds.nulls, bounds.nans)
    exact = True
    if column.type.name == "Instant":
        exact = _are_microseconds(entries[entries != column.type.null] if bounds.nulls else entries)
    if column.type.name == "Boolean":
        low, high = bool(low), bool(high)
    return RangeStats(first, stop, bounds.nulls, bounds.nans, low, high, exact)
