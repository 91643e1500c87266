"""What a stream file may say, as pydantic models: one class a table of the file, unknown keys refused.

Of a file with ``[[tables]]`` also which rows go to which table: its routes are checked against each other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from difflib import get_close_matches
from functools import lru_cache, reduce
from operator import or_
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, create_model, field_validator, model_validator

from sparkhaven.ingest.feeds.registry import PLANNED, settings_of
from sparkhaven.ingest.settings import Count, PathText, Seconds, SettingsModel, parse_instant_ns
from sparkhaven.ingest.spec import DEFAULT_BOUND_S, BadRowBudget, Contract, FeedOptions, TableRoute, TableRoutes, Unit
from sparkhaven.store.epochs.state.commit_policy import DEFAULTS, SYNC_SECONDS, CommitPolicy, Durability
from sparkhaven.store.errors import SettingsError

BUDGET = BadRowBudget()
META = "^(topic|partition|offset|timestamp|receive_time|key|file|line|header:.+)$"
OF_ONE_TABLE = ("table", "schema", "columns", "partition")


class ColumnModel(SettingsModel):
    """One entry of ``[columns]``."""

    source: str | None = Field(default=None, alias="from", min_length=1)
    """Field of the payload; `"a.b"` is a field inside an object (JSON). Default: the name of the column."""
    unit: Unit | None = None
    """Unit of a count: of an Instant, an Instant[] or a LocalDate since 1970 (`"d"`: days), of a LocalTime since
    midnight. Default: `"iso"`, ISO texts.
    """
    zone: str | None = None
    """Time zone of instants without an offset, of an Instant or an Instant[]; without it they are bad rows."""
    key: str | None = Field(default=None, min_length=1)
    """Field of the message key (Kafka)."""
    far: Literal["null", "clamp"] | None = None
    """An instant beyond 1677 to 2262: null, or the nearest that can be stored. Default: a bad row."""
    format: str | None = Field(default=None, min_length=1)
    """Pattern of dates and times, like `"%Y/%m/%d"`; of a LocalTime like `"%I:%M %p"`."""
    trim: bool = False
    """Blanks and tabs around a value are dropped; a blank value is null, except in a String."""
    quoted: bool = False
    """JSON: numbers, booleans and counts of time units may stand in quotes; empty quotes are null."""
    thousands: str | None = Field(default=None, min_length=1, max_length=1)
    """Separator between groups of three digits."""
    decimal: str | None = Field(default=None, min_length=1, max_length=1)
    """Separator before the fraction. Default: `"."`."""
    true: list[str] | None = Field(default=None, min_length=1)
    """The only texts (JSON: or numbers) that are true."""
    false: list[str] | None = Field(default=None, min_length=1)
    """The only texts (JSON: or numbers) that are false."""
    as_text: bool = False
    """A String takes a value that is no string (number, boolean, array, object) as its text: of JSON the text as it
    stands, of Avro and Protobuf the canonical one.
    """
    lossy: bool = False
    """Parquet, Avro, Protobuf, Delta: round numbers to the nearest float or double. Default: one that is not held
    exactly is a bad row. Texts of numbers (JSON, CSV) are read as the nearest in any case.
    """
    required: bool | None = None
    """A row without a value is a bad row, whether its field is null or absent. Default: `required` of `[columns]`."""
    meta: Annotated[str, Field(pattern=META)] | None = None
    """Takes the value from the source position: topic, partition, offset, timestamp, key of a message; file, line of a
    file; `receive_time` is when it was read. `"header:NAME"` is a header of a message: the last one of that name, null
    if there is none. Stands alone.
    """

    @model_validator(mode="after")
    def _one_source(self) -> ColumnModel:
        if self.key is not None and (self.source, self.meta) != (None, None):
            raise ValueError("two of from, key, meta are given: a field of the value, a field of the key, the position")
        beside = {"meta", "far", "required"} if self.meta == "timestamp" else {"meta", "required"}
        if self.meta is not None and self.model_fields_set - beside:
            raise ValueError("meta stands beside keys of a payload field, or far beside another meta than timestamp")
        return self


class ContractModel(SettingsModel):
    """``contract``: what becomes of rows whose fields are not those of the columns."""

    columns: Contract = "evolve"
    """Fields that no column takes, and columns whose field is absent. `evolve`: they are left out, or null, counted and
    reported. `discard-value`: the same without reports. `discard-row`: such a row goes to the quarantine. `freeze`: the
    batch fails.
    """


class InternalModel(SettingsModel):
    """``[partition] internal``: exactly one of its keys."""

    column: str | None = Field(default=None, min_length=1)
    """A String column: one internal partition for each value."""
    meta: Literal["topic", "partition", "file"] | None = None
    """Part of the source position: topic, topic partition or file."""
    fixed: str | None = None
    """One internal partition of this name."""

    @model_validator(mode="after")
    def _one(self) -> InternalModel:
        if sum(key is not None for key in (self.column, self.meta, self.fixed)) != 1:
            raise ValueError('give one of column, meta, fixed, like { column = "origin" }')
        return self


class ValueModel(SettingsModel):
    """``[partition] value``: the day or hour of a column, or a fixed text."""

    column: str | None = Field(default=None, min_length=1)
    """An Instant column, or a long with `unit`, whose local day or hour is the partition value."""
    unit: Literal["s", "ms", "us", "ns"] | None = None
    """Unit of a long column."""
    zone: str | None = None
    """Time zone of the day or hour. Default: `"UTC"`."""
    format: Literal["yyyy-MM-dd", "yyyy-MM-dd-HH"] | None = None
    """Day or hour. Default: `"yyyy-MM-dd"`."""
    fixed: str | None = None
    """One partition value for all rows."""

    @model_validator(mode="after")
    def _one(self) -> ValueModel:
        if (self.column is None) == (self.fixed is None):
            raise ValueError('give one of column, fixed, like { column = "time", zone = "UTC" }')
        if self.fixed is not None and (self.unit, self.zone, self.format) != (None, None, None):
            raise ValueError("fixed stands beside unit, zone or format, which describe a column")
        return self


class PartitionModel(SettingsModel):
    """``[partition]``."""

    internal: InternalModel
    """First directory level, one of `column`, `meta`, `fixed`."""
    value: ValueModel
    """Second directory level, one of `column`, `fixed`: usually the date."""
    clock: Literal["wall", "batch"] | int = "wall"  # a fixed time in nanoseconds
    """What the bounds are measured from: the wall clock, the newest instant of the batch, or a fixed time like
    `"2013-12-31T23:59:59Z"`.
    """
    max_past: Seconds = DEFAULT_BOUND_S
    """A row whose partition time is further before the clock is out of bounds."""
    max_future: Seconds = DEFAULT_BOUND_S
    """A row whose partition time is further after the clock is out of bounds."""
    bounds: Literal["quarantine", "fail"] = "quarantine"
    """Rows that are out of bounds or without a date: quarantined, or the batch fails."""
    late: Literal["supplement", "quarantine", "fail"] = "supplement"
    """Rows for a date that was truncated: stored for its next merge, which adds them to history; quarantined; or the
    batch fails.
    """

    @field_validator("clock", mode="before")
    @classmethod
    def _clock(cls, value: object) -> object:
        if value in ("wall", "batch"):
            return value
        try:
            return parse_instant_ns(value)
        except ValueError as error:
            raise ValueError(f'clock is not "wall", "batch" or a time ({error})') from None


class BadRowsModel(SettingsModel):
    """``[bad_rows]``."""

    quarantine: PathText | None = None
    """Directory of the Delta table for rejected rows; relative to the stream file. Default:
    `<root>/.quarantine/<stream>`.
    """
    max_rows: int = Field(default=BUDGET.max_rows, ge=0)
    """Most rejected rows of a batch; with 0 the first one stops the batch."""
    max_fraction: float = Field(default=BUDGET.max_fraction, ge=0, le=1)
    """Largest share of rejected rows among all rows of the last hour."""
    min_rows: int = Field(default=BUDGET.min_rows, ge=0)
    """The share counts from this many rows on."""
    allow_null_alias: bool = False
    """A value equal to the null of its type is stored, and reads as null, instead of being rejected."""

    @property
    def budget(self) -> BadRowBudget:
        """What of it decoding and the driver keep to."""
        return BadRowBudget(self.max_rows, self.max_fraction, self.min_rows)


class CommitModel(SettingsModel):
    """``[commit]``."""

    durability: Durability = "fsync"
    """What can be lost on a power failure: see the page on durability."""
    keep_epochs: Count = DEFAULTS.keep_epochs
    """Number of epochs that can be rolled back to."""
    trigger: Seconds = 1.0
    """Time between the starts of two batches."""
    sync_interval: Annotated[Seconds, Field(gt=0)] | None = None
    """With `periodic`: time between syncs. Default: 10 s."""

    @model_validator(mode="after")
    def _syncs(self) -> CommitModel:
        if self.sync_interval is not None and self.durability != "periodic":
            raise ValueError(f'sync_interval is set beside durability = "{self.durability}", which is not "periodic"')
        return self

    @property
    def policy(self) -> CommitPolicy:
        return CommitPolicy(self.durability, SYNC_SECONDS if self.sync_interval is None else self.sync_interval)


class LogsModel(SettingsModel):
    """``[logs]``."""

    enabled: bool = True
    """Log batches, epochs and failures of this stream to `SparkhavenInternal.IngestLog` and `EpochLog`."""


class StreamModel(SettingsModel):
    """The whole file, but for the keys of ``[feed]``: ``stream_model`` adds those."""

    name: str = Field(min_length=1)
    """Name of the stream and of its commit log."""
    table: str = Field(min_length=1)
    """Namespace and table, like `Nyc13.Flight`."""
    deployed_from: PathText = Field(alias="schema")
    """Schema file (Deephaven's `.schema` XML); relative to the stream file."""
    feed: SettingsModel
    """Where rows come from; `type` decides which other keys there are."""
    columns: dict[str, ColumnModel] = Field(default_factory=dict)
    """Columns whose values do not come from a field of the same name, or need more than the strict rules."""
    ignore: list[str] = Field(default_factory=list, alias="columns.ignore")
    """Fields of the payload that no column takes; others are reported."""
    required: bool = Field(default=False, alias="columns.required")
    """With true each column needs a value, unless it says `required = false` or is taken from the source position."""
    contract: ContractModel = ContractModel()
    """What becomes of rows with other fields than the columns. May also stand in `[columns]`."""
    partition: PartitionModel
    """Which location a row goes to."""
    bad_rows: BadRowsModel = BadRowsModel()
    """What happens to rows that cannot be stored."""
    commit: CommitModel = CommitModel()
    """When and how batches are committed."""
    logs: LogsModel = LogsModel()
    """Whether the stream writes to the log tables."""


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
def stream_model(foreign: str | None = None) -> type[StreamModel]:
    """The model of a stream file whose feed is one of ours, chosen by ``type``; or the ``foreign`` one."""
    return create_model("StreamFile", __base__=StreamModel, feed=feed_field(foreign))


def feed_field(foreign: str | None) -> Any:
    """The field ``feed`` of such a model, as ``create_model`` takes it."""
    if foreign is not None:
        return settings_of(foreign), ...
    feed: Any = reduce(or_, (settings_of(name) for name in PLANNED))
    return feed, Field(discriminator="type")


@lru_cache
def tables_model(foreign: str | None = None) -> type[TablesModel]:
    """The model of a whole file with ``[[tables]]``."""
    return create_model("TablesFile", __base__=TablesModel, feed=feed_field(foreign))


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
