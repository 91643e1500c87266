"""A snapshot of a table, read as Arrow: intraday, history, or both as one table with each row once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import pyarrow as pa

from sparkhaven.readers.arrow.pinned_table import BATCH_ROWS, Names, PinnedTable
from sparkhaven.readers.arrow.slices import arrow_type
from sparkhaven.store.epochs.recovery.set_aside import SetAside
from sparkhaven.store.errors import SchemaMismatchError, SnapshotMovedError
from sparkhaven.store.expressions.predicate.expression import Predicate
from sparkhaven.store.types.model import Column, TableSchema

Open = Callable[[bool], pa.RecordBatchReader]  # by whether texts are dictionaries
WHOLE = 2**63 - 1  # a step that takes each slice at once


class Table:
    """A snapshot of one table: reads are isolated from concurrent commits and merges.

    Where the rows of the snapshot were rolled back, deleted or corrected, and their files are gone, a read is a
    SnapshotMovedError. Arrays that were returned before keep their rows.

    A table is an Arrow stream of all rows and columns, each time from the start: ``duckdb.sql("from t")``,
    ``polars.DataFrame(t)``, ``pyarrow.table(t)``, ``pandas.DataFrame.from_arrow(t)`` (pandas 3. Before that:
    ``pyarrow.table(t).to_pandas()``). Texts are plain strings there. An error in mid-stream reaches the consumer as
    its own class with the text of ours.
    """

    def __init__(self, pinned: PinnedTable) -> None:
        """``open_table`` makes it."""
        self._pinned = pinned

    def __repr__(self) -> str:
        return f"Table({self.name}, epochs={self.epochs})"

    @property
    def name(self) -> str:
        """``NS.T``."""
        return self._pinned.name

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
        """Fields of a result. Default: symbol columns and the partitioning column are dictionaries of strings."""
        shown = self.columns(columns)
        return pa.schema([pa.field(c.name, arrow_type(c, dictionaries=dictionaries)) for c in shown])

    def __arrow_c_schema__(self) -> object:
        """The schema of the stream, as a capsule of the Arrow C data interface."""
        return self.arrow_schema(dictionaries=False).__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """All rows and columns of tier ``all``, batch by batch, as a capsule of the Arrow C stream interface.

        A requested schema is honoured where its fields are those of the table and there is a cast.
        """
        return stream_capsule(lambda dictionaries: self.to_batches(dictionaries=dictionaries), requested_schema)

    def values(self, *, tier: str = "all") -> list[str]:
        """Partition values (dates) with rows, sorted."""
        return sorted({slice_.key.value for slice_ in self._pinned.plan(tier=tier).slices if slice_.key.value})

    def sources(self, *, tier: str = "all") -> list[str]:
        """Internal partitions with rows, sorted."""
        return sorted({slice_.key.internal for slice_ in self._pinned.plan(tier=tier).slices if slice_.key.internal})

    def count(
        self,
        *,
        dates: Names | None = None,
        sources: Names | None = None,
        where: str | Predicate | None = None,
        tier: str = "all",
    ) -> int:
        """Number of rows. Without ``where`` no data file is opened."""
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
        tier: str = "all",
        dictionaries: bool = True,
    ) -> pa.Table:
        """All rows as one table, ordered by date, then history before intraday, internal partition, row.

        Fixed-width columns without nulls are zero-copy: the mapped files themselves. Dictionaries are the same in all
        chunks.
        """
        predicate = self._pinned.predicate(where)
        shown = self.columns(columns)
        try:
            parts = list(self._parts(shown, predicate, None, None, dates=dates, sources=sources, tier=tier))
        except SnapshotMovedError:  # slice by slice each is read where its files were moved to
            parts = list(self._parts(shown, predicate, WHOLE, None, dates=dates, sources=sources, tier=tier))
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
        tier: str = "all",
        dictionaries: bool = True,
        batch_rows: int = BATCH_ROWS,
        on_read: Callable[[int], object] | None = None,
    ) -> pa.RecordBatchReader:
        """The rows of ``to_arrow``, in the same order, as a stream of batches of at most ``batch_rows`` rows.

        Memory holds one batch and the dictionaries of one location. A dictionary may change from batch to batch.
        ``on_read`` is called with the number of rows of each step before it is read and filtered. The result is an
        Arrow stream, which other libraries take as it is, once: ``polars.DataFrame(t.to_batches(["Sym", "Px"]))``.
        """
        predicate = self._pinned.predicate(where)
        shown = self.columns(columns)
        parts = self._parts(shown, predicate, batch_rows, on_read, dates=dates, sources=sources, tier=tier)
        schema = pa.schema([pa.field(c.name, arrow_type(c)) for c in shown])
        batches = (pa.RecordBatch.from_arrays(arrays, schema=schema) for arrays in parts)
        if not dictionaries:
            schema = _plain(shown)
            batches = (batch.cast(schema) for batch in batches)
        return pa.RecordBatchReader.from_batches(schema, batches)

    def _parts(
        self,
        shown: Sequence[Column],
        predicate: Predicate | None,
        step: int | None,
        on_read: Callable[[int], object] | None,
        *,
        dates: Names | None,
        sources: Names | None,
        tier: str,
    ) -> Iterator[list[pa.Array]]:
        plan = self._pinned.plan(dates=dates, sources=sources, where=predicate, tier=tier)
        return self._pinned.arrays(plan.slices, shown, predicate, step, on_read)

    def columns(self, names: Names | None = None) -> tuple[Column, ...]:
        """The named columns in the requested order. None: all in the order of the definition.

        A column that was dropped from the schema is found by its name, where its files are still there.
        SchemaMismatchError for a name that the table does not have, or that is named twice.
        """
        return self._pinned.columns(names)


def pinned_of(table: Table) -> PinnedTable:
    """The snapshot of a table, for programs of ours that plan reads."""
    return table._pinned


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
