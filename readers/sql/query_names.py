"""Which tables and functions a query names, and which of the functions it may call.

It may call those of its rows, none of DuckDB's settings, catalog, secrets, logs or files. Table functions are named one
by one, since new versions of DuckDB bring more of those that reach beyond. Functions of values compute, but for a few.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from sparkhaven.readers.sql.engine import BEYOND, not_a_select
from sparkhaven.store.errors import SettingsError, TableNotFoundError
from sparkhaven.store.expressions.duckdb_engine import Tree, location_of, nodes
from sparkhaven.store.layout import TableName
from sparkhaven.store.suggestions import near

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
                found=name,
                hint="write namespace and table, like Nyc13.Flight, case-sensitive. `sparkhaven tables` lists them",
            )
        if path[0].lower() in OF_DUCKDB:
            raise SettingsError(
                "the namespace has the name of one of DuckDB",
                where=name,
                expected=f"a namespace other than {', '.join(OF_DUCKDB)}",
                hint=f"`sparkhaven read {name}` or open_table reads it",
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
