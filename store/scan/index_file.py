"""``Index-<Cols>`` of a historical location: which rows have which keys.

It is a table of column files with one row a key, ascending, null first. ``dh_begin_pos`` and ``dh_end_pos`` are the
one range of rows of each key of a grouping column. Any other index has ``dh_row_set``, the rows of each key.
Sizes and checksums are those of the merge record. An index that is missing, damaged or not of this form is none.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from pathlib import Path

import numpy as np
import numpy.typing as npt

from sparkhaven.store.errors import SparkhavenError
from sparkhaven.store.expressions.predicate.lookups import Key
from sparkhaven.store.format.column.codecs import codec_for
from sparkhaven.store.format.column.prefix import DATA_OFFSET, LITTLE, charset_of, encode_prefix
from sparkhaven.store.format.column.region import BYTES, DAT, Region
from sparkhaven.store.format.parquet.footer import ROW_SET_CODEC
from sparkhaven.store.format.parquet.location_files import BEGIN, END, ROW_SET, index_of
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.scan.checksums import Checks
from sparkhaven.store.scan.index_keys import CodedKeys, FixedKeys, Keys, TextKeys
from sparkhaven.store.types.codings.row_ranges_codec import decode_rows
from sparkhaven.store.types.committed_columns import FileState
from sparkhaven.store.types.datatypes import BY_NAME, data_type
from sparkhaven.store.types.model import Column, Kind, Storage
from sparkhaven.store.types.row_ranges import RowRanges

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
    """Whether the keys ascend, which earlier releases did not promise of a second grouping column."""
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
