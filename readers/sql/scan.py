"""A pinned table as a dataset that DuckDB scans: the columns that it asks for, and the rows that may match."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset

from sparkhaven.readers.arrow.table import Table
from sparkhaven.store.errors import SparkhavenError
from sparkhaven.store.expressions.predicate.expression import Predicate
from sparkhaven.store.types.codings.decimals import decimal_texts
from sparkhaven.store.types.model import Column

READ_AHEAD = 2  # batches: a LIMIT reads no more of them than that in vain


class TableScan(pyarrow.dataset.Dataset):  # type: ignore[misc]
    """One table of a query. ``prefix`` and ``_`` stand before each name: a plan names no table, only columns.

    DuckDB calls ``scanner`` once for each time that a query names the table, on threads of its own. It relies on the
    filter that it gives, so pyarrow applies that in full; ``where`` is what statistics skip rows by.
    ``failures`` keeps errors of reading, which reach DuckDB as texts. Decimals of more than 38 digits, which DuckDB has
    not, are texts.
    """

    def __init__(self, table: Table, tier: str, prefix: str) -> None:
        self.table, self.tier, self.prefix = table, tier, prefix
        self.where: Predicate | None = None
        self.columns_read: set[str] = set()
        self.rows_read = 0
        self.failures: list[Exception] = []
        self._lock = threading.Lock()

    @property
    def by_name(self) -> dict[str, Column]:
        return {f"{self.prefix}_{column.name}": column for column in self.table.schema.columns}

    @property
    def schema(self) -> pa.Schema:
        return self._renamed(self.table.arrow_schema())

    def _renamed(self, schema: pa.Schema) -> pa.Schema:
        named = [field.with_name(f"{self.prefix}_{field.name}") for field in schema]
        return pa.schema([f.with_type(pa.string()) if pa.types.is_decimal256(f.type) else f for f in named])

    def view(self) -> str:
        """A SELECT that gives the columns their names."""
        listed = ", ".join(f'"{name}" as "{column.name}"' for name, column in self.by_name.items())
        return f'select {listed} from "{self.prefix}"'

    def scanner(
        self, columns: Sequence[str] | None = None, filter: pc.Expression | None = None, **options: Any
    ) -> pyarrow.dataset.Scanner:
        del options
        shown = list(self.by_name) if columns is None else list(columns)
        scanned = shown if filter is None else self._needed(shown, filter)
        names = [self.by_name[name].name for name in scanned or list(self.by_name)[:1]]
        with self._lock:
            self.columns_read |= {*names, *(self.where.columns if self.where else ())}
        schema = self._renamed(self.table.arrow_schema(names))
        batches = pa.RecordBatchReader.from_batches(schema, self._batches(names, schema))
        return pyarrow.dataset.Scanner.from_batches(batches, columns=shown, filter=filter, batch_readahead=READ_AHEAD)

    def _needed(self, shown: Sequence[str], filter: pc.Expression) -> list[str]:
        """The asked columns and those of the filter, which an expression tells only as text."""
        text = str(filter)
        likely = [name for name in self.by_name if name in shown or name in text]
        try:
            self.schema.empty_table().select(likely).filter(filter)
        except (pa.ArrowException, KeyError):
            return list(self.by_name)
        return likely

    def _batches(self, names: Sequence[str], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        try:
            for batch in self.table.to_batches(names, where=self.where, tier=self.tier, on_read=self._count):
                columns = [decimal_texts(a) if pa.types.is_decimal256(a.type) else a for a in batch.columns]
                yield pa.RecordBatch.from_arrays(columns, schema=schema)
        except SparkhavenError as error:
            self.failures.append(error)
            raise

    def _count(self, rows: int) -> None:
        with self._lock:
            self.rows_read += rows
