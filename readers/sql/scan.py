"""A pinned table as a dataset that DuckDB scans: the columns that it asks for, and the rows that may match.

The DuckDB connection of a query, which reaches registered tables and nothing else, and the query's plan.
"""

from __future__ import annotations

import errno
import json
import os
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset

from sparkhaven.readers.arrow.snapshot import Snapshot
from sparkhaven.store.errors import RetryableStorageError, SettingsError, SparkhavenError
from sparkhaven.store.expressions.duckdb_engine import SETTINGS, NotASelectError, SqlSyntaxError, Tree, parsed
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

    def __init__(self, table: Snapshot, tier: str, prefix: str) -> None:
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


@contextmanager
def connected(memory: int | None = None) -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection of its own. ``memory``: bytes that it may use; default: what DuckDB takes, 80 % of the machine's.

    Queries that need more spill to a temporary directory, which is removed at the end.
    """
    with tempfile.TemporaryDirectory(prefix="sparkhaven-sql-") as spill:
        config = SETTINGS | {"temp_directory": spill}
        if memory is not None:
            config["memory_limit"] = f"{max(memory >> 20, 1)}MiB"
        with duckdb.connect(config=config) as connection:
            connection.execute("set TimeZone = 'UTC'")
            yield connection


def syntax_tree(connection: duckdb.DuckDBPyConnection, text: str) -> list[Tree]:
    """The statements of a text; SettingsError for a slip, and for a statement that is no SELECT."""
    try:
        return parsed(connection, text)
    except SqlSyntaxError as error:
        raise SettingsError(
            f"the query cannot be parsed: {error.message}",
            where=f"character {error.character or 1} of: {text}",
            hint='names that are words of SQL, like At, stand in double quotes: "At"',
        ) from None
    except NotASelectError:
        raise not_a_select(text) from None


def plan_tree(connection: duckdb.DuckDBPyConnection, query: str) -> Tree:
    """The optimised plan of a query. Raises duckdb.Error."""
    explained = connection.sql(f"explain (format json) {query}").fetchall()
    plan: Tree = json.loads(explained[0][1])[0]
    return plan


BEYOND = "name tables of the root like Nyc13.Flight. A query cannot read files, settings or other databases"


def not_a_select(text: str) -> SettingsError:
    return SettingsError(
        "the query is not a single SELECT",
        expected="one SELECT, which may begin with WITH",
        found=text.strip() or "nothing",
        hint="write a result to a file with --out",
    )


def refusal(error: Exception, query: str, tables: Sequence[str] = ()) -> SparkhavenError:
    """DuckDB's refusal of a query of these tables as one of ours."""
    message, _, rest = str(error).strip().partition("\n")
    if isinstance(error, duckdb.OutOfMemoryException):
        hint = "allow more with --memory, or select fewer columns and rows"
        return RetryableStorageError(f"the query exceeds its memory: {message}", where=query, hint=hint)
    if isinstance(error, duckdb.IOException) and os.strerror(errno.ENOSPC) in str(error):
        hint = "free space on the disk, then run it again"
        return RetryableStorageError(f"the query exceeds the free disk: {message}", where=query, hint=hint)
    if isinstance(error, duckdb.PermissionException):
        return SettingsError(f"the query reaches beyond the tables: {message}", where=query, hint=BEYOND)
    hint = "".join(f"`sparkhaven schema show {table}` lists columns. " for table in tables)
    hint += "Functions and types are those of DuckDB"
    if "TIMESTAMPTZ_NS" in str(error):
        hint = 'an Instant is exact to the nanosecond. For date functions take microseconds, "At"::TIMESTAMPTZ'
    elif "TIME_NS" in str(error):
        hint = (
            "a LocalTime is exact to the nanosecond. Compare it with a text: T >= '13:30'."
            " For other times and functions take microseconds, T::TIME"
        )
    detail = " ".join(rest.partition("LINE ")[0].split())  # what follows is the query again
    if detail.startswith("Candidate functions"):
        detail = ""  # of one function there are dozens
    return SettingsError(f"the query cannot be run: {message}", where=query, found=detail or None, hint=hint)
