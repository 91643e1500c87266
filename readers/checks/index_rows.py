"""Deep check of an index: keys ascend, and each row is once in it, with the key that it has.

Sizes and checksums of its files are checked before. This is about an index that was written wrong: a filtered read
would miss rows. ``verify``, an adoption of history and a merge ask it. A merge gives the rows as another reader has
them, and a faster look at the order of keys.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sparkhaven.readers.checks.column_values import ROWS_AT_ONCE
from sparkhaven.readers.checks.committed import Expected
from sparkhaven.readers.checks.findings import Finding, finding, from_error
from sparkhaven.store.errors import CorruptFileError, SparkhavenError
from sparkhaven.store.format.column.region import DAT
from sparkhaven.store.format.table import table_size
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import BEGIN, INDEX, ROW_SET, sidecar_of
from sparkhaven.store.scan.column_file import open_column, read_column
from sparkhaven.store.scan.index_file import index_columns, stored_order
from sparkhaven.store.scan.parquet_file import damage_at
from sparkhaven.store.types.codings.row_set import decode_sets
from sparkhaven.store.types.datatypes import DataType
from sparkhaven.store.types.model import Column, Storage, TableSchema

KEYS = 1 << 14  # that are looked at together
Ranges = tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64]]
Blocks = Iterable[tuple[int, pa.Array]]
"""Rows of a key column, block by block, each with the number of its first row."""
Rows = Callable[[int, pa.Array], tuple[pa.Array, Blocks]]
"""Of a key column, by its number, and its keys: what is compared with its rows, and the rows."""


@dataclass(frozen=True, slots=True)
class Index:
    """The content of one index: key columns, and where each key is, as ranges or as row sets."""

    path: Path
    columns: tuple[Column, ...]
    keys: tuple[pa.Array, ...]
    places: tuple[pa.Array, ...]

    def __len__(self) -> int:
        return len(self.keys[0])

    def ranges(self, first: int, rows: int) -> Ranges:
        """First rows and ends of the ranges of ``KEYS`` keys, and how many each has. CorruptFileError: no row set."""
        own = [part.slice(first, KEYS) for part in self.places]
        if len(own) == 2:
            starts, stops = (part.to_numpy(zero_copy_only=False) for part in own)
            return starts, stops, np.ones(len(starts), np.int64)
        sets = [data or b"" for data in own[0].to_pylist()]
        return decode_sets(sets, lambda number: f"{self.path}, entry {first + number}", rows)

    def wrong(self, what: str, at: str | None, expected: object, found: object) -> Finding:
        """The finding of an index that is not that of the rows."""
        return finding("E251", self.path, what, at=at, expected=expected, found=found)


Ordered = Callable[[Index, int, int], int | None]
"""The first of the keys from one number to another that is not behind the one before it; None: each is."""


def open_index(fs: Fs, path: Path, columns: Sequence[Column], labels: Sequence[str], *, contiguous: bool) -> Index:
    """The index in a directory.

    Args:
        fs: The file system.
        path: The directory.
        columns: The key columns of the location.
        labels: Their names in the index.
        contiguous: Whether each key has one range of rows.

    Returns:
        Its content, in memory.

    Raises:
        CorruptFileError: It is damaged, or has no ``table.size``.
    """
    record = table_size.load(fs, path)
    if record is None:
        raise CorruptFileError(
            "the index has no table.size",
            where=path,
            expected="a record",
            found="none",
            hint=finding("E251", path).hint,
        )
    stored = index_columns(columns, contiguous=contiguous)
    keys = [
        replace(key, name=label, forms=column.forms if key.storage is Storage.FIXED else ())
        for key, column, label in zip(stored, columns, labels, strict=False)
    ]  # an index from before a widening has the keys of that time
    rows = stored[len(keys) :]
    arrays = [read_column(fs, path, column, record.data_file_sizes, record.size) for column in (*keys, *rows)]
    return Index(path, tuple(keys), tuple(arrays[: len(keys)]), tuple(arrays[len(keys) :]))


def check_index_rows(fs: Fs, schema: TableSchema, expected: Expected, name: str, *, sidecar: bool) -> Iterator[Finding]:
    """The first finding of the index in the directory ``name``, whose files are as the merge wrote them.

    ``sidecar``: so is the one beside ``table.parquet``, if there is one.
    """
    path, stored = expected.directory / name, tuple(name.removeprefix(INDEX).split(","))
    by_name = {column.stem(expected.named_by): column.at(expected.named_by) for column in schema.stored}
    columns = [by_name.get(label) for label in stored]
    known = [column for column in columns if column is not None]
    if len(known) < len(columns):
        return  # of a column that was dropped: no read uses it
    try:
        index = open_index(fs, path, known, stored, contiguous=f"{name}/{BEGIN}{DAT}" in expected.indexes)
        rows = partial(_rows_of, fs, expected, known)
        found = next(index_findings(index, expected.rows, rows), None)
        if found is not None:
            yield found
        elif sidecar and sidecar_of(stored) in expected.indexes:
            yield from _sidecar(expected, index)
    except (SparkhavenError, OSError) as error:
        yield from_error(error, path)


def index_findings(index: Index, rows: int, values: Rows, ordered: Ordered | None = None) -> Iterator[Finding]:
    """What is wrong with an index, the first of it first.

    Args:
        index: The index.
        rows: How many rows the location has.
        values: The rows of each key column.
        ordered: Looks at the order of keys.

    Returns:
        Findings E251.
    """
    for first in range(0, len(index), KEYS):
        entry = (ordered or first_disorder)(index, first, min(first + KEYS, len(index)))
        if entry is not None:
            shown = f"[{', '.join(_shown(key[entry]) for key in index.keys)}]"
            yield index.wrong("keys of the index do not ascend", f"entry {entry}", "each behind the last", shown)
    owners = RowOwners(rows)
    for first in range(0, len(index), KEYS):
        starts, stops, counts = index.ranges(first, rows)
        if not counts.all():
            entry = first + int(np.argmin(counts))
            yield index.wrong("a key of the index has no rows", f"entry {entry}", "rows", "0")
        wrong = owners.add(first, starts, stops, counts)
        if wrong is not None:
            entry = first + int(np.searchsorted(np.cumsum(counts), wrong, side="right"))
            there = f"rows {starts[wrong]} to {stops[wrong]}"
            what = "rows of a key of the index are those of another key, or of none"
            yield index.wrong(what, f"entry {entry}", f"rows of {rows}, each once", there)
    if (row := owners.missing()) is not None:
        yield index.wrong("a row is missing in the index", f"row {row}", "each row once", "no key")
    for number, column in enumerate(index.columns):
        keys, blocks = values(number, index.keys[number])
        for first, block in blocks:
            wanted = keys.take(pa.array(owners.of(first, first + len(block))))
            differ = ~same_values(block, wanted)
            if differ.any():
                row = int(np.argmax(differ))
                what = f"a row has another {column.name} than its key in the index"
                yield index.wrong(what, f"row {first + row}", _shown(wanted[row]), _shown(block[row]))


def _rows_of(
    fs: Fs, expected: Expected, columns: Sequence[Column], number: int, keys: pa.Array
) -> tuple[pa.Array, Blocks]:
    """The rows of a column file of the location; damage ends them."""
    return keys, _blocks(fs, expected, columns[number])


def _blocks(fs: Fs, expected: Expected, column: Column) -> Iterator[tuple[int, pa.Array]]:
    sizes = {name: state.size for name, state in expected.files.items()}
    with suppress(SparkhavenError):  # reported with the column
        opened = open_column(fs, expected.directory, column, sizes, expected.rows)
        for first in range(0, expected.rows, ROWS_AT_ONCE):
            yield first, _plain(opened.read(first, min(first + ROWS_AT_ONCE, expected.rows)))


def first_disorder(index: Index, first: int, stop: int) -> int | None:
    """The first of some keys that is not behind the one before it."""
    begin = max(first - 1, 0)
    listed = [
        [_order_of(value, column.type) for value in key.slice(begin, stop - begin)]
        for key, column in zip(index.keys, index.columns, strict=True)
    ]
    orders = zip(*listed, strict=True)
    return next((begin + 1 + number for number, (one, other) in enumerate(pairwise(orders)) if not one < other), None)


def _order_of(value: pa.Scalar, kind: DataType) -> object:
    """What compares as keys are ordered."""
    plain = value.value if pa.types.is_temporal(value.type) else value.as_py()
    if kind.coding is not None:
        return () if plain is None else (plain,)
    return stored_order(plain, kind)


def _shown(key: pa.Scalar) -> str:
    """A key as findings name it: Python's own types do not hold every date and time."""
    return repr(key.cast(pa.string()).as_py() if pa.types.is_temporal(key.type) else key.as_py())


