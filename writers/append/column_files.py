"""Columns of one directory: values from decoded batches to the encoder, statistics, and files that grow by arrays.

Readers skip ranges by the statistics. Files are those of an index, an exported leaf, a location of a user table.
Nothing here syncs or commits. Whoever opens the files again does so by the lengths that were committed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sparkhaven.store.epochs.files.published_size import physical_size
from sparkhaven.store.epochs.state.statistics import clipped
from sparkhaven.store.errors import CorruptFileError, SchemaMismatchError
from sparkhaven.store.format.column.codecs import Base, encode_column
from sparkhaven.store.format.column.prefix import encode_prefix
from sparkhaven.store.format.column.region import DAT
from sparkhaven.store.format.column.symbols import FEW, used_entries
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.native.checked_columns import crc32
from sparkhaven.store.scan.column_file import nulls
from sparkhaven.store.types.codings.coding import coded_bounds
from sparkhaven.store.types.codings.string_set import plain_sets
from sparkhaven.store.types.committed_columns import FileState, RangeStats, Scalar
from sparkhaven.store.types.model import Column, Storage
from sparkhaven.writers.append.worker_cache import Ids


def cut_tails(fs: Fs, directory: Path, files: Mapping[str, FileState], hint: str | None = None) -> bool:
    """Truncates files to what is committed of them; whether one is another file by now, which its directory names.

    CorruptFileError: a file is shorter; nothing is changed.
    """
    longer: dict[Path, tuple[int, bool]] = {}
    there = fs.sizes(directory, files)
    for name, state in files.items():
        length, (size, links) = physical_size(name, state.size), there.get(name, (-1, 0))
        if size < length:
            raise CorruptFileError(
                "file is shorter than its committed length",
                where=directory / name,
                expected=f"{length} bytes",
                found="no file" if size < 0 else f"{size} bytes",
                hint=hint,
            )
        if size > length:
            longer[directory / name] = length, links > 1
    for path, (length, shared) in longer.items():
        if shared:  # a backup made of hard links has the same inode
            fs.shorten(path, length)
        else:
            fs.truncate(path, length)
    return any(shared for _, shared in longer.values())


class ColumnFiles:
    """``files``: what each has; ``touched``: paths of those that were written to."""

    def __init__(self, fs: Fs, directory: Path, columns: Sequence[Column]) -> None:
        self.fs, self.directory, self.columns = fs, directory, tuple(columns)
        self.rows = 0
        self.files: dict[str, FileState] = {}
        self.touched: dict[Path, None] = {}
        self.ids: dict[str, Ids] = {}  # by column, of its symbols

    def create(self) -> None:
        """Makes the directory, with files without rows."""
        self.fs.mkdirs(self.directory)
        for column in self.columns:
            for name in column.files:
                self.fs.write_new(self.directory / name, encode_prefix(column) if name.endswith(DAT) else b"")
                self.files[name] = FileState(0, 0)
                self.touched[self.directory / name] = None

    def append(self, arrays: Sequence[pa.Array]) -> None:
        """Writes rows, an array for each column; all are encoded before the first byte is written."""
        parts: list[tuple[str, memoryview]] = []
        for column, array in zip(self.columns, arrays, strict=True):
            sizes, ids = {name: self.files[name].size for name in column.files}, self.ids.setdefault(column.name, {})
            encoded = encode_column(column, array, Base(self.rows, sizes, ids))
            parts += encoded.parts.items()
            ids.update(zip(encoded.symbols, range(len(ids), len(ids) + len(encoded.symbols)), strict=True))
        for name, data in parts:
            if not len(data):
                continue
            path, state = self.directory / name, self.files[name]
            self.fs.write_at(path, physical_size(name, state.size), data)
            self.files[name] = FileState(state.size + len(data), crc32(data, state.crc))
            self.touched[path] = None
        self.rows += len(arrays[0])


def column_values(column: Column, batches: Sequence[pa.RecordBatch], name: str | None = None) -> pa.Array:
    """The values of a column in all batches as one array in its type: of symbols, if they are not ``FEW``, a
    dictionary; others may be one.

    Null where a batch has no such column; ``name``: what batches call it, by default its own. SchemaMismatchError:
    another type, a bug of the decoder.
    """
    text = column.type.name == "String"
    arrays = []
    for batch in batches:
        index = batch.schema.get_field_index(name or column.name)
        array = batch.column(index) if index >= 0 else nulls(column, batch.num_rows)
        value_type = array.type.value_type if text and pa.types.is_dictionary(array.type) else array.type
        if value_type != column.type.arrow and not (text and pa.types.is_large_string(value_type)):
            raise SchemaMismatchError(
                "decoded rows have another type than the table",
                where=f"column {column.name}",
                expected=f"{column.type.arrow} for {column.type.name}",
                found=array.type,
                hint="report it: this is a bug of the feed's decoder, not of the data",
            )
        arrays.append(array)
    if column.storage is Storage.SYMBOL:
        arrays = _without_texts(arrays)
    if len({array.type for array in arrays}) > 1:
        arrays = [array.cast(pa.large_string()) for array in arrays]
    if column.storage is Storage.SET:  # which has no null
        arrays = [plain_sets(array) if array.null_count else array for array in arrays]
    values = pa.chunked_array(arrays)
    if pa.types.is_dictionary(values.type):
        values = values.unify_dictionaries()
    elif column.storage is Storage.SYMBOL and len(values) > FEW:
        # once, for symbol ids and statistics; texts are never put together
        values = pc.dictionary_encode(values)
    return values.chunk(0) if values.num_chunks == 1 else values.combine_chunks()


def _without_texts(arrays: list[pa.Array]) -> list[pa.Array]:
    """Those that have no text, as their decoder may give them, in the type of one that has some."""
    full = next((array for array in arrays if array.null_count < len(array)), None)
    if full is None or not pa.types.is_dictionary(full.type):
        return arrays
    return [array if array.null_count < len(array) else nulls_like(full, len(array)) for array in arrays]


def nulls_like(array: pa.Array, count: int) -> pa.Array:
    if pa.types.is_dictionary(array.type):
        indices = pa.nulls(count, array.type.index_type)
        return pa.DictionaryArray.from_arrays(indices, array.dictionary)
    return pa.nulls(count, array.type)


def range_stats(values: pa.Array, start: int, *, texts: bool = True) -> RangeStats:
    """Statistics of ``values`` as rows ``[start, start + len)``; NaNs are counted apart and are no bound.

    ``texts`` False: texts stand for numbers, whose order is another one, and have no bounds.
    """
    base = RangeStats(start, start + len(values), nulls=values.null_count)
    if base.nulls == len(values):
        return base
    kind = values.type
    if pa.types.is_dictionary(kind) and len(values) > FEW:
        entries = values.dictionary
        used = used_entries(values.indices, len(entries))
        return _strings(base, entries if len(used) == len(entries) else pc.take(entries, pa.array(used)))
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_dictionary(kind):
        return _strings(base, values) if texts else base
    if pa.types.is_floating(kind):
        return _floats(base, values)
    if pa.types.is_timestamp(kind):
        numbers = values.view(pa.int64())
        return replace(_bounded(base, numbers), exact_us=_whole_microseconds(numbers))
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        return _bounded(base, values)
    bounds = coded_bounds(values)
    return base if bounds is None else replace(base, low=bounds[0], high=bounds[1])


def _bounded(base: RangeStats, values: pa.Array) -> RangeStats:
    if len(values) <= FEW:
        plain = [value for value in values.to_pylist() if value is not None]
        return replace(base, low=min(plain, default=None), high=max(plain, default=None))
    bounds = pc.min_max(values)
    return replace(base, low=_plain(bounds["min"]), high=_plain(bounds["max"]))


def _plain(value: pa.Scalar) -> Scalar | None:
    plain: Scalar | None = value.as_py()
    return plain


def _strings(base: RangeStats, values: pa.Array) -> RangeStats:
    return clipped(_bounded(base, values))


def _floats(base: RangeStats, values: pa.Array) -> RangeStats:
    if len(values) <= FEW:
        plain = [value for value in values.to_pylist() if value is not None]
        numbers = [value for value in plain if value == value]  # a NaN is not equal to itself
        nans = len(plain) - len(numbers)
        return replace(base, nans=nans, low=min(numbers, default=None), high=max(numbers, default=None))
    nan = pc.is_nan(values)
    nans = pc.sum(nan).as_py() or 0
    if not nans:
        return _bounded(base, values)
    base = replace(base, nans=nans)
    if nans + base.nulls == len(values):
        return base
    return _bounded(base, pc.filter(values, pc.invert(nan)))


def _whole_microseconds(numbers: pa.Array) -> bool:
    raw = (pc.drop_null(numbers) if numbers.null_count else numbers).to_numpy()
    return np.array_equal(raw // 1000 * 1000, raw)  # a remainder takes five times as long
