"""``Index-<Cols>`` of a historical location: which rows have which keys.

It is a table of column files with one row a key, ascending, null first. ``dh_begin_pos`` and ``dh_end_pos`` are the
one range of rows of each key of a grouping column. Any other index has ``dh_row_set``, the rows of each key.
Sizes and checksums are those of the merge record. An index that is missing, damaged or not of this form is none.

Keys are stored in this order: null, numbers with NaN last, texts by UTF-16 code unit. Values of a codec compare by
their bytes. Each stored key is one of its own in this order. A literal may equal several, which then stand side by
side: both zeros.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from functools import lru_cache
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sparkhaven.store.errors import SparkhavenError
from sparkhaven.store.expressions.predicate.nodes import Key
from sparkhaven.store.format.column.charset import charset
from sparkhaven.store.format.column.codecs import codec_for
from sparkhaven.store.format.column.prefix import DATA_OFFSET, LITTLE, charset_of, encode_prefix
from sparkhaven.store.format.column.region import BYTES, DAT, Region
from sparkhaven.store.format.parquet.footer import ROW_SET_CODEC
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import BEGIN, END, ROW_SET, index_of
from sparkhaven.store.native.codings import encode_entries
from sparkhaven.store.scan.checksums import Checks
from sparkhaven.store.types.codings.coding import FixedCoding, Mask, Octets
from sparkhaven.store.types.codings.row_set import decode_rows
from sparkhaven.store.types.committed_columns import FileState
from sparkhaven.store.types.datatypes import BY_NAME, DataType, data_type
from sparkhaven.store.types.model import Column, Kind, Storage
from sparkhaven.store.types.row_ranges import RowRanges

Order = Any  # what compares as the keys are ordered
NO_KEY = b"\x02"  # in the place of a literal that no value of a codec equals
_EXACT = Context(prec=100)


def key_order(key: Key, data_type: DataType) -> Order:
    """A value or literal as what is compared; a char is its code unit, an Instant its nanoseconds."""
    name = data_type.name
    if name == "String":
        return b"" if key is None else b"\x01" + str(key).encode("utf-16-be", "surrogatepass")
    if name in ("float", "double"):
        if key is None:
            return 0, 0.0
        return (2, 0.0) if isinstance(key, float) and math.isnan(key) else (1, key)
    if name == "char":
        return 0 if key is None else key + 1  # type: ignore[operator]
    return data_type.null if key is None else key


def stored_order(key: Key, data_type: DataType) -> Order:
    """A stored key as what is compared: of the two zeros the negative one is first."""
    order = key_order(key, data_type)
    if data_type.name not in ("float", "double"):
        return order
    return *order, not isinstance(key, float) or key != 0 or math.copysign(1, key) > 0


class Keys(Sequence[Order]):
    """The keys of one column."""

    @abstractmethod
    def orders(self, keys: Sequence[Key]) -> list[tuple[Order, Order]]:
        """The least and the greatest key that equals each literal, as what compares with the keys."""

    def equal(self, span: tuple[int, int], order: tuple[Order, Order]) -> tuple[int, int]:
        """Those of the entries ``[start, stop)``, which ascend, whose key equals a literal."""
        low = bisect_left(self, order[0], *span)
        return low, bisect_right(self, order[1], low, span[1])

    def runs(self, start: int, stop: int) -> Iterator[tuple[int, int]]:
        """The entries ``[start, stop)``, which ascend, in parts that have one key each."""
        while start < stop:
            end = bisect_right(self, self[start], start, stop)
            yield start, end
            start = end

    def ascend(self) -> bool:
        """Whether each key is behind the one before it."""
        return all(one < other for one, other in pairwise(self))


class FixedKeys(Keys):
    """Entries of plain numbers."""

    def __init__(self, entries: npt.NDArray[Any], data_type: DataType) -> None:
        self._entries, self._type = entries, data_type

    def __len__(self) -> int:
        return len(self._entries)

    def __getitem__(self, index: int) -> Order:  # type: ignore[override]
        value = self._entries[index].item()
        if self._type.name in ("float", "double", "char"):
            return stored_order(None if value == self._type.null else value, self._type)
        return value

    def orders(self, keys: Sequence[Key]) -> list[tuple[Order, Order]]:
        floating = self._type.name in ("float", "double")
        pairs = [(-0.0, 0.0) if floating and key == 0 else (key, key) for key in keys]
        return [(stored_order(low, self._type), stored_order(high, self._type)) for low, high in pairs]

    def ascend(self) -> bool:
        keys = self._entries
        if len(keys) and keys[0] == keys.dtype.type(self._type.null):
            keys = keys[1:]
        before, after = keys[:-1], keys[1:]
        if keys.dtype.kind != "f":
            return bool((after > before).all())
        zeros = (after == 0) & (before == 0) & np.signbit(before) & ~np.signbit(after)
        last = np.isnan(after) & ~np.isnan(before)
        return bool(((after > before) | zeros | last).all())


class CodedKeys(Keys):
    """Entries of a codec whose bytes are ordered as its values are."""

    def __init__(self, data: pa.Buffer, coding: FixedCoding) -> None:
        self._data, self._coding = memoryview(data), coding

    def __len__(self) -> int:
        return len(self._data) // self._coding.width

    def __getitem__(self, index: int) -> Order:  # type: ignore[override]
        width = self._coding.width
        entry = bytes(self._data[index * width : (index + 1) * width])
        return b"" if entry == self._coding.null else b"\x01" + entry

    def orders(self, keys: Sequence[Key]) -> list[tuple[Order, Order]]:
        entries, absent = self._entries(keys)
        orders = [
            b"" if key is None else NO_KEY if none else b"\x01" + entry.tobytes()
            for key, entry, none in zip(keys, entries, absent, strict=True)
        ]
        return [(order, order) for order in orders]

    def _entries(self, keys: Sequence[Key]) -> tuple[Octets, Mask]:
        """Entries of literals, which are whole numbers, and which of them no value equals."""
        kind = self._coding.arrow
        low, high = _range_of(kind)
        units = [key if isinstance(key, int) and low <= key <= high else None for key in keys]
        if pa.types.is_decimal(kind):
            values = [None if unit is None else Decimal(unit).scaleb(-kind.scale, _EXACT) for unit in units]
            array = pa.array(values, kind)
        else:
            array = pa.array(units, pa.int32() if pa.types.is_date32(kind) else pa.int64()).view(kind)
        bad = self._coding.unstorable(array)
        if bad is not None:
            array = pc.if_else(pa.array(bad), None, array)
        entries = encode_entries(array, self._coding)
        assert entries is not None  # noqa: S101
        return entries, np.asarray(array.is_null())


def _range_of(kind: pa.DataType) -> tuple[int, int]:
    """The least and the largest of the numbers that stand for values of a type."""
    if pa.types.is_decimal(kind):
        return 1 - 10**kind.precision, 10**kind.precision - 1
    bits = 31 if pa.types.is_date32(kind) else 63
    return -(2**bits), 2**bits - 1


class TextKeys(Keys):
    """Texts as they lie in the files of a column without symbol table."""

    def __init__(self, ends: npt.NDArray[np.int64], data: pa.Buffer, encoding: str) -> None:
        self._ends, self._data = ends, memoryview(data)
        row = charset(encoding)
        self._codec, self._bom = row.codec, row.bom

    def __len__(self) -> int:
        return len(self._ends)

    def __getitem__(self, index: int) -> Order:  # type: ignore[override]
        start = int(self._ends[index - 1]) if index else 0
        octets = bytes(self._data[start : int(self._ends[index])])
        if not octets:
            return b""
        if octets == b"\x00":
            return b"\x01"
        codec = self._codec
        if self._bom and octets[:2] in (b"\xfe\xff", b"\xff\xfe"):
            codec, octets = ("utf-16-be" if octets[0] == 0xFE else "utf-16-le"), octets[2:]
        return b"\x01" + octets.decode(codec, "surrogatepass").encode("utf-16-be", "surrogatepass")

    def orders(self, keys: Sequence[Key]) -> list[tuple[Order, Order]]:
        orders = [b"" if key is None else b"\x01" + str(key).encode("utf-16-be", "surrogatepass") for key in keys]
        return [(order, order) for order in orders]


MOST_KEYS = 1 << 12  # row sets that one lookup decodes
KEPT = 1 << 12  # indexes of which it is remembered that their keys ascend
_ordered: OrderedDict[tuple[str, int], bool] = OrderedDict()


def key_columns(columns: Sequence[Column]) -> list[Column]:
    """The key columns of an index. Keys are distinct, so texts need no symbol table."""
    return [_key_column(column, number) for number, column in enumerate(columns, 1)]


def index_columns(columns: Sequence[Column], *, contiguous: bool) -> list[Column]:
    """All columns of an index over these; ``contiguous``: each key has one range of rows."""
    number = len(columns) + 1
    return [*key_columns(columns), *(_range_columns(number) if contiguous else (_row_set_column(number),))]


def is_contiguous(names: Sequence[str], grouped: Mapping[str, bool]) -> bool:
    """Whether an index over these columns has one range a key: that of a column that is grouped there."""
    return len(names) == 1 and grouped.get(names[0], False)


def _key_column(column: Column, number: int) -> Column:
    storage = Storage.FIXED if column.storage is Storage.FIXED else Storage.BLOB
    encoding = charset_of(column) if storage is Storage.BLOB else None
    codec = (column.codec, column.codec_args, column.codec_width)
    return Column(column.name, column.type, Kind.NORMAL, storage, number, encoding, *codec)


def _range_columns(first: int) -> tuple[Column, Column]:
    """The positions of the keys of a grouping column; ``first``: the number of the first of the two."""
    long = BY_NAME["long"]
    return (
        Column(BEGIN, long, Kind.NORMAL, Storage.FIXED, first),
        Column(END, long, Kind.NORMAL, Storage.FIXED, first + 1),
    )


def _row_set_column(number: int) -> Column:
    codec, kind = ROW_SET_CODEC
    return Column(ROW_SET, data_type(kind, opaque=True), Kind.NORMAL, Storage.BLOB, number, codec=codec)


_prefix = lru_cache(maxsize=256)(encode_prefix)


@dataclass(frozen=True, slots=True)
class IndexFile:
    """An open index: the keys by column, and what gives the rows of its entries ``[low, high)``."""

    directory: Path
    keys: tuple[Keys, ...]
    positions: tuple[Region, ...]
    rows: int

    def find(self, wanted: Sequence[Sequence[Key]]) -> RowRanges | None:
        """Rows whose first keys are one of each of these; None: they are too many to be looked up.

        Keys of a further column ascend only where those before it are the same. So each span is cut where they change.
        CorruptFileError: positions are not those of rows of the location.
        """
        spans = [(0, len(self.keys[0]))]
        for number, keys in enumerate(wanted):
            column = self.keys[number]
            if number:
                runs = (run for span in spans for run in self.keys[number - 1].runs(*span))
                spans = list(islice(runs, MOST_KEYS + 1))
            if len(spans) > MOST_KEYS:
                return None
            orders = column.orders(keys)
            parts = (column.equal(span, order) for span in spans for order in orders)
            spans = list(islice(((low, high) for low, high in parts if low < high), MOST_KEYS + 1))
            if len(spans) > MOST_KEYS:
                return None
        if sum(high - low for low, high in spans) > MOST_KEYS:
            return None
        pairs = [self._rows_of(low, high) for low, high in sorted(set(spans))]
        starts, stops = ([pair[side] for pair in pairs] or [np.empty(0, np.int64)] for side in (0, 1))
        return RowRanges.joined(np.concatenate(starts), np.concatenate(stops))

    def _rows_of(self, low: int, high: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        if len(self.positions) == 2:
            starts, stops = (np.frombuffer(part.entries(low, high), "<i8") for part in self.positions)
            return starts, stops
        sets = codec_for(self.positions[0].column).open(self.positions[0])(low, high, None).to_pylist()
        ranges = [decode_rows(data, self.directory, self.rows) for data in sets]
        return np.concatenate([one[0] for one in ranges]), np.concatenate([one[1] for one in ranges])


def index_files(columns: Sequence[Column], files: Mapping[str, FileState]) -> tuple[str, list[str]]:
    """The name of the index over these columns, and those of ``files`` that it has."""
    name = index_of(tuple(column.name for column in columns))
    return name, [file for file in files if file.startswith(f"{name}/")]


def open_index(
    fs: Fs, location: Path, columns: Sequence[Column], files: Mapping[str, FileState], rows: int, checks: Checks
) -> IndexFile | None:
    """The index over these columns of a location of ``rows`` rows; None where there is none to be used."""
    name = index_of(tuple(column.name for column in columns))
    contiguous = f"{name}/{BEGIN}{DAT}" in files
    stored = index_columns(columns, contiguous=contiguous)
    try:
        regions = [_region(fs, location, name, column, files, checks) for column in stored]
    except (SparkhavenError, OSError, KeyError):
        return None
    opened = [region for region in regions if region is not None]
    if len(opened) < len(regions) or len({region.rows for region in opened}) > 1:
        return None
    key_values = tuple(_keys_of(region) for region in opened[: len(columns)])
    index = IndexFile(location / name, key_values, tuple(opened[len(columns) :]), rows)
    if contiguous and not (_ascends(index, files[f"{name}/{stored[0].files[0]}"]) and _in_bounds(index)):
        return None
    return index


def _region(
    fs: Fs, location: Path, name: str, column: Column, files: Mapping[str, FileState], checks: Checks
) -> Region | None:
    """The bytes of a column of an index, compared with their checksums; None: it has another form."""
    mapped = {}
    for file in column.files:
        state, path = files[f"{name}/{file}"], location / name / file
        mapped[file] = fs.map(path, state.size)
        checks.require(fs, path, mapped[file], state.crc)
    dat = mapped.pop(column.files[0])
    if bytes(memoryview(dat)[:DATA_OFFSET]) != _prefix(column):
        return None
    data = dat.slice(DATA_OFFSET)
    others = {file.removeprefix(column.name): part for file, part in mapped.items()}
    where = str(location / name / column.files[0])
    return Region(column, where, LITTLE, data.size // column.width, data, others)


def _keys_of(region: Region) -> Keys:
    if (coding := region.column.type.fixed) is not None:
        return CodedKeys(region.dat, coding)
    if region.column.storage is Storage.FIXED:
        return FixedKeys(np.frombuffer(region.dat, region.column.type.numpy), region.column.type)
    ends = np.frombuffer(region.dat, "<i8") if region.rows else np.empty(0, "<i8")
    return TextKeys(ends, region.companions[BYTES], charset_of(region.column))


def _ascends(index: IndexFile, state: FileState) -> bool:
    """Whether the keys ascend, which other writers need not promise."""
    known = (str(index.directory), state.crc)
    if known not in _ordered:
        (keys,) = index.keys
        _ordered[known] = keys.ascend()
        while len(_ordered) > KEPT:
            _ordered.popitem(last=False)
    return _ordered[known]


def _in_bounds(index: IndexFile) -> bool:
    starts, stops = (np.frombuffer(part.dat, "<i8") if part.rows else np.empty(0, "<i8") for part in index.positions)
    return bool((starts >= 0).all() and (starts < stops).all() and (stops <= index.rows).all())
