"""The DuckDB connection of a query, which reaches registered tables and nothing else, and the query's plan."""

from __future__ import annotations

import errno
import json
import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import duckdb

from sparkhaven.store.errors import RetryableStorageError, SettingsError, SparkhavenError
from sparkhaven.store.expressions.duckdb_engine import SETTINGS, NotASelectError, SqlSyntaxError, Tree, parsed


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
