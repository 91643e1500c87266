"""What a stream file with ``[[tables]]`` may say: a feed with rows of several tables, as pydantic models."""

from __future__ import annotations

from functools import lru_cache
from typing import Annotated, Literal

from pydantic import Field, create_model, model_validator

from sparkhaven.ingest.settings.base_model import PathText, SettingsModel
from sparkhaven.jobs.settings.stream_model import (
    BadRowsModel,
    ColumnModel,
    CommitModel,
    ContractModel,
    LogsModel,
    PartitionModel,
    feed_field,
)


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
    """The same for a file with ``[[tables]]``."""
    return create_model("TablesFile", __base__=TablesModel, feed=feed_field(foreign))
