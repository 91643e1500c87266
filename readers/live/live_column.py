"""The values of one column of one location, for an engine: straight from the mapped files.

Numbers, chars and Instants are the bytes of the file, nulls as the distinguished values that lie there: no copy, no
validity bitmap. Deephaven has the same ones. All others are Arrow arrays with validity, those with a codec as
``live_values`` says. Symbols are decoded once; a table of symbols that has grown costs its new ones only. Of history
that has only ``table.parquet``, row groups are decoded as they are asked for, with validity.

Columns with a codec as an engine has them: the field of a column, and its values.

=======================  ==================================================  =======================
column                   Arrow                                               in the engine
=======================  ==================================================  =======================
LocalDate, LocalTime     date32, time64[ns]                                  LocalDate, LocalTime
BigDecimal, BigInteger   decimals; without bounds binary: a BigDecimal's      BigDecimal, BigInteger
                         scale (little-endian, four bytes), then the number
                         as two's complement
byte[], boolean[], others binary                                             byte[]
Instant[]                lists of nanoseconds, since the engine reads no      long[]
                         lists of timestamps
arrays, sets of texts    lists                                               arrays; String[]
=======================  ==================================================  =======================

The names of Java's types stand in the metadata of a field, where the engine looks for them.

What an engine cannot take is refused when the table is opened.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from sparkhaven.store import next_steps
from sparkhaven.store.errors import SettingsError, UnsupportedVersionError
from sparkhaven.store.format.column.charset import WIDTH, StoredEnds, decode_values
from sparkhaven.store.format.column.codecs import codec_for
from sparkhaven.store.format.column.prefix import LITTLE, charset_of
from sparkhaven.store.format.column.region import SYM, SYM_BYTES, Region
from sparkhaven.store.format.column.symbols import decode_rows
from sparkhaven.store.io.fs import MAP_FROM, Fs
from sparkhaven.store.layout import PARQUET, in_parquet
from sparkhaven.store.native.checked_columns import check_ids
from sparkhaven.store.scan.checksums import Checks
from sparkhaven.store.scan.column_file import (
    ColumnFile,
    WrittenColumn,
    committed_column,
    map_region,
    nulls,
    open_parquet,
)
from sparkhaven.store.scan.selection import refuse_case_twins
from sparkhaven.store.types.codings.decimals import encoded_number
from sparkhaven.store.types.committed_columns import FileState
from sparkhaven.store.types.datatypes import CHAR_NULL
from sparkhaven.store.types.model import Column, Storage, TableSchema, same_form
from sparkhaven.store.types.null_char import has_other_null

_WORDS = (
    "abstract|assert|boolean|break|byte|case|catch|char|class|const|continue|default|do|double|else|enum|extends|"
    "false|final|finally|float|for|goto|if|implements|import|instanceof|int|interface|long|native|new|null|"
    "package|private|protected|public|return|short|static|strictfp|super|switch|synchronized|this|throw|throws|"
    "transient|true|try|void|volatile|while|in|not|i|ii|k"
)
RESERVED = frozenset(_WORDS.split("|"))  # Java's, and those of Deephaven's query language


@dataclass(frozen=True, slots=True)
class ServedSchema:
    """Arrow schemas of the stored columns and of the partitioning column, and the stored columns themselves."""

    data: pa.Schema
    partition: pa.Schema
    columns: tuple[Column, ...]

    def column(self, name: str) -> Column:
        return next(column for column in self.columns if column.name == name)

    def known_as(self, deployed: TableSchema) -> ServedSchema:
        """These columns, with the names that their files have by a later version of the schema."""
        stems = {c.id: c.stems or ((1, c.name),) for c in (*deployed.columns, *deployed.retired)}
        later = tuple(replace(column, stems=stems.get(column.id, column.stems)) for column in self.columns)
        return ServedSchema(self.data, self.partition, later)


def served_schema(schema: TableSchema) -> ServedSchema:
    """UnsupportedVersionError: a column has a type that cannot be served. SettingsError: a name that engines refuse.

    SchemaMismatchError: two names differ in case only.
    """
    read = next_steps.read(schema.full_name)
    refuse_case_twins(schema.full_name, schema.columns, "clients of an engine", read)
    for column in schema.columns:
        if column.name in RESERVED:
            raise SettingsError(
                f"column {column.name} of {schema.full_name} cannot be served. Its name is reserved",
                expected="no word of Java or of Deephaven's query language",
                found=column.name,
                hint=f"name the other tables, or read this one: `sparkhaven read {schema.full_name}`",
            )
    data = pa.schema([live_field(column) for column in schema.stored])
    by = schema.partitioning
    partition = pa.schema([pa.field(by.name, pa.string())] if by else [])
    return ServedSchema(data, partition, schema.stored)


_TYPE, _COMPONENT = "deephaven:type", "deephaven:componentType"
_ELEMENTS = {
    pa.uint16(): "char",
    pa.int16(): "short",
    pa.int32(): "int",
    pa.int64(): "long",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.string(): "java.lang.String",
}
_FLAGS = pa.list_(pa.bool_())
_MOMENTS, _LONGS = pa.list_(pa.timestamp("ns", "UTC")), pa.list_(pa.int64())
_SCALE = 4  # bytes


def live_field(column: Column) -> pa.Field:
    """Name, Arrow type and Java type of a column. UnsupportedVersionError: engines have no type for it."""
    kind, kinds = column.type.arrow, pa.types
    if column.type.coding is None:
        return pa.field(column.name, kind)
    if kinds.is_map(kind):
        raise UnsupportedVersionError(
            f"column {column.name} has type {column.type.name}, for which an engine has no column",
            where=f"column {column.name}",
            expected="any type but a map",
            found=column.type.name,
            hint="`open_table` gives the column. Serve a table without it",
        )
    if kinds.is_string(kind):
        return _field(column.name, pa.binary(), column.type.java)
    if kinds.is_binary(kind) or kind == _FLAGS:
        return _field(column.name, pa.binary(), "byte[]", "byte")
    if kinds.is_list(kind):
        kind = _LONGS if kind == _MOMENTS else kind
        element = _ELEMENTS[kind.value_type]
        return _field(column.name, kind, f"{element}[]", element)
    return _field(column.name, kind, column.type.java)


def _field(name: str, kind: pa.DataType, java: str, component: str | None = None) -> pa.Field:
    return pa.field(name, kind, metadata={_TYPE: java} | ({_COMPONENT: component} if component else {}))


def live_values(array: pa.Array, column: Column, kind: pa.DataType) -> pa.Array:
    """Values of a column as readers have them in the type of its field."""
    if array.type == kind:
        return array
    if column.type.coding is not None and pa.types.is_string(array.type):
        whole = column.type.name == "BigInteger"
        numbers = [None if text is None else encoded_number(text, whole) for text in array.to_pylist()]
        return pa.array([None if data is None else _in_engine(data, whole) for data in numbers], kind)
    if array.type == _FLAGS:  # an engine reads no arrays of Booleans
        return pa.array([None if flags is None else bytes(flags) for flags in array.to_pylist()], kind)
    return array.cast(kind)


def _in_engine(number: bytes, whole: bool) -> bytes:
    """A number as its codec has it, in the engine's form."""
    return number[_SCALE:] if whole else number[:_SCALE][::-1] + number[_SCALE:]


