"""The distinct texts of a date's columns by external merge sort, and the rank of each source's symbols among them.

Slices of the sources' symbol tables are sorted and stored as runs in the merge's work directory; the runs are then
merged window by window. In memory are one slice and the windows, whose bytes ``SortBudget`` bounds, and 4 bytes for
each symbol of the merged column (its rank). A set of texts is two work files: ``<name>.texts`` has the concatenated
UTF-8 bytes, ``<name>.ends`` a little-endian i4 before the first text and after each. A run also has ``<name>.ids``, the
u4 number of each text in its source.

Texts are compared by UTF-16 code unit. UTF-8 orders by code point, which differs in one place: U+10000 and above (first
byte F0 to F4) sort before U+E000 to U+FFFF (EE and EF). Those seven bytes occur as first bytes only, so a run stores
them translated to bytes of the right order.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sparkhaven.store.errors import MergeError
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.types.model import Column, Storage
from sparkhaven.writers.merge.plan.dropped_columns import RankedUnions, Unions, ranks_file, union_columns
from sparkhaven.writers.merge.plan.merge_plan import MergePlan
from sparkhaven.writers.merge.plan.open_source import Columns
from sparkhaven.writers.merge.sources.merge_source import BlockSizes, ColumnSource
from sparkhaven.writers.merge.sources.parquet_source import open_source
from sparkhaven.writers.merge.sources.sort_keys import INT_NULL, ranked_symbols

MIN_SLICE = 4 << 20
WHOLE = 2  # slices of symbols that are sorted at once, in memory
MAX_BYTES = (1 << 31) - 1  # of one column's texts: Arrow's offsets are i4
ENTRY = 8  # bytes per text beside its own: its end, its number
_RAISED = bytes.maketrans(b"\xee\xef\xf0\xf1\xf2\xf3\xf4", b"\xf3\xf4\xee\xef\xf0\xf1\xf2")
_LOWERED = bytes.maketrans(b"\xf3\xf4\xee\xef\xf0\xf1\xf2", b"\xee\xef\xf0\xf1\xf2\xf3\xf4")


@dataclass(frozen=True, slots=True)
class SortBudget:
    """Bytes of one slice before it is sorted, and of all windows together."""

    slice: int

    @staticmethod
    def of(plan: MergePlan) -> SortBudget:
        """A sixteenth of what rows may take: sorting a slice makes copies of it."""
        return SortBudget(plan.options.sizes.slice_bytes or max(MIN_SLICE, plan.options.usable // 16))

    def window(self, runs: int) -> int:
        return max(1, self.slice // max(runs, 1))


class TextFiles:
    """Distinct texts in order, appended to two work files; ``where`` is for the error if they are too many."""

    def __init__(self, fs: Fs, path: Path, where: str, most: int = MAX_BYTES) -> None:
        self.fs, self.texts, self.ends = fs, _texts(path), _ends(path)
        self.where, self.most, self.count, self.size = where, most, 0, 0
        fs.write_new(self.texts, b"")
        fs.write_new(self.ends, bytes(4))

    def append(self, values: pa.BinaryArray) -> None:
        """Appends values without null. MergeError: more than ``most`` bytes in all."""
        ends = _offsets(values)
        low, high = int(ends[0]), int(ends[-1])
        if self.size + high - low > self.most:
            raise MergeError(
                "distinct texts of a column are too large to merge",
                where=self.where,
                expected=f"at most {self.most} bytes of UTF-8",
                found=f"{self.size + high - low} bytes or more",
                hint='declare the column with symbolTable="None": texts that rarely repeat need no symbol table',
                phase="stage",
            )
        shifted = ends[1:].astype(np.int64) + (self.size - low)
        self.fs.write_at(self.ends, 4 * (self.count + 1), shifted.astype("<i4").data.cast("B"))
        if high > low:
            self.fs.write_at(self.texts, self.size, memoryview(values.buffers()[2])[low:high])
        self.count, self.size = self.count + len(values), self.size + high - low


def load_texts(fs: Fs, path: Path) -> pa.StringArray:
    stat, texts = fs.stat(_ends(path)), fs.stat(_texts(path))
    assert stat is not None and texts is not None, path  # noqa: S101  written before any task starts
    data = fs.map(_texts(path), texts.size)
    return pa.StringArray.from_buffers(stat.size // 4 - 1, fs.map(_ends(path), stat.size), data)


def fits_slice(plan: MergePlan) -> bool:
    """Whether the stored texts of every column whose distinct texts are needed fit one slice."""
    return all(stored_texts(plan, column) <= SortBudget.of(plan).slice for column in union_columns(plan))


def stored_texts(plan: MergePlan, column: Column) -> int:
    """Bytes of the texts of a column in all sources, with their ends."""
    names = ((source, name) for source in plan.stored(column) for name in source.placed(column).files[1:])
    sizes = sum(source.files[name].size for source, name in names if name in source.files)
    return sizes + sum(source.text_bytes.get(column.name, 0) for source in plan.sources)


def union_path(plan: MergePlan, column: Column) -> Path:
    return plan.work / f"union-{column.id}"


def store_unions(fs: Fs, plan: MergePlan, late: Sequence[Column] = ()) -> None:
    """Writes the distinct texts of every column that needs them, and the ranks of each source's symbols.

    Those of ``late`` columns are left out.
    """
    for column in union_columns(plan):
        if column not in late:
            _store_union(fs, plan, column)


def find_union(fs: Fs, plan: MergePlan, column: Column) -> Unions:
    """The distinct texts of a symbol column that no other task needs: in memory, stored only if they are too many."""
    if not _sorted_at_once(plan, column):
        _store_union(fs, plan, column)
        return load_unions(fs, plan)
    ranked = RankedUnions(Columns(fs, plan))
    ranked.add(column)
    return ranked


def _sorted_at_once(plan: MergePlan, column: Column) -> bool:
    return column.storage is Storage.SYMBOL and stored_texts(plan, column) <= WHOLE * SortBudget.of(plan).slice


def _store_union(fs: Fs, plan: MergePlan, column: Column) -> None:
    budget = SortBudget.of(plan)
    files = TextFiles(fs, union_path(plan, column), f"{plan.table} {plan.value}, column {column.name}")
    if _sorted_at_once(plan, column):
        union, ranks = ranked_symbols(Columns(fs, plan).symbols(column))
        files.append(union)
        runs: list[_Run] = []
    else:
        runs, sizes = _runs(fs, plan, column, budget)
        ranks = [np.full(size + 1, INT_NULL, np.int32) for size in sizes]
        _merge(runs, ranks, files, budget)
    if column.storage is Storage.SYMBOL:
        for index, array in enumerate(ranks):
            fs.write_new(ranks_file(plan, index, column), array.tobytes())
    for run in runs:
        run.remove()


def load_unions(fs: Fs, plan: MergePlan) -> Unions:
    """The distinct texts of every column, each mapped from the work files when it is asked for."""
    return _Stored(fs, plan)


class _Stored(Mapping[str, pa.StringArray]):
    def __init__(self, fs: Fs, plan: MergePlan) -> None:
        self._fs, self._plan = fs, plan
        self._columns = {column.name: column for column in union_columns(plan)}
        self._loaded: dict[str, pa.StringArray] = {}

    def __getitem__(self, name: str) -> pa.StringArray:
        if name not in self._loaded:
            self._loaded[name] = load_texts(self._fs, union_path(self._plan, self._columns[name]))
        return self._loaded[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)


def _runs(fs: Fs, plan: MergePlan, column: Column, budget: SortBudget) -> tuple[list[_Run], list[int]]:
    """Sorted runs of all sources, and the number of symbols of each source (0 for texts without table)."""
    runs: list[_Run] = []
    sizes: list[int] = []
    for index, source in enumerate(plan.sources):
        size = held = 0
        parts: list[tuple[int, pa.Array]] = []
        for first, texts in _texts_of(open_source(fs, source, column), plan.options.sizes, budget):
            parts.append((first, texts))
            held += texts.nbytes + ENTRY * len(texts)
            size = first + len(texts)
            if held >= budget.slice:
                runs.append(_write_run(fs, plan.work / f"run-{column.id}-{len(runs)}", index, parts))
                parts, held = [], 0
        if parts:
            runs.append(_write_run(fs, plan.work / f"run-{column.id}-{len(runs)}", index, parts))
        sizes.append(size if column.storage is Storage.SYMBOL else 0)
    return runs, sizes


def _texts_of(source: ColumnSource, sizes: BlockSizes, budget: SortBudget) -> Iterator[tuple[int, pa.Array]]:
    """Texts with the number of the first; without a symbol table the numbers are meaningless."""
    if source.column.storage is Storage.SYMBOL:
        yield from source.symbol_parts(budget.slice, sizes.symbols)
        return
    for first, stop in source.source.blocks(sizes.rows):
        yield 0, pc.unique(source.texts(first, stop).cast(pa.string()))


def _write_run(fs: Fs, path: Path, index: int, parts: Sequence[tuple[int, pa.Array]]) -> _Run:
    """Sorts one slice; the number of a text is its position in it."""
    ids = np.concatenate([np.arange(first, first + len(texts), dtype=np.uint32) for first, texts in parts])
    arrays = [texts.cast(pa.string()) for _, texts in parts]
    texts = arrays[0] if len(arrays) == 1 else pa.concat_arrays(arrays)
    del arrays
    if texts.null_count:
        valid = texts.is_valid()
        ids, texts = ids[valid.to_numpy(zero_copy_only=False)], texts.filter(valid)
    values = _translated(texts, _RAISED)
    order = pc.sort_indices(values)
    written = TextFiles(fs, path, str(path))
    written.append(values.take(order))
    fs.write_new(_ids(path), ids[order.to_numpy()].astype("<u4").tobytes())
    return _Run(fs, path, index, len(values))


def _translated(texts: pa.Array, table: bytes) -> pa.BinaryArray:
    """The values of a text or binary array without null, each byte translated; offsets start at 0."""
    ends = _offsets(texts)
    low, high = int(ends[0]), int(ends[-1])
    data = bytes(memoryview(texts.buffers()[2])[low:high]).translate(table) if high > low else b""
    return pa.BinaryArray.from_buffers(pa.binary(), len(texts), [None, pa.py_buffer(ends - low), pa.py_buffer(data)])


def _offsets(values: pa.Array) -> npt.NDArray[np.int32]:
    """Where the values of a string or binary array end in its bytes, with the beginning of the first."""
    buffer = values.buffers()[1]
    if not len(values) or buffer is None:
        return np.zeros(1, np.int32)
    return np.frombuffer(buffer, np.int32, values.offset + len(values) + 1)[values.offset :]


class _Run:
    """A sorted run in the work directory, read through a window."""

    def __init__(self, fs: Fs, path: Path, source: int, count: int) -> None:
        self.fs, self.path, self.source, self.left = fs, path, source, count
        self.values: pa.BinaryArray = pa.array([], pa.binary())
        self.ids: npt.NDArray[np.uint32] = np.empty(0, np.uint32)
        self._at = 0

    def fill(self, size: int) -> None:
        """Reads the next texts of about ``size`` bytes, at least one, if the window is empty."""
        if len(self.values) or not self.left:
            return
        number = min(self.left, max(1, size // ENTRY))
        ends: npt.NDArray[Any] = np.frombuffer(
            self.fs.read_range(_ends(self.path), 4 * self._at, 4 * (number + 1)), "<i4"
        )
        cost = ends - ends[0] + ENTRY * np.arange(number + 1)
        number = max(1, int(np.searchsorted(cost, size, side="right")) - 1)
        low, high = int(ends[0]), int(ends[number])
        data = self.fs.read_range(_texts(self.path), low, high - low) if high > low else b""
        offsets = pa.py_buffer(ends[: number + 1] - ends[0])
        self.values = pa.BinaryArray.from_buffers(pa.binary(), number, [None, offsets, pa.py_buffer(data)])
        self.ids = np.frombuffer(self.fs.read_range(_ids(self.path), 4 * self._at, 4 * number), "<u4")
        self._at, self.left = self._at + number, self.left - number

    def last(self) -> bytes | None:
        """The last value of the window, if others follow it."""
        return self.values[-1].as_py() if self.left and len(self.values) else None

    def take(self, bound: bytes | None) -> tuple[pa.BinaryArray, npt.NDArray[np.uint32]]:
        """Takes the values up to ``bound`` (None: all) out of the window."""
        count = len(self.values)
        if bound is not None:
            count = bisect_right(range(count), bound, key=lambda position: self.values[position].as_py())
        window = self.values[:count], self.ids[:count]
        self.values, self.ids = self.values[count:], self.ids[count:]
        return window

    def remove(self) -> None:
        for path in (_texts(self.path), _ends(self.path), _ids(self.path)):
            self.fs.unlink(path)


def _merge(runs: Sequence[_Run], ranks: Sequence[npt.NDArray[np.int32]], target: TextFiles, budget: SortBudget) -> None:
    """Merges runs into ``target`` and stores the rank of every text that has a number in its source.

    Values up to the smallest of the windows' last values are complete: no run has more of them.
    """
    active, last = list(runs), None
    while active:
        size = budget.window(len(active))
        for run in active:
            run.fill(size)
        lasts = [end for end in (run.last() for run in active) if end is not None]
        windows = [(run, *run.take(min(lasts) if lasts else None)) for run in active]
        active = [run for run in active if run.left or len(run.values)]
        windows = [window for window in windows if len(window[1])]
        if not windows:
            continue
        values = pa.concat_arrays([window[1] for window in windows])
        order = pc.sort_indices(values)
        values = values.take(order)
        fresh = np.ones(len(values), bool)
        fresh[0] = values[0].as_py() != last  # a run may have a text twice, in two windows
        last = values[-1].as_py()
        fresh[1:] = pc.not_equal(values[1:], values[:-1]).to_numpy(zero_copy_only=False)
        rank = np.empty(len(values), np.int32)
        rank[order.to_numpy()] = np.cumsum(fresh, dtype=np.int32) + np.int32(target.count - 1)
        first = 0
        for run, _, ids in windows:
            if len(ranks[run.source]) > 1:
                ranks[run.source][ids] = rank[first : first + len(ids)]
            first += len(ids)
        distinct = values if fresh.all() else values.filter(pa.array(fresh))
        target.append(_translated(distinct, _LOWERED))


def _texts(path: Path) -> Path:
    return path.with_name(f"{path.name}.texts")


def _ends(path: Path) -> Path:
    return path.with_name(f"{path.name}.ends")


def _ids(path: Path) -> Path:
    return path.with_name(f"{path.name}.ids")
