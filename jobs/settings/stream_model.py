"""What a stream file may say, as pydantic models: one class a table of the file, unknown keys refused."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, field_validator, model_validator

from ingest.options.files import UNFINISHED, MissingDirectory
from ingest.options.formats import MissingColumns
from ingest.spec import BadRowBudget
from jobs.settings.base_model import DIALECT, Count, Encoding, MaxPerTrigger, Seconds, SettingsModel
from jobs.settings.kafka_model import KafkaFeedModel
from jobs.settings.toml_values import parse_instant_ns

Unit = Literal["iso", "s", "ms", "us", "ns"]


def _mounted(path: str) -> str:
    """A path of this machine; an address would be taken for a directory that is not there yet."""
    if "://" in path:
        raise ValueError("expected a path of this machine; mount other storage and name it by its path")
    return path


FeedPath = Annotated[str, Field(min_length=1), AfterValidator(_mounted)]


class FilesFeedModel(SettingsModel):
    """``[feed]`` with type files."""

    type: Literal["files"]
    """Feed of files: a directory or glob on a mounted file system."""
    path: FeedPath
    """Directory or glob like `feed/*.json`; relative to the stream file."""
    format: Literal["json", "csv", "parquet"] = "json"
    """Format of the files; JSON is one object a line."""
    header: bool | None = None
    """CSV: whether the first line names the columns. Default: true."""
    names: list[str] | None = None
    """CSV: names of the columns, with `header = false`."""
    delimiter: str | None = Field(default=None, min_length=1, max_length=1)
    """CSV: one character. Default: `","`."""
    quote: str | None = Field(default=None, min_length=1, max_length=1)
    """CSV: one character. Default: the double quote."""
    null: list[str] | None = None
    """CSV: texts that mean null where they are not quoted. Default: `[""]`."""
    quoted_null: bool | None = None
    """CSV: the texts of `null` mean null in quotes too. Default: false."""
    skip_lines: int | None = Field(default=None, ge=0)
    """CSV: lines to skip at the start of a file, before the header. Default: 0."""
    comment: Annotated[str, Field(min_length=1, pattern=r"^[^\r\n]+$")] | None = None
    """CSV: lines that begin with this text are skipped, except inside a quoted field."""
    trailing_delimiter: bool | None = None
    """CSV: a record, and the header, may end with one delimiter more. Default: false."""
    encoding: Encoding | None = None
    """Encoding of JSON and CSV. Default: `"utf-8"`."""
    binary_as_text: bool = False
    """Parquet: columns of bytes without annotation are texts in UTF-8."""
    max_per_trigger: MaxPerTrigger = MaxPerTrigger(bytes=256_000_000)
    """Largest batch: the smallest of the limits given."""
    max_file_age: Seconds = 7 * 86_400.0
    """A file older by this than the newest one that was ingested is skipped; one that arrives so late is reported by
    name.
    """
    settle: Seconds = 10.0
    """A text file that ends within a line is left until it has not changed for this long; `"0 s"`: ingested at once."""
    unfinished: list[Annotated[str, Field(min_length=1)]] = list(UNFINISHED)
    """Files whose names end so, in whatever case, are skipped; so are names that begin with a dot."""
    missing_directory: MissingDirectory = "fail"
    """A directory that does not exist: exit code 2, or wait for it."""
    missing_columns: MissingColumns = "fail"
    """A file whose header or schema lacks a stored column: refused, or null in that column."""

    @property
    def csv(self) -> dict[str, Any]:
        """The options of the CSV dialect that were given."""
        given = {name: getattr(self, name) for name in ("header", "skip_lines", "comment", *DIALECT)}
        return {name: value for name, value in given.items() if value is not None}

    @model_validator(mode="after")
    def _csv_only(self) -> FilesFeedModel:
        if self.csv and self.format != "csv":
            raise ValueError(f'only read with format = "csv": {", ".join(self.csv)}')
        if self.encoding is not None and self.format == "parquet":
            raise ValueError('encoding is that of texts, read with format = "json" or "csv"')
        if self.binary_as_text and self.format != "parquet":
            raise ValueError('binary_as_text is only read with format = "parquet"')
        if self.header is False and not self.names:
            raise ValueError('header = false needs names = ["first", "second"]')
        if self.names and self.header is not False:
            raise ValueError("names are only read with header = false")
        return self


class DeltaFeedModel(SettingsModel):
    """``[feed]`` with type delta."""

    type: Literal["delta"]
    """Feed of a Delta table, followed by version."""
    path: FeedPath
    """Directory of the Delta table; relative to the stream file."""
    start_version: int | None = Field(default=None, ge=0)
    """First version to ingest. Default: what the table holds now, then each later version."""
    max_per_trigger: MaxPerTrigger = MaxPerTrigger(bytes=256_000_000)
    """Largest batch: the smallest of the limits given."""
    ignore_changes: bool = False
    """Versions that rewrite or delete rows: ingest the files that they add, instead of stopping. Copied rows then come
    twice.
    """
    missing_columns: MissingColumns = "fail"
    """A stored column that neither a data file nor the table declares: refused, or null."""


class ColumnModel(SettingsModel):
    """One entry of ``[columns]``."""

    source: str | None = Field(default=None, alias="from", min_length=1)
    """Field of the payload; `"a.b"` is a field inside an object (JSON). Default: the name of the column."""
    unit: Unit | None = None
    """Unit of an Instant: ISO text or a count since 1970. Default: `"iso"`."""
    zone: str | None = None
    """Time zone of ISO texts without an offset; without it such texts are bad rows."""
    key: str | None = Field(default=None, min_length=1)
    """Field of the message key (Kafka)."""
    far: Literal["null", "clamp"] | None = None
    """An instant beyond 1677 to 2262: null, or the nearest that can be stored. Default: a bad row."""
    format: str | None = Field(default=None, min_length=1)
    """Pattern of dates and times, like `"%Y/%m/%d"`."""
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
    meta: Literal["topic", "partition", "offset", "timestamp", "receive_time", "key", "file", "line"] | None = None
    """Takes the value from the source position: topic, partition, offset, timestamp, key of a message; file, line of a
    file; `receive_time` is when it was read. Stands alone.
    """

    @model_validator(mode="after")
    def _one_source(self) -> ColumnModel:
        if self.key is not None and (self.source, self.meta) != (None, None):
            raise ValueError("give one of from, key, meta: a field of the value, a field of the key, or the position")
        if self.meta is not None and self.model_fields_set - {"meta"}:
            raise ValueError("meta stands alone: the other keys describe a field of the payload")
        return self


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
        if sum(value is not None for value in (self.column, self.meta, self.fixed)) != 1:
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
            raise ValueError("fixed stands alone: unit, zone and format describe a column")
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
    max_past: Seconds = 30 * 86_400.0
    """A row whose partition time is further before the clock is out of bounds."""
    max_future: Seconds = 30 * 86_400.0
    """A row whose partition time is further after the clock is out of bounds."""
    bounds: Literal["quarantine", "fail"] = "quarantine"
    """Rows that are out of bounds or without a date: quarantined, or the batch fails."""
    late: Literal["quarantine", "fail"] = "quarantine"
    """Rows for a date that was truncated: quarantined, or the batch fails."""

    @field_validator("clock", mode="before")
    @classmethod
    def _clock(cls, value: object) -> object:
        if value in ("wall", "batch"):
            return value
        try:
            return parse_instant_ns(value)
        except ValueError as error:
            raise ValueError(f'clock is "wall", "batch" or a time; {error}') from None


class BadRowsModel(SettingsModel):
    """``[bad_rows]``."""

    quarantine: str | None = Field(default=None, min_length=1)
    """Directory of the Delta table for rejected rows; relative to the stream file. Default:
    `<root>/.quarantine/<stream>`.
    """
    max_rows: int = Field(default=1000, ge=0)
    """Most rejected rows of a batch; with 0 the first one stops the batch, and no Delta is needed."""
    max_fraction: float = Field(default=0.01, ge=0, le=1)
    """Largest share of rejected rows among all rows of the last hour."""
    min_rows: int = Field(default=1000, ge=0)
    """The share counts from this many rows on."""
    allow_null_alias: bool = False
    """A value equal to the null of its type is stored, and reads as null, instead of being rejected."""

    @property
    def budget(self) -> BadRowBudget:
        """What of it decoding and the driver keep to."""
        return BadRowBudget(self.max_rows, self.max_fraction, self.min_rows)


class CommitModel(SettingsModel):
    """``[commit]``."""

    durability: Literal["fsync", "periodic", "none"] = "fsync"
    """What a power failure may take: see the page on durability."""
    keep_epochs: Count = 100
    """Number of epochs that can be rolled back to."""
    trigger: Seconds = 1.0
    """Time between the starts of two batches."""
    sync_interval: Annotated[Seconds, Field(gt=0)] | None = None
    """With `periodic`: time between syncs. Default: 10 s."""

    @model_validator(mode="after")
    def _syncs(self) -> CommitModel:
        if self.sync_interval is not None and self.durability != "periodic":
            raise ValueError(f'sync_interval goes with durability = "periodic", not "{self.durability}"')
        return self


FeedModel = FilesFeedModel | KafkaFeedModel | DeltaFeedModel


class StreamModel(SettingsModel):
    """The whole file."""

    name: str = Field(min_length=1)
    """Name of the stream and of its commit log."""
    table: str = Field(min_length=1)
    """Namespace and table, like `Nyc13.Flight`."""
    deployed_from: str = Field(alias="schema", min_length=1)
    """Schema file (Deephaven's `.schema` XML); relative to the stream file."""
    feed: Annotated[FeedModel, Field(discriminator="type")]
    """Where rows come from; `type` decides which other keys there are."""
    columns: dict[str, ColumnModel] = Field(default_factory=dict)
    """Columns whose values do not come from a field of the same name, or need more than the strict rules."""
    ignore: list[str] = Field(default_factory=list, alias="columns.ignore")
    """Fields of the payload that no column takes; others are reported."""
    partition: PartitionModel
    """Which location a row goes to."""
    bad_rows: BadRowsModel = BadRowsModel()
    """What happens to rows that cannot be stored."""
    commit: CommitModel = CommitModel()
    """When and how batches are committed."""