_NO_TEXTS = pa.array([], pa.string())
_CHECKING = threading.Lock()  # the memory of checksums is one of the process, and not thread-safe


@dataclass(frozen=True, slots=True)
class Plain:
    """Rows of a mapped column as an engine has them: their bytes, and for a column of symbols the texts by number."""

    rows: int
    data: pa.Buffer
    texts: pa.Array


class LiveColumn:
    """One column in one location. ``map`` takes committed bytes, ``read`` gives rows of them; both may be called from
    any thread."""

    def __init__(self, fs: Fs, directory: Path, column: Column, checks: Checks | None) -> None:
        self._fs, self._directory, self._column, self._checks = fs, directory, column, checks
        self._stored = column  # as the files have it, in an earlier form where the column was widened
        self._type = live_field(column).type
        self._lock = threading.Lock()
        self._written: WrittenColumn | None = None
        self._region: Region | None = None
        self._files: Mapping[str, FileState] = {}
        self._data: dict[str, pa.Buffer] = {}
        self._checked = True
        self._parquet: ColumnFile | None = None
        self._texts, self._symbols, self._end = _NO_TEXTS, 0, 0
        self.rows = -1

    @property
    def memory(self) -> int:
        """Bytes in memory, about: copies of small files, and the texts of symbols."""
        return sum(d.size for name, d in self._data.items() if d.size < MAP_FROM or name.endswith(SYM_BYTES))

    def map(self, rows: int, files: Mapping[str, FileState]) -> None:
        """Maps the committed bytes of ``rows`` rows; no effect where it has as many. Nothing is decoded yet.

        FileNotFoundError, CorruptFileError: the files are no longer there, or shorter. The caller checks afterwards
        that the location was not replaced before this call.
        """
        with self._lock:
            if rows <= self.rows:
                return
            fs, directory, named = self._fs, self._directory, self._column.within(files)
            if in_parquet(files):
                sizes = {PARQUET: files[PARQUET].size}
                self._parquet = open_parquet(fs, directory, sizes, rows, check=self._keep).column(self._column)
                self._checked = False
            elif named.files[0] in files:
                written = self._written or committed_column(fs, directory / named.files[0], named)
                sizes = {name: files[name].size for name in named.files if name in files}
                region = map_region(fs, directory, written, sizes, rows)
                self._written, self._region, self._data, self._checked = written, region, region.files, False
                self._stored = written.column
            self._files, self.rows = files, rows

    def _keep(self, path: Path, data: pa.Buffer) -> None:
        self._data = {path.name: data}

    def read(self, start: int, stop: int) -> pa.Array:
        """Rows ``[start, stop)`` of those that are mapped; a column that was not stored there has no values.

        CorruptFileError: the bytes are not those that were committed.
        """
        with self._lock:
            if not 0 <= start <= stop <= self.rows:
                raise IndexError(f"rows [{start}, {stop}) of {self.rows}")
            if self._parquet is not None:
                self._check()
                array = self._parquet.read(start, stop)
                return self._live(array.dictionary_decode() if pa.types.is_dictionary(array.type) else array)
            region = self._region
            if region is None or start == stop:
                return self._live(nulls(self._column, stop - start))
            self._check()
            if self._stored.storage is Storage.SYMBOL:
                self._take_symbols(region)
                texts, where = self._texts, region.where
                symbols = decode_rows(region.entries(start, stop), texts, region.order, where, first_row=start)
                return self._live(symbols.dictionary_decode())
        if (
            self._widened
            or self._column.type.coding is not None
            or self._column.storage is Storage.BLOB
            or pa.types.is_boolean(self._type)
        ):
            return self._live(codec_for(self._stored).open(region)(start, stop, None))
        entries = region.entries(start, stop)
        if region.order != LITTLE:
            swapped = np.frombuffer(entries, np.dtype(self._column.type.numpy).newbyteorder(">"))
            entries = pa.py_buffer(swapped.astype(swapped.dtype.newbyteorder("=")))
        if has_other_null(self._column):  # an engine has one null only
            units = np.frombuffer(entries, np.uint16)
            entries = pa.py_buffer(np.where(units == self._column.type.null, np.uint16(CHAR_NULL), units))
        return pa.Array.from_buffers(self._type, stop - start, [None, entries], 0)

    def plain(self, start: int, stop: int) -> Plain | None:
        """Rows ``[start, stop)`` of those that are mapped, without a copy; None: the file is small and not mapped,
        has another byte order, or other values than an engine. Raises what ``read`` raises.
        """
        with self._lock:
            if not 0 <= start <= stop <= self.rows:
                raise IndexError(f"rows [{start}, {stop}) of {self.rows}")
            region = self._region
            mapped = region is not None and region.order == LITTLE and region.dat.size >= MAP_FROM
            if region is None or not mapped or self._widened or has_other_null(self._column):
                return None
            self._check()
            data = region.entries(start, stop)
            if self._column.storage is not Storage.SYMBOL:
                return Plain(stop - start, data, _NO_TEXTS)
            self._take_symbols(region)
            checked = check_ids(np.frombuffer(data, np.int32), len(self._texts)) is not None
            return Plain(stop - start, data, self._texts) if checked else None

    @property
    def _widened(self) -> bool:
        return not same_form(self._stored, self._column)

    def _live(self, array: pa.Array) -> pa.Array:
        return live_values(array, self._column, self._type)

    def _check(self) -> None:
        if self._checks is not None and not self._checked:
            with _CHECKING:
                for name, data in self._data.items():
                    self._checks.require(self._fs, self._directory / name, data, self._files[name].crc)
        self._checked = True

    def _take_symbols(self, region: Region) -> None:
        sym, text = region.companions[SYM], region.companions[SYM_BYTES]
        count = sym.size // WIDTH
        if count <= self._symbols:
            return
        first, where = self._symbols, region.companion_path(SYM)
        stored = sym.slice(first * WIDTH, (count - first) * WIDTH)
        ends = StoredEnds(stored, self._end, region.order, where, first).decode(text.size)
        fresh = decode_values(
            text.slice(self._end, int(ends[-1]) - self._end),
            ends - self._end,
            charset_of(self._column),
            lambda index: f"{where}, entry {first + index}",
        )
        self._texts = fresh if not first else pa.concat_arrays([self._texts, fresh.cast(self._texts.type)])
        self._symbols, self._end = count, int(ends[-1])
