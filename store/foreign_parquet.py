"""Record batches of a Parquet file that others wrote, bounded by rows and by bytes, old timestamps read exactly.

How wide rows are is known from the file's own figures, except where texts come from a dictionary: there a few bytes on
disk may be gigabytes of texts. So the dictionaries of such columns are looked at first, and a column whose texts might
be too many at once is read as a dictionary and cut by the bytes that each row has. Wide texts next to short ones are
known from no figure: where a column has so many bytes that they might be too many at once, a few rows are read at a
time.

INT96, a day and nanoseconds within it, reaches further than 64 bits of nanoseconds do. It is read twice: as
nanoseconds, which wrap, and as milliseconds, which cannot; where the two differ, the milliseconds are true.

Columns have their logical types (``store.conversions.conversion_table``), and no views. Dates and instants are those of
today's calendar (``store.conversions.hybrid_calendar``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sparkhaven.store.conversions.conversion_table import as_logical, logical_schema, old_timestamps
from sparkhaven.store.conversions.hybrid_calendar import (
    HybridCalendar,
    UnsureInstants,
    hybrid_calendar,
    in_todays_calendar,
    rows_with,
)
from sparkhaven.store.delta.snapshot import MappedField
from sparkhaven.store.format.parquet.footer import checked_chunks
from sparkhaven.store.io.open_files import Seekable

if TYPE_CHECKING:
    from pyarrow.parquet import ColumnChunkMetaData, FileMetaData, ParquetFile

BATCH_ROWS = 1 << 16
BATCH_BYTES = 16 << 20
SPREAD = 4  # times ``BATCH_BYTES`` that texts of a dictionary may take before they are read as a dictionary
FEW_ROWS = 256  # read at a time of a column whose texts may be uneven
BUFFER = 1 << 20  # bytes of a column that are fetched at a time
_MS_NS = 1_000_000


@dataclass(frozen=True, slots=True)
class ParquetBatch:
    """Rows of a file. ``far`` has, in ms, the rows of a column with a timestamp that nanoseconds do not reach, or null.

    ``old`` names the columns of type INT96 whose writer does not say whether they are instants. ``written``: the rows
    as they came, where some columns are of another type in ``rows``. ``unsure``: rows whose instant is in doubt, since
    the zone of its writer is not UTC, or not known.
    """

    rows: pa.RecordBatch
    far: Mapping[str, pa.TimestampArray] = field(default_factory=dict)
    old: frozenset[str] = frozenset()
    written: pa.RecordBatch | None = None
    unsure: Mapping[str, UnsureInstants] = field(default_factory=dict)

    def slice(self, start: int, count: int) -> ParquetBatch:
        far = {name: a.slice(start, count) for name, a in self.far.items()}
        unsure = {name: a.slice(start, count) for name, a in self.unsure.items()}
        written = None if self.written is None else self.written.slice(start, count)
        return ParquetBatch(self.rows.slice(start, count), far, self.old, written, unsure)

    def where(self, wanted: npt.NDArray[np.bool_]) -> ParquetBatch:
        """The rows that are wanted."""
        if wanted.all():
            return self
        mask = pa.array(wanted)
        far = {name: a.filter(mask) for name, a in self.far.items()}
        unsure = {name: a.filter(mask) for name, a in self.unsure.items()}
        written = None if self.written is None else self.written.filter(mask)
        return ParquetBatch(self.rows.filter(mask), far, self.old, written, unsure)

    def fields(self, row: int) -> dict[str, pa.Scalar]:
        rows = self.rows if self.written is None else self.written
        scalars = {name: rows.column(name)[row] for name in rows.schema.names}
        return scalars | {name: array[row] for name, array in self.far.items() if array[row].is_valid}


class ForeignParquet:
    """The rows of a file, or of the row groups that begin in ``part`` of it, from row ``first_row`` (from 1) on.

    ``stream`` opens its ``size`` bytes. ``utc96``: timestamps of type INT96, which has no zone, are instants in UTC,
    whoever wrote them; else the footer decides (``store.conversions.conversion_table``). ``batch_bytes``: of a batch at
    most, unless it is one row. ``verify_pages``: pages are compared with the checksums that they have.
    pa.ArrowInvalid or OSError: no Parquet file, or a damaged one.
    """

    def __init__(
        self,
        stream: Callable[[], Seekable],
        size: int,
        *,
        utc96: bool = False,
        part: tuple[int, int] | None = None,
        batch_bytes: int = BATCH_BYTES,
        verify_pages: bool = False,
    ) -> None:
        self._stream, self._batch_bytes, self._verify_pages = stream, batch_bytes, verify_pages
        self._file = self._open(None)
        self._metadata = checked_chunks(self._file.metadata, size)
        self._groups = self._groups_of(part)
        before = range(self._groups[0]) if self._groups else ()
        self.first_row = 1 + self._rows_of(before)
        self._old = old_timestamps(self._file, instants=utc96)
        self._calendar = hybrid_calendar(self._metadata.metadata)
        self._written = logical_schema(self._file, self._old)
        self._fields = {name: MappedField(name) for name in self._written.names}

    def rename(self, logical: Callable[[pa.Schema], Sequence[MappedField | None]]) -> None:
        """Calls its columns as their table does, which does not have some of them."""
        fields = dict(zip(self._written.names, logical(self._file.schema_arrow), strict=True))
        self._fields = {name: field for name, field in fields.items() if field is not None}
        self._written = pa.schema([field for field in self._written if field.name in self._fields])

    @property
    def declared(self) -> pa.Schema:
        """Names and types of its columns; names may repeat."""
        pairs = [(self._fields[field.name], field.type) for field in self._written]
        return pa.schema([pa.field(field.name, field.kind(kind)) for field, kind in pairs])

    @property
    def rows(self) -> int:
        """How many there are, as the footer says."""
        return self._rows_of(self._groups)

    def _rows_of(self, groups: Iterable[int]) -> int:
        return sum(self._metadata.row_group(group).num_rows for group in groups)

    @property
    def writer(self) -> str:
        return str(self._metadata.created_by or "")

    @property
    def twice(self) -> list[str]:
        """Names that more than one column has, in order."""
        return [name for name, count in Counter(self.declared.names).items() if count > 1]

    def batches(self, names: Sequence[str] | None) -> Iterator[ParquetBatch]:
        """Rows in order, with the columns of these names (None: all).

        Of columns with one name the second is called ``name (2)``, and so on.
        """
        chosen = {field.name for field in self._fields.values()} if names is None else set(names)
        wanted = [name for name in self._written.names if self._name(name) in chosen]
        wide = self._wide(wanted)
        file = self._again(read_dictionary=wide) if wide else self._file
        size = self._batch_rows(wanted, wide)
        twice = self.twice
        old = sorted(n for n in wanted if self._name(n) not in twice and self._is_old(n))
        exact = _Portions(self._again(coerce_int96_timestamp_unit="ms"), old, size, self._groups) if old else None
        few = min(size, FEW_ROWS) if self._uneven(wanted, wide) else size
        read = file.iter_batches(batch_size=few, row_groups=self._groups, columns=wanted, use_threads=False)
        plain = (self._plain(rows) for rows in read)
        for rows in plain if few == size or wide else _joined(plain, size, self._batch_bytes):
            whole = ParquetBatch(rows) if exact is None else self._exact(rows, exact.take(rows.num_rows))
            if self._calendar is not None:
                whole = self._in_todays_calendar(whole, self._calendar)
            for start, stop in _cuts(rows, self._batch_bytes):
                yield whole.slice(start, stop - start) if stop - start < rows.num_rows else whole

    def groups(self) -> Iterator[ForeignParquet]:
        """Each row group by itself."""
        for group in self._groups:
            one = copy(self)
            one._groups = [group]
            yield one

    def _groups_of(self, part: tuple[int, int] | None) -> list[int]:
        every = range(self._metadata.num_row_groups)
        return [group for group in every if part is None or part[0] <= self._begin(group) < part[1]]

    def _begin(self, group: int) -> int:
        """Where the pages of a row group begin; one without columns is of the first part."""
        row_group = self._metadata.row_group(group)
        pages = (row_group.column(index) for index in range(row_group.num_columns))
        return min((page.dictionary_page_offset or page.data_page_offset for page in pages), default=0)

    def _again(self, **options: object) -> ParquetFile:
        """The file, to be read otherwise; its footer is not parsed again, which each row group may ask for."""
        return self._open(self._metadata, **options)

    def _open(self, metadata: FileMetaData | None, **options: object) -> ParquetFile:
        from pyarrow.parquet import ParquetFile  # which few commands need

        return ParquetFile(
            pa.PythonFile(self._stream(), mode="r"),
            metadata=metadata,
            buffer_size=BUFFER,
            arrow_extensions_enabled=False,
            page_checksum_verification=self._verify_pages,
            **options,
        )

    def _plain(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """A batch without views, with UUIDs as such, and with a name of its own for each column."""
        names, repeated = rows.schema.names, Counter(self._written.names)
        kinds = [a.type if repeated[n] > 1 else self._written.field(n).type for n, a in zip(names, rows, strict=True)]
        fields = [self._fields[name] for name in names]
        arrays = [f.array(as_logical(array, kind)) for f, array, kind in zip(fields, rows, kinds, strict=True)]
        return record_batch(arrays, told_apart([field.name for field in fields]), rows.num_rows)

    def _is_old(self, name: str) -> bool:
        """Whether a column has timestamps of type INT96, itself or inside of it."""
        inside = pa.types.is_nested(self._written.field(name).type)
        return name in self._old.columns or (inside and any(path.startswith(f"{name}.") for path in self._old.columns))

    def _name(self, name: str) -> str:
        """Of a column of the file, that of the table."""
        return self._fields[name].name

    def _exact(self, rows: pa.RecordBatch, true: pa.Table) -> ParquetBatch:
        """Old timestamps with their zone, and those that wrapped beside them."""
        far: dict[str, pa.TimestampArray] = {}
        for name in true.column_names:
            zone, name_in_rows = "UTC" if name in self._old.instants else None, self._name(name)
            index = rows.schema.get_field_index(name_in_rows)
            ns, ms = rows.column(index), self._fields[name].array(true[name].combine_chunks())
            wrapped, nested = _wrapped(ns, ms), pa.types.is_nested(ns.type)
            if wrapped.any():
                there = pc.if_else(pa.array(wrapped), ms, pa.scalar(None, ms.type))
                far[name_in_rows] = there if nested else there.view(pa.timestamp("ms", zone))
            if not nested:
                rows = rows.set_column(index, name_in_rows, ns.view(pa.timestamp("ns", zone)))
        return ParquetBatch(rows, far, frozenset(map(self._name, self._old.unknown & self._fields.keys())))

    def _in_todays_calendar(self, batch: ParquetBatch, calendar: HybridCalendar) -> ParquetBatch:
        arrays, unsure = [], {}
        old = {self._name(name) for name in self._old.columns & self._fields.keys()}
        for name, column in zip(batch.rows.schema.names, batch.rows, strict=True):
            array, doubt = in_todays_calendar(column, calendar, int96=name in old)
            arrays.append(array)
            if doubt is not None:
                unsure[name] = UnsureInstants(pa.array(doubt), calendar.zone)
        far = {name: in_todays_calendar(array, calendar, int96=True)[0] for name, array in batch.far.items()}
        rows = record_batch(arrays, batch.rows.schema.names, batch.rows.num_rows)
        return ParquetBatch(rows, far, batch.old, unsure=unsure)

    def _chunks(self, names: Sequence[str]) -> Iterator[tuple[int, int, ColumnChunkMetaData]]:
        """Row group, its rows, and one of its columns."""
        wanted = set(names)
        for group in self._groups:
            row_group = self._metadata.row_group(group)
            for index in range(row_group.num_columns):
                column = row_group.column(index)
                if row_group.num_rows and column.path_in_schema.partition(".")[0] in wanted:
                    yield group, row_group.num_rows, column

    def _batch_rows(self, names: Sequence[str], wide: Sequence[str]) -> int:
        widths: dict[int, float] = {}
        for group, rows, column in self._chunks(names):
            if column.path_in_schema not in wide:
                widths[group] = widths.get(group, 0.0) + column.total_uncompressed_size / rows
        return max(1, min(BATCH_ROWS, int(self._batch_bytes / max(*widths.values(), 1.0, 1.0))))

    def _wide(self, names: Sequence[str]) -> list[str]:
        """Text columns whose dictionaries have texts so wide that a batch of them might not fit."""
        wide: dict[str, None] = {}
        for group, rows, column in self._chunks(names):
            name, most = column.path_in_schema, min(rows, BATCH_ROWS)
            text = column.physical_type == "BYTE_ARRAY" and column.has_dictionary_page
            if not text or name in wide or name not in names:
                continue
            spread = SPREAD * self._batch_bytes
            if column.total_uncompressed_size * most > spread and self._widest(group, name) * most > spread:
                wide[name] = None
        return list(wide)

    def _uneven(self, names: Sequence[str], wide: Sequence[str]) -> bool:
        """Whether a column that is read as it is has so many bytes of texts that a few rows may be most of them."""
        return any(
            column.physical_type == "BYTE_ARRAY" and column.total_uncompressed_size > SPREAD * self._batch_bytes
            for _, _, column in self._chunks(names)
            if column.path_in_schema not in wide
        )

    def _widest(self, group: int, name: str) -> int:
        """Bytes of the longest text in the dictionary of a column."""
        file = self._again(read_dictionary=[name])
        head = next(file.iter_batches(batch_size=1, row_groups=[group], columns=[name], use_threads=False), None)
        if head is None or not pa.types.is_dictionary(head.column(0).type):
            return 0
        return pc.max(pc.binary_length(head.column(0).dictionary)).as_py() or 0


def _wrapped(ns: pa.Array, ms: pa.Array) -> npt.NDArray[np.bool_]:
    """Which rows have a timestamp that nanoseconds do not reach, also inside of lists, maps and structs."""
    kind, kinds = ns.type, pa.types
    if kinds.is_timestamp(kind):
        counts = (array.view(pa.int64()).fill_null(0).to_numpy() for array in (ns, ms))
        differ: npt.NDArray[np.bool_] = next(counts) // _MS_NS != next(counts)
        return differ
    wrapped = np.zeros(len(ns), np.bool_)
    if kinds.is_struct(kind):
        for one, other in zip(ns.flatten(), ms.flatten(), strict=True):
            wrapped |= _wrapped(one, other)
    elif kinds.is_map(kind) or kinds.is_list(kind) or kinds.is_large_list(kind):
        one, other = (array.take(pa.array(np.arange(len(array)))) for array in (ns, ms))  # no values of other rows
        if kinds.is_map(kind):
            return rows_with(one, _wrapped(one.keys, other.keys) | _wrapped(one.items, other.items))
        return rows_with(one, _wrapped(one.values, other.values))
    return wrapped


class _Portions:
    """Columns of a file, taken in portions of any number of rows."""

    def __init__(self, file: ParquetFile, names: Sequence[str], size: int, groups: list[int]) -> None:
        self._batches = file.iter_batches(batch_size=size, row_groups=groups, columns=list(names), use_threads=False)
        self._held: list[pa.RecordBatch] = []

    def take(self, count: int) -> pa.Table:
        """The next rows."""
        while sum(batch.num_rows for batch in self._held) < count:
            batch = next(self._batches, None)
            if batch is None:
                raise pa.ArrowInvalid("columns of different numbers of rows")
            self._held.append(batch)
        table = pa.Table.from_batches(self._held)
        self._held = table.slice(count).to_batches()
        return table.slice(0, count)


def _joined(batches: Iterator[pa.RecordBatch], most: int, most_bytes: int) -> Iterator[pa.RecordBatch]:
    """Batches put together as long as they have at most so many rows and bytes."""
    waiting: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        if waiting and (rows + batch.num_rows > most or size + batch.nbytes > most_bytes):
            yield from pa.Table.from_batches(waiting).combine_chunks().to_batches()
            waiting, rows, size = [], 0, 0
        waiting.append(batch)
        rows, size = rows + batch.num_rows, size + batch.nbytes
    if waiting:
        yield from pa.Table.from_batches(waiting).combine_chunks().to_batches()


def _cuts(rows: pa.RecordBatch, most_bytes: int) -> Iterator[tuple[int, int]]:
    """Where to cut a batch so that the texts of its dictionaries stay small; a single row is never cut."""
    sizes: npt.NDArray[np.int64] = np.zeros(rows.num_rows, np.int64)
    for column in rows.columns:
        if pa.types.is_dictionary(column.type) and _has_bytes(column.type.value_type):
            lengths = pc.binary_length(column.dictionary).cast(pa.int64()).take(column.indices).fill_null(0)
            sizes += lengths.to_numpy(zero_copy_only=False)
    ends = np.cumsum(sizes)
    start = 0
    while start < rows.num_rows:
        before = ends[start - 1] if start else 0
        stop = max(start + 1, int(np.searchsorted(ends, before + most_bytes, side="right")))
        yield start, stop
        start = stop


def record_batch(arrays: Sequence[pa.Array], names: Sequence[str], rows: int) -> pa.RecordBatch:
    """A batch of so many rows, also where it has no column."""
    if arrays:
        return pa.RecordBatch.from_arrays(arrays, names)
    return pa.RecordBatch.from_struct_array(pa.StructArray.from_buffers(pa.struct([]), rows, [None]))


def told_apart(names: Sequence[str]) -> list[str]:
    """Names of columns, of which one that is there already becomes ``name (2)``, and so on."""
    counts: Counter[str] = Counter()
    distinct = []
    for name in names:
        counts[name] += 1
        distinct.append(name if counts[name] == 1 else f"{name} ({counts[name]})")
    return distinct


def _has_bytes(kind: pa.DataType) -> bool:
    kinds = pa.types
    return bool(
        kinds.is_string(kind) or kinds.is_large_string(kind) or kinds.is_binary(kind) or kinds.is_large_binary(kind)
    )
