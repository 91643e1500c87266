"""The rows that a rule reads: the locations of a date, block by block, one array of cells per column.

A cell is a number, or the id of a distinct value. Of columns with a codec each distinct value of a block is decoded
once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sparkhaven.store.errors import CorruptFileError
from sparkhaven.store.format.column.coded import blob_values, decoded_entries
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.types.codings.coding import BlobCoding, FixedCoding, entry_values
from sparkhaven.store.types.codings.string_set import decode_sets
from sparkhaven.store.types.datatypes import DataType
from sparkhaven.store.types.model import Column, Kind, Storage, TableSchema
from sparkhaven.store.types.null_char import as_written
from sparkhaven.writers.merge.sources.merge_source import SIZES, ColumnSource, MergeSource
from sparkhaven.writers.merge.sources.parquet_source import open_source
from sparkhaven.writers.merge.sources.sort_keys import INT_NULL, rank_lut, sorted_symbols
from sparkhaven.writers.merge.write.row_order import to_arrow

Mask = npt.NDArray[np.bool_]
SWITCHES = ("removeNull", "removeNaN", "removeInf")


class NotEvaluatedError(Exception):
    """A rule that cannot be evaluated here; the text says why."""


def utf16_key(text: str) -> bytes:
    """Orders texts by UTF-16 code unit."""
    return text.encode("utf-16-be", "surrogatepass")


def plain_decimal(value: Decimal) -> str:
    """A decimal without exponent and without zeros at its end."""
    text = f"{value:f}"
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return "0" if text == "-0" else text


def plain_values(array: pa.Array, type_: DataType) -> list[Any]:
    """Values that compare as those of the column do: dates and times as ISO texts, decimals as Decimal."""
    if type_.name in ("LocalDate", "LocalTime"):
        array = array.cast(pa.string())
    elif type_.name in ("BigDecimal", "BigInteger") and pa.types.is_string(array.type):
        return [None if text is None else Decimal(text) for text in array.to_pylist()]
    values: list[Any] = array.to_pylist()
    return values


@dataclass(slots=True)
class Dictionary:
    """Distinct values that ids point to; results for each of them are cached. Null entries are null values."""

    values: pa.Array
    type: DataType
    _kept: dict[object, npt.NDArray[Any]] = field(default_factory=dict)

    def results(self, key: object, make: Callable[[list[Any]], Any]) -> npt.NDArray[Any]:
        """``make(values)`` as an array, one entry per value; computed once for every ``key``."""
        if key not in self._kept:
            self._kept[key] = np.asarray(make(self.plain()))
        return self._kept[key]

    def plain(self, ids: Sequence[int] | npt.NDArray[Any] | None = None) -> list[Any]:
        """As ``plain_values``, of the entries ``ids`` or of all."""
        return plain_values(self.values if ids is None else self.values.take(pa.array(ids, pa.int64())), self.type)

    @property
    def ranks(self) -> npt.NDArray[np.int32]:
        """Place of each value in the order of the column: texts by UTF-16 code unit. Equal values have one."""
        if "ranks" not in self._kept:
            text = self.type.coding is None
            self._kept["ranks"] = (
                rank_lut(self.values, sorted_symbols([self.values]))[:-1] if text else self._value_ranks()
            )
        return self._kept["ranks"]

    def _value_ranks(self) -> npt.NDArray[np.int32]:
        values = self.plain()
        ranks = {value: rank for rank, value in enumerate(sorted({v for v in values if v is not None}))}
        return np.array([ranks.get(value, 0) for value in values], np.int32)


@dataclass(frozen=True, slots=True)
class Cells:
    """A column of a block: raw numbers as they lie in the file, or ids into a dictionary of values."""

    column: Column
    null: Mask
    numbers: npt.NDArray[Any] | None = None
    ids: npt.NDArray[np.int32] | None = None
    dictionary: Dictionary | None = None

    @property
    def nan(self) -> Mask:
        return self._where(np.isnan)

    @property
    def infinite(self) -> Mask:
        return self._where(np.isinf)

    def _where(self, test: Callable[[Any], Mask]) -> Mask:
        if self.numbers is None or self.numbers.dtype.kind != "f":
            return np.zeros(len(self.null), bool)
        return test(self.numbers)

    @property
    def distinct(self) -> tuple[npt.NDArray[np.int32], Dictionary]:
        """Ids and their dictionary, of a column that has no numbers."""
        assert self.ids is not None and self.dictionary is not None  # noqa: S101
        return self.ids, self.dictionary

    @property
    def shared(self) -> bool:
        """Whether all blocks of a location have the same dictionary, or numbers."""
        return self.numbers is not None or not self.column.files or self.column.files[-1].endswith(".sym.bytes")

    def results(self, key: object, make: Callable[[list[Any]], Any]) -> npt.NDArray[Any]:
        """What ``make`` gives for the value of each row; rows of nulls hold anything. Not for numbers."""
        ids, dictionary = self.distinct
        results = dictionary.results(key, make)
        return results[ids] if len(results) else np.zeros(len(ids), bool)  # then every row is null

    def counts(self, keep: Mask) -> npt.NDArray[np.int64]:
        """How many rows of ``keep`` have each value of the dictionary."""
        ids, dictionary = self.distinct
        return np.bincount(ids[keep & ~self.null], minlength=len(dictionary.values))

    def whole_numbers(self) -> npt.NDArray[Any] | None:
        """Numbers, or times of day in nanoseconds; None for others."""
        if self.numbers is not None or self.column.type.name != "LocalTime":
            return self.numbers
        ids, dictionary = self.distinct
        times = dictionary.values.view(pa.int64()).fill_null(0).to_numpy()
        return times[ids] if len(times) else np.zeros(len(ids), np.int64)

    def arrow(self) -> pa.Array:
        if self.numbers is not None:
            return to_arrow(self.numbers, self.column)
        ids, dictionary = self.distinct
        if self.column.type.coding is not None:
            return dictionary.values.take(pa.array(ids, mask=self.null))
        return pa.DictionaryArray.from_arrays(pa.array(ids, mask=self.null), dictionary.values)


def coded_cells(opened: ColumnSource, column: Column, first: int, stop: int) -> Cells:
    """Rows ``[first, stop)`` of a column with a codec. CorruptFileError: bytes stand for no value."""
    if column.storage is Storage.SET:
        words, codes = np.unique(opened.entries(first, stop), return_inverse=True)
        sets = decode_sets(words, opened.symbols(), _where(opened, column, first))
        return _cells(column, sets, codes)
    if column.type.fixed is not None:
        encoded = entry_values(opened.entries(first, stop), column.type.fixed)
    else:
        encoded = opened.blobs(first, stop)
    coded = encoded.dictionary_encode()
    codes = coded.indices.fill_null(len(coded.dictionary)).to_numpy()
    values = _decoded(opened, column, coded.dictionary, codes, first)
    return _cells(column, pa.concat_arrays([values, pa.nulls(1, values.type)]), codes)  # the last one is null


def _cells(column: Column, values: pa.Array, codes: npt.NDArray[Any]) -> Cells:
    ids = codes.astype(np.int32)
    null = np.asarray(values.is_null())[ids] if values.null_count else np.zeros(len(ids), bool)
    return Cells(column, null, ids=ids, dictionary=Dictionary(values, column.type))


def _decoded(
    opened: ColumnSource, column: Column, encoded: pa.LargeBinaryArray, codes: npt.NDArray[Any], first: int
) -> pa.Array:
    """The values of distinct bytes."""
    _, offsets, data = encoded.buffers()
    ends = np.frombuffer(offsets, np.int64, len(encoded) + 1) if len(encoded) else np.zeros(1, np.int64)
    octets = np.frombuffer(data, np.uint8, int(ends[-1])) if data is not None else np.empty(0, np.uint8)
    coding = column.type.coding
    if isinstance(coding, FixedCoding):
        values, bad = decoded_entries(octets.reshape(-1, coding.width), coding)
    else:
        assert isinstance(coding, BlobCoding)  # noqa: S101
        values, bad = blob_values(ends, pa.py_buffer(octets), coding)
    if bad is not None:
        raise CorruptFileError(
            "bytes stand for no value of the column's codec",
            where=_where(opened, column, first + int(np.argmax(codes == bad))),
            expected=coding.domain,
            found=encoded[bad].as_py()[:40].hex(" "),
        )
    return values


def _where(opened: ColumnSource, column: Column, row: int) -> str:
    return f"{opened.source.directory / column.files[0]}, row {row}"


@dataclass(frozen=True, slots=True)
class CellBlock:
    """Rows that follow each other in one location, the ``location``-th; ``first`` is the row of the first of them."""

    location: int
    first: int
    rows: int
    cells: Mapping[str, Cells]

    def kept(self, names: Sequence[str], attributes: Mapping[str, str]) -> Mask:
        """The rows that the switches of a rule leave: those without null, NaN, infinity in the named columns."""
        keep = np.ones(self.rows, bool)
        for name in names:
            cells = self.cells[name]
            for switch, odd in zip(SWITCHES, ("null", "nan", "infinite"), strict=True):
                if attributes.get(switch) == "true":
                    keep &= ~getattr(cells, odd)
        return keep

    def batch(self, names: Sequence[str]) -> pa.RecordBatch:
        return pa.record_batch([self.cells[name].arrow() for name in names], names=list(names))


@dataclass(frozen=True, slots=True)
class PassSizes:
    """How much a rule holds at once: ``rows`` that are read, distinct ``hashes``, ``groups`` with their last value."""

    rows: int = SIZES.rows
    hashes: int = 2 << 20  # 24 bytes each, and as much again while they are combined
    groups: int = 2 << 20


PASS = PassSizes()


@dataclass(frozen=True, slots=True)
class RowSet:
    """The rows of a date in some locations. ``blocks`` may be called as often as it takes: nothing is kept."""

    fs: Fs
    schema: TableSchema
    value: str
    sources: tuple[MergeSource, ...]
    sizes: PassSizes = PASS

    @property
    def rows(self) -> int:
        return sum(len(source) for source in self.sources)

    def column(self, name: str) -> Column:
        """A column that a rule names. NotEvaluatedError if the table has none."""
        column = self.schema.column(name)
        if column is None:
            raise NotEvaluatedError(f"the table has no column {name}")
        return column

    def each(self) -> Iterator[RowSet]:
        for source in self.sources:
            yield replace(self, sources=(source,))

    def symbols(self, column: Column) -> Iterator[tuple[MergeSource, pa.Array]]:
        for source in self.sources:
            yield source, open_source(self.fs, source, column).symbols()

    def blocks(self, names: Sequence[str]) -> Iterator[CellBlock]:
        columns = [self.column(name) for name in dict.fromkeys(names)]
        for index, source in enumerate(self.sources):
            readers = [_reader(self.fs, source, column, self.value) for column in columns]
            for first, stop in source.blocks(self.sizes.rows):
                cells = {column.name: read(first, stop) for column, read in zip(columns, readers, strict=True)}
                yield CellBlock(index, first, stop - first, cells)


_Read = Callable[[int, int], Cells]


def _reader(fs: Fs, source: MergeSource, column: Column, value: str) -> _Read:
    if column.kind is Kind.PARTITIONING:
        whole = Dictionary(pa.array([value], pa.string()), column.type)
        return lambda first, stop: _texts(column, np.zeros(stop - first, np.int32), whole)
    opened = open_source(fs, source, as_written(column))
    if column.type.coding is not None:
        return lambda first, stop: coded_cells(opened, column, first, stop)
    if column.storage is Storage.SYMBOL:
        table = Dictionary(opened.symbols().cast(pa.string()), column.type)
        return lambda first, stop: _texts(column, opened.ids(first, stop, len(table.values)), table)
    if column.storage is Storage.BLOB:
        return lambda first, stop: _blob(column, opened.texts(first, stop))
    return lambda first, stop: _fixed(column, opened.entries(first, stop))


def _texts(column: Column, ids: npt.NDArray[np.int32], table: Dictionary) -> Cells:
    null = ids == INT_NULL
    ids = np.where(null, 0, ids)
    if table.values.null_count:  # a symbol without bytes reads as null
        null |= np.asarray(table.values.is_null())[ids]
    return Cells(column, null, ids=ids, dictionary=table)


def _blob(column: Column, texts: pa.Array) -> Cells:
    coded = texts.cast(pa.string()).dictionary_encode()
    ids = pc.fill_null(coded.indices, int(INT_NULL)).to_numpy(zero_copy_only=False)
    return _texts(column, ids, Dictionary(coded.dictionary, column.type))


def _fixed(column: Column, entries: npt.NDArray[Any]) -> Cells:
    null = entries == entries.dtype.type(column.type.null)
    if column.type.name == "Boolean":  # any other byte reads as true
        entries = np.where((entries == 0) | null, entries, 1).astype(entries.dtype)
    return Cells(column, null, numbers=entries)
