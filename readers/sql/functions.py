"""Which functions a query may call: those of its rows, none of DuckDB's settings, catalog, secrets, logs or files.

Table functions are named one by one, since new versions of DuckDB bring more of those that reach beyond. Functions of
values compute, but for a few.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from sparkhaven.readers.sql.engine import BEYOND, Tree
from sparkhaven.readers.sql.table_names import nodes
from sparkhaven.store.errors import SettingsError

TABLES = frozenset(
    [
        "generate_series",
        "icu_calendar_names",
        "json_each",
        "json_tree",
        "pg_timezone_names",
        "range",
        "repeat",
        "repeat_row",
        "summary",
        "test_all_types",
        "unnest",
    ]
)
REFUSED = frozenset(
    [
        "current_connection_id",
        "current_query_id",
        "current_setting",
        "current_transaction_id",
        "currval",
        "getvariable",
        "in_search_path",
        "json_execute_serialized_sql",
        "nextval",
        "pg_get_constraintdef",
        "pg_get_expr",
        "pg_get_viewdef",
        "setval",
        "txid_current",
        "write_log",
    ]
)


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
                yield name, _location(node)
        elif node.get("class") == "FUNCTION" and _name(node) in REFUSED:
            yield _name(node), _location(node)


def _name(node: Tree) -> str:
    return str(node.get("function_name", "")).lower()


def _location(node: Tree) -> int | None:
    location = int(node.get("query_location", -1))
    return location if 0 <= location < 1 << 32 else None
