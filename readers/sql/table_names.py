"""Which tables a query names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from sparkhaven.readers.sql.engine import Tree, not_a_select
from sparkhaven.store.errors import SettingsError, TableNotFoundError
from sparkhaven.store.layout import TableName
from sparkhaven.store.suggestions import near

OF_DUCKDB = ("information_schema", "memory", "pg_catalog", "system", "temp")


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


def nodes(tree: Any) -> Iterator[Tree]:
    todo = [tree]
    while todo:
        node = todo.pop()
        if isinstance(node, dict):
            yield node
            todo.extend(node.values())
        elif isinstance(node, list):
            todo.extend(node)
