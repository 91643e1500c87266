"""What a stream file may say, as pydantic models: one class a table of the file, unknown keys refused."""

from __future__ import annotations

from functools import lru_cache, reduce
from operator import or_
from typing import Annotated, Any, Literal

from pydantic import Field, create_model, field_validator, model_validator

from sparkhaven.ingest.feeds.registry import PLANNED, settings_of
from sparkhaven.ingest.settings.base_model import Count, PathText, Seconds, SettingsModel, parse_instant_ns
from sparkhaven.ingest.spec.stream_spec import DEFAULT_BOUND_S, BadRowBudget, Contract, Unit
from sparkhaven.store.epochs.state.commit_policy import DEFAULTS, SYNC_SECONDS, CommitPolicy, Durability

BUDGET = BadRowBudget()
META = "^(topic|partition|offset|timestamp|receive_time|key|file|line|header:.+)$"


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