def _sidecar(expected: Expected, index: Index) -> Iterator[Finding]:
    from pyarrow.parquet import ParquetFile  # which few checks need

    names = tuple(column.name for column in index.columns)
    path = expected.directory / sidecar_of(names)
    with damage_at(path):
        stored = ParquetFile(path).read([*names, ROW_SET]).combine_chunks()
    columns = [stored.column(name).combine_chunks().cast(key.type) for name, key in zip(names, index.keys, strict=True)]
    other = Index(path, index.columns, tuple(columns), (stored.column(ROW_SET).combine_chunks(),))
    yield from sidecar_findings(other, index, expected.rows)


def sidecar_findings(other: Index, index: Index, rows: int) -> Iterator[Finding]:
    """The file that Deephaven's Parquet reader takes has the same keys and rows as the index."""
    if len(other) != len(index):
        what = "the sidecar has other keys than the index"
        yield other.wrong(what, None, f"{len(index)} keys", f"{len(other)} keys")
        return
    for own, wanted, column in zip(other.keys, index.keys, index.columns, strict=True):
        differ = ~same_values(own, wanted)
        if differ.any():
            entry = int(np.argmax(differ))
            what = f"the sidecar has another {column.name} than the index"
            yield other.wrong(what, f"entry {entry}", _shown(wanted[entry]), _shown(own[entry]))
    for first in range(0, len(other), KEYS):
        theirs, ours = (part.ranges(first, rows) for part in (other, index))
        if not all(np.array_equal(one, two) for one, two in zip(theirs, ours, strict=True)):
            what = "the sidecar has other rows than the index"
            yield other.wrong(what, f"from entry {first} on", "the same", "others")
            return


