"""SQL over the tables of a root: DuckDB evaluates, our scans read what the query needs.

Each table is pinned once, so all of a query sees one snapshot of it. Tables that one feed fills are pinned at one
position of it.

Of the functions that it names it may call those of its rows, none of DuckDB's settings, catalog, secrets, logs or
files. Table functions are named one by one, since new versions of DuckDB bring more of those that reach beyond.
Functions of values compute, but for a few.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from sparkhaven.readers.arrow.opening import Opening, known_tables, open_together
from sparkhaven.readers.arrow.snapshot import Snapshot
from sparkhaven.readers.sql.conditions import ScannedTable, pushed
from sparkhaven.readers.sql.scan import BEYOND, TableScan, connected, not_a_select, plan_tree, refusal, syntax_tree
from sparkhaven.store import next_steps
from sparkhaven.store.errors import SettingsError, SparkhavenError, TableNotFoundError, as_ours, as_storage_errors, near
from sparkhaven.store.expressions.duckdb_engine import Tree, location_of, nodes
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.io.local_path import local_path
from sparkhaven.store.layout import Layout, TableName
from sparkhaven.store.places import TablePlace, followed_root
from sparkhaven.store.scan.selection import check_tier, refuse_case_twins

OF_DUCKDB = ("information_schema", "memory", "pg_catalog", "system", "temp")
_TABLES = (
    "generate_series icu_calendar_names json_each json_tree pg_timezone_names range repeat repeat_row summary"
    " test_all_types unnest"
)
_REFUSED = (
    "current_connection_id current_query_id current_setting current_transaction_id currval getvariable"
    " in_search_path json_execute_serialized_sql nextval pg_get_constraintdef pg_get_expr pg_get_viewdef setval"
    " txid_current write_log"
)
TABLES, REFUSED = frozenset(_TABLES.split()), frozenset(_REFUSED.split())  # table functions, functions of values


def tables_named(query: str, statements: Sequence[Tree], known: Sequence[str]) -> list[TableName]:
    """The tables of a query, each once, sorted; ``known``: those of the root.

    SettingsError for anything but one SELECT; TableNotFoundError for a name that is none of ``known``.
    """
    if len(statements) != 1:
        raise not_a_select(query)
    aliases = {str(alias).lower() for alias in _aliases(statements[0])}
    names: set[str] = set()
    for reference in _of_type(statements[0], ("BASE_TABLE", "SHOW_REF")):
        if reference["type"] == "SHOW_REF":
            raise not_a_select(query)
        path = [str(step) for step in reference["qualified_name"]["path"]]
        if len(path) == 1 and path[0].lower() in aliases:
            continue
        name = ".".join(path)
        if len(path) != 2 or name not in known:
            raise TableNotFoundError(
                f"no table {name}",
                where=f"character {int(reference['query_location']) + 1} of: {query}",
                expected=near(name, known),
                found=".".join(f'"{step}"' for step in path) if len(path) != 2 else name,
                hint="write namespace and table, like Nyc13.Flight, case-sensitive. Quotes go around each of the two. "
                "`sparkhaven tables` lists them",
            )
        if path[0].lower() in OF_DUCKDB:
            raise SettingsError(
                "the namespace has the name of one of DuckDB",
                where=name,
                expected=f"a namespace other than {', '.join(OF_DUCKDB)}",
                hint=next_steps.read(name),
            )
        names.add(name)
    by_case = {name.lower() for name in names}
    if len(by_case) < len(names):
        raise SettingsError("the names of two tables of the query differ in case only", found=", ".join(sorted(names)))
    return [TableName.parse(name) for name in sorted(names)]


def _aliases(tree: Any) -> Iterator[str]:
    for node in nodes(tree):
        yield from (entry["key"] for entry in node.get("cte_map", {}).get("map", ()))


def _of_type(tree: Any, types: tuple[str, ...]) -> Iterator[Tree]:
    return (node for node in nodes(tree) if node.get("type") in types and "query_location" in node)


def refuse_functions(query: str, statements: Sequence[Tree]) -> None:
    """SettingsError if a query calls a function that reads or changes anything but rows."""
    for name, location in _calls(statements):
        raise SettingsError(
            f"the query reaches beyond the tables. It calls {name}",
            where=query if location is None else f"character {location + 1} of: {query}",
            expected="functions of values, and of the table functions " + ", ".join(sorted(TABLES)),
            found=name,
            hint=BEYOND,
        )


def _calls(statements: Any) -> Iterator[tuple[str, int | None]]:
    for node in nodes(statements):
        if node.get("type") == "TABLE_FUNCTION":
            name = _name(node.get("function", {}))
            if name not in TABLES:
                yield name, location_of(node)
        elif node.get("class") == "FUNCTION" and _name(node) in REFUSED:
            yield _name(node), location_of(node)


def _name(node: Tree) -> str:
    return str(node.get("function_name", "")).lower()


BATCH_ROWS = 1 << 16
INEXACT = {  # in Arrow they are without their offset, as bytes, or as another number
    "time with time zone": "TIME WITH TIME ZONE",
    "bit": "BIT",
    "uhugeint": "UHUGEINT",
    "bignum": "BIGNUM",
}


@dataclass(frozen=True, slots=True)
class Result:
    """A running query: its rows, and the tables that it reads, which count what they have read so far."""

    batches: pa.RecordBatchReader
    scans: tuple[TableScan, ...]


@dataclass(frozen=True, slots=True)
class QueryOptions:
    """How a query is run. ``memory``: bytes that DuckDB may use. The others are those of ``open_together``."""

    tier: str = "all"
    as_of: datetime | str | None = None
    skip_set_aside: bool = False
    newest: bool = False
    memory: int | None = None


NO_OPTIONS = QueryOptions()


@contextmanager
def open_query(
    root: str | Path,
    query: str,
    options: QueryOptions = NO_OPTIONS,
    *,
    fs: Fs | None = None,
    opened: Mapping[str, Snapshot] | None = None,
) -> Iterator[Result]:
    """The rows of a SELECT as a stream, which is read inside of the ``with``.

    ``opened``: tables that are open already, by their names; the query may name no others. Raises, also while it is
    read, TableNotFoundError for an unknown table, SettingsError for a query that cannot be run, and what
    ``open_together`` raises.
    """
    fs = fs or Fs()
    how = Opening(options.as_of, check_tier(options.tier), options.skip_set_aside, options.newest)
    with as_storage_errors():
        layout = Layout(followed_root(fs, local_path(root)))
        known = [str(name) for name in known_tables(fs, layout)] if opened is None else list(opened)
    with connected(options.memory) as connection:
        statements = syntax_tree(connection, query)
        names = tables_named(query, statements, known)
        refuse_functions(query, statements)
        prefixes = [f"t{number}{secrets.token_hex(6)}" for number in range(len(names))]
        if opened is None:
            tables = open_together([TablePlace(fs, layout, name) for name in names], how)
        else:
            tables = [opened[str(name)] for name in names]
        scans = tuple(
            TableScan(table, how.tier if opened is None else table.tier, prefix)
            for table, prefix in zip(tables, prefixes, strict=True)
        )
        for scan in scans:
            hint = next_steps.read(scan.table.name)
            refuse_case_twins(scan.table.name, scan.table.schema.columns, "SQL", hint)
        try:
            _register(connection, scans)
            _push(connection, query, scans)
            relation = connection.sql(query)
            _refuse_types(relation, query)
            rows = relation.to_arrow_reader(BATCH_ROWS)
        except duckdb.Error as error:
            raise _ours(error, query, scans) from None
        schema = _unique(rows.schema)
        yield Result(pa.RecordBatchReader.from_batches(schema, _read(rows, schema, query, scans)), scans)


def _register(connection: duckdb.DuckDBPyConnection, scans: Sequence[TableScan]) -> None:
    for scan in scans:
        name = TableName.parse(scan.table.name)
        connection.register(scan.prefix, scan)
        connection.execute(f'create schema if not exists "{name.namespace}"')
        connection.execute(f'create view "{name.namespace}"."{name.table}" as {scan.view()}')
    connection.execute("set lock_configuration = true")


def _push(connection: duckdb.DuckDBPyConnection, query: str, scans: Sequence[TableScan]) -> None:
    tables = [ScannedTable(scan.prefix, scan.by_name) for scan in scans]
    conditions = pushed(plan_tree(connection, query), tables)
    for scan, where in zip(scans, conditions, strict=True):
        scan.where = where


def _read(
    rows: pa.RecordBatchReader, schema: pa.Schema, query: str, scans: Sequence[TableScan]
) -> Iterator[pa.RecordBatch]:
    try:
        for batch in rows:
            for column in batch.columns:
                _refuse_unfit(column, query)
            yield pa.RecordBatch.from_arrays(batch.columns, schema=schema)
    except (duckdb.Error, pa.ArrowException, OSError) as error:
        raise _ours(error, query, scans) from None


def _refuse_types(relation: duckdb.DuckDBPyRelation, query: str) -> None:
    """SettingsError for a type of the result whose values would be others, or bytes, in Arrow."""
    for name, kind in zip(relation.columns, relation.types, strict=True):
        inexact = _inexact(kind)
        if inexact is not None:
            raise SettingsError(
                f"column {name} of the result has a type whose values Arrow does not have",
                where=query,
                expected=f"a type that files have too, not {', '.join(INEXACT)}",
                found=inexact,
                hint=f'cast it in the query: "{name}"::VARCHAR',
            )


def _inexact(kind: Any) -> str | None:
    """The type within a type of DuckDB that Arrow does not have."""
    if kind.id in INEXACT:
        return INEXACT[kind.id]
    if kind.id not in ("list", "array", "struct", "map", "union"):
        return None
    inner = (part for _, part in kind.children if not isinstance(part, int))
    return next((name for part in inner if (name := _inexact(part)) is not None), None)


def _refuse_unfit(column: pa.Array, query: str) -> None:
    """SettingsError for infinity, which DuckDB gives as the greatest or smallest number, and for 39 digits."""
    kind, kinds = column.type, pa.types
    if kinds.is_nested(kind):
        inner = [column.keys, column.items] if kinds.is_map(kind) else column.flatten()
        for part in inner if isinstance(inner, list) else [inner]:
            _refuse_unfit(part, query)
    if kinds.is_decimal128(kind) and kind.precision == 38:
        try:
            column.validate(full=True)
        except pa.ArrowInvalid:
            raise SettingsError(
                "the result has a number of 39 digits, which neither Arrow nor a file has",
                where=query,
                expected="38 digits at most",
                hint="cast it in the query: …::VARCHAR, or …::DOUBLE",
            ) from None
    if not kinds.is_date32(kind) and not kinds.is_timestamp(kind):
        return
    counts = column.view(pa.int32() if kinds.is_date32(kind) else pa.int64())
    most = 2**31 - 1 if kinds.is_date32(kind) else 2**63 - 1
    ends = pc.min_max(counts)
    infinite = (ends["min"].as_py() == -most, ends["max"].as_py() == most)
    if any(infinite) and getattr(kind, "unit", "") != "ns":
        raise SettingsError(
            "the result has an infinite date or time, which neither Arrow nor a file has",
            where=query,
            expected="dates and times",
            found="-infinity" if infinite[0] else "infinity",
            hint="leave such rows out by isfinite(…), or cast it in the query: …::VARCHAR",
        )


def _ours(error: Exception, query: str, scans: Sequence[TableScan]) -> SparkhavenError:
    for failure in (*(failure for scan in scans for failure in scan.failures), error):
        if isinstance(failure, SparkhavenError | OSError):
            return as_ours(failure)
    return refusal(error, query, [scan.table.name for scan in scans])


def _unique(schema: pa.Schema) -> pa.Schema:
    """Field names as they are, a repeated one with a number: ``a``, ``a_1``."""
    names: set[str] = set()
    fields = []
    for field in schema:
        name, number = field.name, 0
        while name in names:
            number += 1
            name = f"{field.name}_{number}"
        names.add(name)
        fields.append(field.with_name(name))
    return pa.schema(fields)
