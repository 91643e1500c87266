"""A snapshot of a table, read as Arrow: intraday, history, or both as one table with each row once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from html import escape
from typing import Any

import pyarrow as pa

from sparkhaven.readers.arrow.export import cell_values, nested_text
from sparkhaven.readers.arrow.pinned_table import BATCH_ROWS, Names, PinnedTable
from sparkhaven.readers.arrow.slices import arrow_type
from sparkhaven.store.argument_types import checked_calls
from sparkhaven.store.epochs.recovery.set_aside import SetAside
from sparkhaven.store.errors import SchemaMismatchError, SnapshotMovedError, counted
from sparkhaven.store.expressions.predicate.expression import Predicate
from sparkhaven.store.scan.selection import Tier
from sparkhaven.store.types.model import Column, TableSchema

Open = Callable[[bool], pa.RecordBatchReader]  # by whether texts are dictionaries
CLOCK = pa.time64("ns")  # of a LocalTime
NULLABLE = {  # types of pandas for whole numbers beside nulls
    pa.int8(): "Int8Dtype",
    pa.int16(): "Int16Dtype",
    pa.uint16(): "UInt16Dtype",
    pa.int32(): "Int32Dtype",
    pa.int64(): "Int64Dtype",
}
WHOLE = 2**63 - 1  # a step that takes each slice at once


@checked_calls
class Snapshot:
    """A table at one moment: reads are isolated from concurrent commits and merges.

    Where the rows of the snapshot were rolled back, deleted or corrected, and their files are gone, a read is a
    SnapshotMovedError. Arrays that were returned before keep their rows.

    A snapshot is an Arrow stream of all rows and columns, each time from the start: ``duckdb.sql("from snap")``,
    ``polars.DataFrame(snap)``, ``pyarrow.table(snap)``, ``pandas.DataFrame.from_arrow(snap)`` (pandas 3. Before that:
    ``snap.to_pandas()``). Texts are plain strings there. An error in mid-stream reaches the consumer as its own class
    with the text of ours.

    Where a method takes ``tier``, the default is that of the snapshot: ``all`` unless it was opened with another.

    Example:
        >>> snap = db.table("Equity.Trade").snapshot()
        >>> len(snap), snap.dates(), snap.epochs
        (3, ['2026-11-20'], {'test': 1})
        >>> snap.to_arrow(["Sym", "Size"], where="Size >= 100").to_pylist()
        [{'Sym': 'IBM', 'Size': 100}, {'Sym': 'AAPL', 'Size': 250}]
    """

    def __init__(self, pinned: PinnedTable, tier: Tier = "all") -> None:
        """``open_table`` and ``Table.snapshot`` make it."""
        self._pinned, self._tier = pinned, tier

    def __repr__(self) -> str:
        return f"Snapshot({self.name}, epochs={self.epochs})"

    def _repr_html_(self) -> str:
        """What a notebook shows: the first rows, and where the snapshot stands."""
        return html_table(self.head(), f"{self!r}, {counted(len(self), 'row')}")

    def __len__(self) -> int:
        """Number of rows; no data file is opened."""
        return self.count()

    def __bool__(self) -> bool:
        return True  # also without rows

    @property
    def name(self) -> str:
        """``NS.T``."""
        return self._pinned.name

    @property
    def tier(self) -> Tier:
        """What is read where a method is not given another: ``intraday``, ``history`` or ``all``."""
        return self._tier

    @property
    def set_aside(self) -> list[SetAside]:
        """Damaged locations of the table that were set aside, whose rows no read returns."""
        return self._pinned.set_aside

    @property
    def schema(self) -> TableSchema:
        """The deployed definition, as it was at open."""
        return self._pinned.schema

    @property
    def epochs(self) -> dict[str, int]:
        """The pinned epochs: stream -> epoch."""
        return self._pinned.epochs

    def arrow_schema(self, columns: Names | None = None, *, dictionaries: bool = True) -> pa.Schema:
        """Fields of a result.

        Args:
            columns: Names of columns. Default: all.
            dictionaries: Whether symbol columns and the partitioning column are dictionaries of strings.

        Returns:
            The schema of ``to_arrow`` with the same arguments.

        Raises:
            SchemaMismatchError: The table has no such column, or one is named twice.

        Example:
            >>> db.table("Equity.Trade").snapshot().arrow_schema(["Size"])
            Size: int64
        """
        shown = self.columns(columns)
        return pa.schema([pa.field(c.name, arrow_type(c, dictionaries=dictionaries)) for c in shown])

    def __arrow_c_schema__(self) -> object:
        """The schema of the stream, as a capsule of the Arrow C data interface."""
        return self.arrow_schema(dictionaries=False).__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """All rows and columns, batch by batch, as a capsule of the Arrow C stream interface.

        A requested schema is honoured where its fields are those of the table and there is a cast.
        """
        return stream_capsule(lambda dictionaries: self.to_batches(dictionaries=dictionaries), requested_schema)

    def dates(self, *, tier: str | None = None) -> list[str]:
        """Partition values with rows, sorted.

        Args:
            tier: Of which tier.

        Returns:
            The dates, as their directories name them.

        Raises:
            SettingsError: There is no such tier.

        Example:
            >>> db.table("Equity.Trade").snapshot().dates()
            ['2026-11-20']
        """
        plan = self._pinned.plan(tier=tier or self._tier)
        return sorted({slice_.key.value for slice_ in plan.slices if slice_.key.value})

    def sources(self, *, tier: str | None = None) -> list[str]:
        """Internal partitions with rows, sorted.

        Args:
            tier: Of which tier.

        Returns:
            The sources. Merged rows have the storage partition that they are in.

        Raises:
            SettingsError: There is no such tier.

        Example:
            >>> db.table("Equity.Trade").snapshot().sources()
            ['0']
        """
        plan = self._pinned.plan(tier=tier or self._tier)
        return sorted({slice_.key.internal for slice_ in plan.slices if slice_.key.internal})

    def count(
        self,
        *,
        dates: Names | None = None,
        sources: Names | None = None,
        where: str | Predicate | None = None,
        tier: str | None = None,
    ) -> int:
        """Number of rows.

        Args:
            dates: Dates, and ranges ``A..B``.
            sources: Internal partitions, by their values or directories.
            where: A condition in SQL. Without it no data file is opened.
            tier: Of which tier.

        Returns:
            The number of rows that ``to_arrow`` returns with the same arguments.

        Raises:
            TableNotFoundError: There is no such date or source.
            SchemaParseError: The table does not take the condition.

        Example:
            >>> db.table("Equity.Trade").snapshot().count(where="Sym = 'IBM'")
            2
        """
        tier = tier or self._tier
        if where is None:
            return self._pinned.plan(dates=dates, sources=sources, tier=tier).rows
        first = [c.name for c in self.schema.stored[:1]]
        batches = self.to_batches(first, dates=dates, sources=sources, where=where, tier=tier)
        return sum(batch.num_rows for batch in batches)

    def to_arrow(
        self,
        columns: Names | None = None,
        *,
        dates: Names | None = None,
        sources: Names | None = None,
        where: str | Predicate | None = None,
        tier: str | None = None,
        dictionaries: bool = True,
    ) -> pa.Table:
        """All rows as one table, ordered by date, then history before intraday, internal partition, row.

        Fixed-width columns without nulls are zero-copy: the mapped files themselves. Dictionaries are the same in all
        chunks.

        Args:
            columns: Names of columns. Default: all.
            dates: Dates, and ranges ``A..B``.
            sources: Internal partitions, by their values or directories.
            where: A condition in SQL. Dates and row ranges are skipped by their statistics and indexes.
            tier: Of which tier.
            dictionaries: Whether symbol columns and the partitioning column are dictionaries of strings.

        Returns:
            The rows.

        Raises:
            SnapshotMovedError: Rows of the snapshot are gone. Open the table again.
            TableNotFoundError: There is no such date or source.
            SchemaMismatchError: There is no such column.
            SchemaParseError: The table does not take the condition.

        Example:
            >>> db.table("Equity.Trade").snapshot().to_arrow("Size")["Size"].to_pylist()
            [100, 50, 250]
        """
        predicate, shown = self._pinned.predicate(where), self.columns(columns)
        plan = partial(self._pinned.plan, dates=dates, sources=sources, where=predicate, tier=tier or self._tier)
        try:
            parts = list(self._pinned.arrays(plan().slices, shown, predicate, None))
        except SnapshotMovedError:  # slice by slice each is read where its files were moved to
            parts = list(self._pinned.arrays(plan().slices, shown, predicate, WHOLE))
        schema = pa.schema([pa.field(c.name, arrow_type(c)) for c in shown])
        chunks = [pa.chunked_array([arrays[i] for arrays in parts], field.type) for i, field in enumerate(schema)]
        table = pa.table(chunks, schema)
        return table.unify_dictionaries() if dictionaries else table.cast(_plain(shown))

    def to_batches(
        self,
        columns: Names | None = None,
        *,
        dates: Names | None = None,
        sources: Names | None = None,
        where: str | Predicate | None = None,
        tier: str | None = None,
        dictionaries: bool = True,
        batch_rows: int = BATCH_ROWS,
        on_read: Callable[[int], object] | None = None,
    ) -> pa.RecordBatchReader:
        """The rows of ``to_arrow``, in the same order, as a stream of batches.

        Memory holds one batch and the dictionaries of one location. A dictionary may change from batch to batch.

        Args:
            columns: Names of columns. Default: all.
            dates: Dates, and ranges ``A..B``.
            sources: Internal partitions, by their values or directories.
            where: A condition in SQL.
            tier: Of which tier.
            dictionaries: Whether symbol columns and the partitioning column are dictionaries of strings.
            batch_rows: Most rows of a batch.
            on_read: Called with the number of rows of each step before it is read and filtered.

        Returns:
            An Arrow stream, which other libraries take as it is, once: ``polars.DataFrame(snap.to_batches("Px"))``.

        Raises:
            SnapshotMovedError: Rows of the snapshot are gone, also while the stream is read.
            TableNotFoundError: There is no such date or source.
            SchemaMismatchError: There is no such column.

        Example:
            >>> sum(batch.num_rows for batch in db.table("Equity.Trade").snapshot().to_batches(batch_rows=2))
            3
        """
        predicate, shown = self._pinned.predicate(where), self.columns(columns)
        plan = self._pinned.plan(dates=dates, sources=sources, where=predicate, tier=tier or self._tier)
        parts = self._pinned.arrays(plan.slices, shown, predicate, batch_rows, on_read)
        schema = pa.schema([pa.field(c.name, arrow_type(c)) for c in shown])
        batches = (pa.RecordBatch.from_arrays(arrays, schema=schema) for arrays in parts)
        if not dictionaries:
            schema = _plain(shown)
            batches = (batch.cast(schema) for batch in batches)
        return pa.RecordBatchReader.from_batches(schema, batches)

    def to_pandas(self, columns: Names | None = None, **selection: Any) -> Any:
        """All rows as a data frame of pandas, with texts as strings.

        Values are exact. A column of whole numbers with nulls has a nullable type like ``Int64``, a LocalTime the
        Arrow type ``time64[ns]``. As everywhere in pandas, the null of a float is NaN.

        Args:
            columns: Names of columns. Default: all.
            **selection: ``dates``, ``sources``, ``where`` and ``tier`` of ``to_arrow``.

        Returns:
            A ``pandas.DataFrame``.

        Raises:
            ImportError: pandas is not installed.
            SnapshotMovedError: Rows of the snapshot are gone. Open the table again.

        Example:
            >>> int(db.table("Equity.Trade").snapshot().to_pandas("Size")["Size"].sum())
            400
        """
        return _frame(self.to_arrow(columns, dictionaries=False, **selection))

    def head(self, rows: int = 10, columns: Names | None = None, **selection: Any) -> pa.Table:
        """The first rows, in the order of ``to_arrow``. No more is read than they need.

        Args:
            rows: How many at most.
            columns: Names of columns. Default: all.
            **selection: ``dates``, ``sources``, ``where`` and ``tier`` of ``to_arrow``.

        Returns:
            The rows.

        Raises:
            SnapshotMovedError: Rows of the snapshot are gone. Open the table again.
            SchemaMismatchError: There is no such column.

        Example:
            >>> db.table("Equity.Trade").snapshot().head(1, ["Sym"]).to_pylist()
            [{'Sym': 'IBM'}]
        """
        reader = self.to_batches(columns, batch_rows=max(rows, 1), **selection)
        batches, left = [], rows
        while left > 0 and (batch := next(reader, None)) is not None:
            batches.append(batch.slice(0, left))
            left -= batches[-1].num_rows
        return pa.Table.from_batches(batches, reader.schema)

    def columns(self, names: Names | None = None) -> tuple[Column, ...]:
        """The named columns, in the order of the names.

        Args:
            names: Names of columns. Default: all in the order of the definition. A column that was dropped from the
                schema is found by its name, where its files are still there.

        Returns:
            Their definitions.

        Raises:
            SchemaMismatchError: The table has no such column, or one is named twice.

        Example:
            >>> [column.name for column in db.table("Equity.Trade").snapshot().columns()]
            ['Date', 'Sym', 'Size', 'Price']
        """
        return self._pinned.columns(names)


def pinned_of(table: Snapshot) -> PinnedTable:
    """The snapshot of a table, for programs of ours that plan reads."""
    return table._pinned


def html_table(rows: pa.Table, caption: str) -> str:
    """Rows as an HTML table, as notebooks show them."""
    head = "".join(f"<th>{escape(name)}</th>" for name in rows.column_names)
    cells = zip(*(map(_cell, cell_values(column)) for column in rows.columns), strict=True)
    body = "".join(f"<tr>{''.join(f'<td>{escape(text)}</td>' for text in line)}</tr>" for line in cells)
    return f"<table><caption>{escape(caption)}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _cell(value: object) -> str:
    return "" if value is None else nested_text(value) if isinstance(value, list | dict) else str(value)


def _frame(table: pa.Table) -> Any:
    """A frame of pandas with the values of a table: NumPy would round whole numbers beside a null, and cut times."""
    import pandas  # for whoever reads by it: the library goes without

    nullable = {kind: getattr(pandas, name)() for kind, name in NULLABLE.items()} | {CLOCK: pandas.ArrowDtype(CLOCK)}
    exact = {
        name: column.to_pandas(types_mapper=nullable.get)
        for name, column in zip(table.column_names, table.columns, strict=True)
        if column.type == CLOCK or (column.type in nullable and column.null_count)
    }
    frame = table.drop_columns(list(exact)).to_pandas(integer_object_nulls=True)  # of arrays
    for name, values in exact.items():
        frame.insert(table.column_names.index(name), name, values)
    return frame


def _plain(shown: Sequence[Column]) -> pa.Schema:
    return pa.schema([pa.field(c.name, arrow_type(c, dictionaries=False)) for c in shown])


class _Requested:
    """The capsule of a schema as an object that pyarrow imports."""

    def __init__(self, capsule: object) -> None:
        self._capsule = capsule

    def __arrow_c_schema__(self) -> object:
        return self._capsule


def stream_capsule(open_: Open, requested_schema: object | None) -> object:
    """A capsule of a new stream, cast to the requested schema, if any.

    SchemaMismatchError if that has other fields, or a type to which there is no cast. A value that does not fit into
    the type that is requested ends the stream with an error.
    """
    if requested_schema is None:
        return open_(False).__arrow_c_stream__()
    requested = pa.schema(_Requested(requested_schema))
    reader = open_(any(pa.types.is_dictionary(kind) for kind in requested.types))
    if requested.names != reader.schema.names:
        raise SchemaMismatchError(
            "the requested Arrow schema has other fields than the table",
            expected=", ".join(reader.schema.names),
            found=", ".join(requested.names),
            hint="choose columns by to_batches(columns=...), whose result is an Arrow stream too",
        )
    try:
        return reader.cast(requested).__arrow_c_stream__()
    except pa.ArrowException as error:
        raise SchemaMismatchError(
            f"the table cannot be cast to the requested Arrow schema: {error}",
            expected=", ".join(f"{field.name} {field.type}" for field in reader.schema),
            found=", ".join(f"{field.name} {field.type}" for field in requested),
        ) from None