def _plain(values: pa.Array) -> pa.Array:
    return values.cast(pa.string()) if pa.types.is_dictionary(values.type) else values


def same_values(one: pa.Array, other: pa.Array) -> npt.NDArray[np.bool_]:
    """Which values are equal: null to null, NaN to NaN, and the two zeros not to each other."""
    equal = pc.fill_null(pc.equal(one, other), False).to_numpy(zero_copy_only=False)
    same: npt.NDArray[np.bool_] = equal | (np.asarray(one.is_null()) & np.asarray(other.is_null()))
    if pa.types.is_floating(one.type):
        nan = [pc.fill_null(pc.is_nan(values), False).to_numpy(zero_copy_only=False) for values in (one, other)]
        signs = [np.signbit(pc.fill_null(values, 0.0).to_numpy(zero_copy_only=False)) for values in (one, other)]
        same = (same & (signs[0] == signs[1])) | (nan[0] & nan[1])
    return same


Positions = npt.NDArray[np.int64]
NO_KEY = np.iinfo(np.uint32).max
LONG = 64  # rows a range from which on ranges are taken one by one


class RowOwners:
    """The number of the key of each of ``rows`` rows, four bytes a row."""

    def __init__(self, rows: int) -> None:
        self._owners = np.full(rows, NO_KEY, np.uint32)

    def add(self, first: int, starts: Positions, stops: Positions, counts: Positions) -> int | None:
        """Takes the ranges of keys from number ``first`` on, ``counts`` of each.

        Returns the number of a range that is empty, not one of the location, or has a row that has a key; None: of
        none.
        """
        wrong = (starts < 0) | (stops <= starts) | (stops > len(self._owners))
        if wrong.any():
            return int(np.argmax(wrong))
        lengths = stops - starts
        if int(lengths.sum()) >= LONG * len(starts):
            return self._add_long(first, starts, stops, counts)
        before = np.cumsum(lengths) - lengths
        rows = np.arange(int(lengths.sum())) + np.repeat(starts - before, lengths)
        numbers = np.repeat(np.repeat(np.arange(first, first + len(counts)), counts), lengths)
        taken = self._owners[rows] != NO_KEY
        self._owners[rows] = numbers
        taken |= self._owners[rows] != numbers
        return int(np.searchsorted(before, int(np.argmax(taken)), side="right")) - 1 if taken.any() else None

    def _add_long(self, first: int, starts: Positions, stops: Positions, counts: Positions) -> int | None:
        numbers = np.repeat(np.arange(first, first + len(counts), dtype=np.uint32), counts)
        apart = bool((starts[1:] >= stops[:-1]).all())  # then no row has two of these keys
        free = apart and len(starts) > 0 and bool((self._owners[starts[0] : stops[-1]] == NO_KEY).all())
        ranges = zip(starts.tolist(), stops.tolist(), numbers, strict=True)
        for index, (start, stop, number) in enumerate(ranges):
            rows = self._owners[start:stop]
            if not free and (rows != NO_KEY).any():
                return index
            rows[:] = number
        return None

    def missing(self) -> int | None:
        """The first row without a key; None: each has one."""
        without = self._owners == NO_KEY
        return int(np.argmax(without)) if without.any() else None

    def of(self, first: int, stop: int) -> npt.NDArray[np.uint32]:
        """The keys of some rows, by their numbers."""
        return self._owners[first:stop]
