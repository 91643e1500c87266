"""The routes of a stream file with ``[[tables]]``: which rows go to which table, checked against each other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from difflib import get_close_matches
from pathlib import Path

from sparkhaven.ingest.spec.feed_traits import FeedOptions
from sparkhaven.ingest.spec.table_routes import TableRoute, TableRoutes
from sparkhaven.jobs.settings.tables_model import TableModel, TablesModel, WhereModel
from sparkhaven.store.errors import SettingsError

OF_ONE_TABLE = ("table", "schema", "columns", "partition")


def refuse_both(given: Collection[str], path: Path) -> None:
    """SettingsError for a file that names its table both ways; ``given`` are its keys."""
    both = [key for key in OF_ONE_TABLE if key in given]
    if "tables" in given and both:
        raise SettingsError(
            f"`{both[0]}` and [[tables]] are both given",
            where=path,
            expected="one table at the top of the file, or each table in [[tables]]",
            found=", ".join([*both, "tables"]),
            hint=f"move {', '.join(both)} into an entry of [[tables]]",
        )


def routes_of(model: TablesModel, options: FeedOptions, path: Path) -> TableRoutes:
    """The routes of a file, which are of no table yet (``own`` is 0). SettingsError for routes that do not fit."""
    _refuse_twice(model.tables, path)
    wheres = [table.where for table in model.tables if table.where is not None]
    by_topic = {where.topic is not None for where in wheres}
    columns = list(dict.fromkeys(where.column for where in wheres if where.column is not None))
    if len(by_topic) == 2 or len(columns) > 1:
        kinds = [*columns, *(["topic"] if True in by_topic else [])]
        raise SettingsError(
            "the tables of a feed are told apart by different things, so that a row could be of two",
            where=f"{path}: tables.where",
            expected="one column in all entries, or topics in all",
            found=", ".join(kinds),
            hint="use one of them, or write a stream file for each",
        )
    _refuse_overlap(model.tables, path)
    rests = [table.table for table in model.tables if table.rest]
    if len(rests) > 1 or (rests and model.unrouted == "ignore"):
        raise SettingsError(
            "two places are given for the rows of no other table",
            where=f"{path}: else",
            expected='one entry with else = true, or else = "ignore" at the top of the file',
            found=", ".join([*rests, *(['else = "ignore"'] if model.unrouted == "ignore" else [])]),
            hint="remove all but one",
        )
    if True in by_topic:
        _check_topics(wheres, options, path)
    for table in model.tables:
        if table.partition.clock == "batch":
            raise SettingsError(
                'clock = "batch" is not possible for a table of several',
                where=f"{path}: tables.partition.clock, table {table.table}",
                expected='"wall", or a time like "2013-12-31T23:59:59Z"',
                found="batch",
                hint="remove clock, or write a stream file for this table alone",
            )
    routes = tuple(
        TableRoute(table.table, () if table.where is None else table.where.values, table.rest) for table in model.tables
    )
    kind = "topic" if True in by_topic else "column"
    return TableRoutes(routes, 0, kind, columns[0] if columns else "", model.unrouted == "ignore")  # type: ignore[arg-type]


def _refuse_twice(tables: list[TableModel], path: Path) -> None:
    twice = [name for name, count in Counter(table.table for table in tables).items() if count > 1]
    if twice:
        raise SettingsError(
            f"table {twice[0]} is there twice",
            where=f"{path}: tables",
            expected="each table once",
            found=", ".join(table.table for table in tables),
            hint='give all of its rows in one entry, like equals = ["T", "t"]',
        )


def _refuse_overlap(tables: list[TableModel], path: Path) -> None:
    table_of: dict[str, str] = {}
    for table in tables:
        for value in () if table.where is None else table.where.values:
            other = table_of.setdefault(value, table.table)
            if other != table.table or (table.where is not None and table.where.values.count(value) > 1):
                raise SettingsError(
                    "rows would go to two tables" if other != table.table else "a text is given twice",
                    where=f"{path}: tables.where",
                    expected="each text or topic in one entry, once",
                    found=f"{value!r} for {other} and for {table.table}",
                    hint="remove it from one of them",
                )


def _check_topics(wheres: list[WhereModel], options: FeedOptions, path: Path) -> None:
    """The feed has topics, and names those that are asked for."""
    if "topic" not in options.traits.meta:
        raise SettingsError(
            "a feed without topics is routed by topic",
            where=f"{path}: tables.where.topic",
            expected='where = { column = "type", equals = "T" }',
            found=f"topic, of a feed of type {options.traits.feed}",
            hint="route by a column",
        )
    topics = getattr(options, "topics", ())
    for topic in (topic for where in wheres for topic in where.values):
        if topics and topic not in topics:
            near = get_close_matches(topic, topics, n=1)
            raise SettingsError(
                "the feed does not read a topic that a table is for",
                where=f"{path}: tables.where.topic",
                expected=", ".join(topics),
                found=topic,
                hint=f"did you mean {near[0]!r}?" if near else "add it to topics of [feed]",
            )
