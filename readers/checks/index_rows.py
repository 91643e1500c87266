"""Deep check of the indexes of a location: keys ascend, and each row is once in them, with the key that it has.

Sizes and checksums of their files are checked before. This is about an index that was written wrong: a filtered read
would miss rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sparkhaven.readers.checks.column_values import BLOCK, Expected
from sparkhaven.readers.checks.findings import CheckFinding, finding, from_error
from sparkhaven.store import next_steps
from sparkhaven.store.errors import CorruptFileError, SparkhavenError
from sparkhaven.store.format.column.region import DAT
from sparkhaven.store.format.parquet.location_files import BEGIN, INDEX, ROW_SET, sidecar_of
from sparkhaven.store.format.table import table_size
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.scan.column_file import open_column, read_column
from sparkhaven.store.scan.index_file import index_columns, stored_order
from sparkhaven.store.scan.parquet_file import damage_at
from sparkhaven.store.scan.row_owners import RowOwners
from sparkhaven.store.types.codings.row_ranges_codec import decode_sets
from sparkhaven.store.types.datatypes import DataType
from sparkhaven.store.types.model import Column, Storage, TableSchema

KEYS = 1 << 14  # that are looked at together
Ranges = tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64]]


@dataclass(frozen=True, slots=True)
class _Index:
    """The content of one index: key columns, and where each key is, as ranges or as row sets."""

    path: Path
    columns: tuple[Column, ...]
    keys: tuple[pa.Array, ...]
    places: tuple[pa.Array, ...]

    def ranges(self, first: int, rows: int) -> Ranges:
        """First rows and ends of the ranges of ``KEYS`` keys, and how many each has. CorruptFileError: no row set."""
        own = [part.slice(first, KEYS) for part in self.places]
        if len(own) == 2:
            starts, stops = (part.to_numpy(zero_copy_only=False) for part in own)
            return starts, stops, np.ones(len(starts), np.int64)
        sets = [data or b"" for data in own[0].to_pylist()]
        return decode_sets(sets, lambda number: f"{self.path}, entry {first + number}", rows)


def check_index_rows(
    fs: Fs, schema: TableSchema, expected: Expected, name: str, *, sidecar: bool
) -> Iterator[CheckFinding]:
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
        index = _open(fs, path, known, stored, contiguous=f"{name}/{BEGIN}{DAT}" in expected.indexes)
        found = next(_rows(fs, expected, index, known), None)
        if found is not None:
            yield found
        elif sidecar and sidecar_of(stored) in expected.indexes:
            yield from _sidecar(expected, index)
    except (SparkhavenError, OSError) as error:
        yield from_error(error, path)


def _open(fs: Fs, path: Path, columns: Sequence[Column], labels: Sequence[str], *, contiguous: bool) -> _Index:
    record = table_size.load(fs, path)
    if record is None:
        raise CorruptFileError(
            "the index has no table.size", where=path, expected="a record", found="none", hint=_again(path)
        )
    stored = index_columns(columns, contiguous=contiguous)
    keys = [
        replace(key, name=label, forms=column.forms if key.storage is Storage.FIXED else ())
        for key, column, label in zip(stored, columns, labels, strict=False)
    ]  # an index from before a widening has the keys of that time
    rows = stored[len(keys) :]
    arrays = [read_column(fs, path, column, record.data_file_sizes, record.size) for column in (*keys, *rows)]
    return _Index(path, tuple(keys), tuple(arrays[: len(keys)]), tuple(arrays[len(keys) :]))


def _rows(fs: Fs, expected: Expected, index: _Index, columns: Sequence[Column]) -> Iterator[CheckFinding]:
    """What is wrong with an index, the first of it first."""
    yield from _order(index)
    count, owners = len(index.keys[0]), RowOwners(expected.rows)
    for first in range(0, count, KEYS):
        starts, stops, counts = index.ranges(first, expected.rows)
        if not counts.all():
            yield _finding(
                index, "a key of the index has no rows", f"entry {first + int(np.argmin(counts))}", "rows", "0"
            )
        wrong = owners.add(first, starts, stops, counts)
        if wrong is not None:
            entry = first + int(np.searchsorted(np.cumsum(counts), wrong, side="right"))
            there = f"rows {starts[wrong]} to {stops[wrong]}"
            what = "rows of a key of the index are those of another key, or of none"
            yield _finding(index, what, f"entry {entry}", f"rows of {expected.rows}, each once", there)
    if (row := owners.missing()) is not None:
        yield _finding(index, "a row is missing in the index", f"row {row}", "each row once", "no key")
    for first, stop, block in _blocks(fs, expected, columns):
        numbers = pa.array(owners.of(first, stop))
        for column, key, values in zip(columns, index.keys, block, strict=True):
            wanted = key.take(numbers)
            differ = ~_same(values, wanted)
            if differ.any():
                row = int(np.argmax(differ))
                what = f"a row has another {column.name} than its key in the index"
                yield _finding(index, what, f"row {first + row}", _shown(wanted[row]), _shown(values[row]))


def _blocks(fs: Fs, expected: Expected, columns: Sequence[Column]) -> Iterator[tuple[int, int, list[pa.Array]]]:
    """Rows of the location, with the numbers of the first and of the one after the last; damage ends them."""
    sizes = {name: state.size for name, state in expected.files.items()}
    with suppress(SparkhavenError):  # reported with the column
        opened = [open_column(fs, expected.directory, column, sizes, expected.rows) for column in columns]
        for first in range(0, expected.rows, BLOCK):
            stop = min(first + BLOCK, expected.rows)
            yield first, stop, [_plain(column.read(first, stop)) for column in opened]


def _order(index: _Index) -> Iterator[CheckFinding]:
    before: list[object] | None = None
    for first in range(0, len(index.keys[0]), KEYS):
        listed = [
            [_order_of(value, column.type) for value in key.slice(first, KEYS)]
            for key, column in zip(index.keys, index.columns, strict=True)
        ]
        orders: list[list[object]] = [list(parts) for parts in zip(*listed, strict=True)]
        for number, (one, other) in enumerate(pairwise([*([before] if before else []), *orders])):
            if not one < other:
                entry = first + number + (0 if before else 1)
                shown = f"[{', '.join(_shown(key[entry]) for key in index.keys)}]"
                yield _finding(
                    index, "keys of the index do not ascend", f"entry {entry}", "each behind the last", shown
                )
        before = orders[-1]


def _order_of(value: pa.Scalar, kind: DataType) -> object:
    """What compares as keys are ordered."""
    plain = value.value if pa.types.is_temporal(value.type) else value.as_py()
    if kind.coding is not None:
        return () if plain is None else (plain,)
    return stored_order(plain, kind)


def _shown(key: pa.Scalar) -> str:
    """A key as findings name it: Python's own types do not hold every date and time."""
    return repr(key.cast(pa.string()).as_py() if pa.types.is_temporal(key.type) else key.as_py())


