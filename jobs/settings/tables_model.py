"""What a stream file with ``[[tables]]`` may say, as pydantic models, and which rows go to which table.

Routes are checked against each other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from difflib import get_close_matches
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, create_model, model_validator

from sparkhaven.ingest.settings.base_model import PathText, SettingsModel
from sparkhaven.ingest.spec.payload_formats import FeedOptions
from sparkhaven.ingest.spec.stream_spec import TableRoute, TableRoutes
from sparkhaven.jobs.settings.stream_model import (
    BadRowsModel,
    ColumnModel,
    CommitModel,
    ContractModel,
    LogsModel,
    PartitionModel,
    feed_field,
)
from sparkhaven.store.errors import SettingsError


class WhereModel(SettingsModel):
    """``where`` of an entry of ``[[tables]]``: a column and texts, or topics."""

    column: str | None = Field(default=None, min_length=1)
    """Field of the payload that decides; the same in all entries. A value that is no text counts as its text."""
    equals: str | list[str] | None = None
    """The text, or texts, that rows of the table have there."""
    topic: Annotated[str, Field(min_length=1)] | list[str] | None = None
    """Kafka: the topic, or topics, of the table's messages."""

    @model_validator(mode="after")
    def _one(self) -> WhereModel:
        by_column = self.column is not None and self.equals is not None
        if by_column == (self.topic is not None) or (self.column is None) != (self.equals is None):
            raise ValueError('give column and equals, like { column = "type", equals = "T" }, or { topic = "trades" }')
        if not self.values:
            raise ValueError("an empty list takes no row. Give at least one text")
        return self

    @property
    def values(self) -> tuple[str, ...]:
        """The texts that are asked for."""
        given = self.equals if self.topic is None else self.topic
        return (given,) if isinstance(given, str) else tuple(given or ())


class TableModel(SettingsModel):
    """An entry of ``[[tables]]``: one of the tables that the feed has rows of."""

    table: str = Field(min_length=1)
    """Namespace and table, like `Md.Trade`."""
    deployed_from: PathText = Field(alias="schema")
    """Schema file (Deephaven's `.schema` XML); relative to the stream file."""
    where: WhereModel | None = None
    """Which rows the table takes."""
    rest: bool = Field(default=False, alias="else")
    """With true, in place of `where`: the table takes the rows of no other table."""
    columns: dict[str, ColumnModel] = Field(default_factory=dict)
    """As `[columns]` of a file of one table, written `[tables.columns]`."""
    ignore: list[str] = Field(default_factory=list, alias="columns.ignore")
    """As `ignore` of `[columns]`."""
    required: bool = Field(default=False, alias="columns.required")
    """As `required` of `[columns]`."""
    contract: ContractModel | None = None
    """As in a file of one table. Default: that of the whole file."""
    partition: PartitionModel
    """As `[partition]` of a file of one table, written `[tables.partition]`."""

    @model_validator(mode="after")
    def _routed(self) -> TableModel:
        if (self.where is None) != self.rest:
            both = "both where and else" if self.rest else "neither where nor else"
            raise ValueError(
                f'table {self.table} has {both}. Give one, like where = {{ column = "type", equals = "T" }}'
            )
        return self


class TablesModel(SettingsModel):
    """The whole file of a feed with rows of several tables, but for the keys of ``[feed]``."""

    name: str = Field(min_length=1)
    """Name of the stream, and of its commit log in each table."""
    unrouted: Literal["reject", "ignore"] = Field(default="reject", alias="else")
    """Rows that no table takes: bad rows of the first table, or left out and counted as `unrouted`."""
    feed: SettingsModel
    """Where rows come from, as in a file of one table."""
    tables: list[TableModel] = Field(min_length=1)
    """The tables. A batch commits in this order, in each table for itself."""
    contract: ContractModel = ContractModel()
    """Of the tables that have none of their own."""
    bad_rows: BadRowsModel = BadRowsModel()
    """As in a file of one table; the limits hold for each table."""
    commit: CommitModel = CommitModel()
    """As in a file of one table."""
    logs: LogsModel = LogsModel()
    """As in a file of one table."""


@lru_cache
def tables_model(foreign: str | None = None) -> type[TablesModel]:
    """The model of a whole file with ``[[tables]]``."""
    return create_model("TablesFile", __base__=TablesModel, feed=feed_field(foreign))


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