def _sidecar(expected: Expected, index: _Index) -> Iterator[CheckFinding]:
    """The file that Deephaven's Parquet reader takes has the same keys and rows."""
    from pyarrow.parquet import ParquetFile  # which few checks need

    names = tuple(column.name for column in index.columns)
    path = expected.directory / sidecar_of(names)
    with damage_at(path):
        stored = ParquetFile(path).read([*names, ROW_SET]).combine_chunks()
    columns = [stored.column(name).combine_chunks().cast(key.type) for name, key in zip(names, index.keys, strict=True)]
    other = _Index(path, index.columns, tuple(columns), (stored.column(ROW_SET).combine_chunks(),))
    if stored.num_rows != len(index.keys[0]):
        found = f"{stored.num_rows} keys"
        yield _finding(other, "the sidecar has other keys than the index", "", f"{len(index.keys[0])} keys", found)
        return
    for own, wanted, column in zip(other.keys, index.keys, index.columns, strict=True):
        differ = ~_same(own, wanted)
        if differ.any():
            entry = int(np.argmax(differ))
            what = f"the sidecar has another {column.name} than the index"
            yield _finding(other, what, f"entry {entry}", _shown(wanted[entry]), _shown(own[entry]))
    for first in range(0, stored.num_rows, KEYS):
        theirs, ours = (part.ranges(first, expected.rows) for part in (other, index))
        if not all(np.array_equal(one, two) for one, two in zip(theirs, ours, strict=True)):
            yield _finding(
                other, "the sidecar has other rows than the index", f"from entry {first} on", "the same", "others"
            )
            return


def _plain(values: pa.Array) -> pa.Array:
    return values.cast(pa.string()) if pa.types.is_dictionary(values.type) else values


def _same(one: pa.Array, other: pa.Array) -> npt.NDArray[np.bool_]:
    """Which values are equal: null to null, NaN to NaN."""
    equal = pc.fill_null(pc.equal(one, other), False).to_numpy(zero_copy_only=False)
    same: npt.NDArray[np.bool_] = equal | (np.asarray(one.is_null()) & np.asarray(other.is_null()))
    if pa.types.is_floating(one.type):
        nan = [pc.fill_null(pc.is_nan(values), False).to_numpy(zero_copy_only=False) for values in (one, other)]
        same |= nan[0] & nan[1]
    return same


def _finding(index: _Index, what: str, at: str, expected: object, found: object) -> CheckFinding:
    return finding("error", index.path, what, at=at or None, expected=expected, found=found, hint=_again(index.path))


def _again(path: Path) -> str:
    return f"{next_steps.merge_again_at(path)}. Until then read without --where"
