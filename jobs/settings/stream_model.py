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
    path: FeedPath
    format: Literal["json", "csv", "parquet"] = "json"
    header: bool | None = None
    names: list[str] | None = None
    delimiter: str | None = Field(default=None, min_length=1, max_length=1)
    quote: str | None = Field(default=None, min_length=1, max_length=1)
    null: list[str] | None = None
    quoted_null: bool | None = None
    skip_lines: int | None = Field(default=None, ge=0)
    comment: Annotated[str, Field(min_length=1, pattern=r"^[^\r\n]+$")] | None = None
    trailing_delimiter: bool | None = None
    encoding: Encoding | None = None
    binary_as_text: bool = False
    max_per_trigger: MaxPerTrigger = MaxPerTrigger(bytes=256_000_000)
    max_file_age: Seconds = 7 * 86_400.0
    settle: Seconds = 10.0
    unfinished: list[Annotated[str, Field(min_length=1)]] = list(UNFINISHED)
    missing_directory: MissingDirectory = "fail"
    missing_columns: MissingColumns = "fail"

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
    path: FeedPath
    start_version: int | None = Field(default=None, ge=0)
    max_per_trigger: MaxPerTrigger = MaxPerTrigger(bytes=256_000_000)
    ignore_changes: bool = False
    missing_columns: MissingColumns = "fail"


class ColumnModel(SettingsModel):
    """One entry of ``[columns]``."""

    source: str | None = Field(default=None, alias="from", min_length=1)
    unit: Unit | None = None
    zone: str | None = None
    key: str | None = Field(default=None, min_length=1)
    far: Literal["null", "clamp"] | None = None
    format: str | None = Field(default=None, min_length=1)
    trim: bool = False
    quoted: bool = False
    thousands: str | None = Field(default=None, min_length=1, max_length=1)
    decimal: str | None = Field(default=None, min_length=1, max_length=1)
    true: list[str] | None = Field(default=None, min_length=1)
    false: list[str] | None = Field(default=None, min_length=1)
    meta: Literal["topic", "partition", "offset", "timestamp", "receive_time", "key", "file", "line"] | None = None

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
    meta: Literal["topic", "partition", "file"] | None = None
    fixed: str | None = None

    @model_validator(mode="after")
    def _one(self) -> InternalModel:
        if sum(value is not None for value in (self.column, self.meta, self.fixed)) != 1:
            raise ValueError('give one of column, meta, fixed, like { column = "origin" }')
        return self


class ValueModel(SettingsModel):
    """``[partition] value``: the day or hour of a column, or a fixed text."""

    column: str | None = Field(default=None, min_length=1)
    unit: Literal["s", "ms", "us", "ns"] | None = None
    zone: str | None = None
    format: Literal["yyyy-MM-dd", "yyyy-MM-dd-HH"] | None = None
    fixed: str | None = None

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
    value: ValueModel
    clock: Literal["wall", "batch"] | int = "wall"  # a fixed time in nanoseconds
    max_past: Seconds = 30 * 86_400.0
    max_future: Seconds = 30 * 86_400.0
    bounds: Literal["quarantine", "fail"] = "quarantine"
    late: Literal["quarantine", "fail"] = "quarantine"

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
    max_rows: int = Field(default=1000, ge=0)
    max_fraction: float = Field(default=0.01, ge=0, le=1)
    min_rows: int = Field(default=1000, ge=0)
    allow_null_alias: bool = False

    @property
    def budget(self) -> BadRowBudget:
        """What of it decoding and the driver keep to."""
        return BadRowBudget(self.max_rows, self.max_fraction, self.min_rows)


class CommitModel(SettingsModel):
    """``[commit]``."""

    durability: Literal["fsync", "periodic", "none"] = "fsync"
    keep_epochs: Count = 100
    trigger: Seconds = 1.0
    sync_interval: Annotated[Seconds, Field(gt=0)] | None = None

    @model_validator(mode="after")
    def _syncs(self) -> CommitModel:
        if self.sync_interval is not None and self.durability != "periodic":
            raise ValueError(f'sync_interval goes with durability = "periodic", not "{self.durability}"')
        return self


FeedModel = FilesFeedModel | KafkaFeedModel | DeltaFeedModel


class StreamModel(SettingsModel):
    """The whole file."""

    name: str = Field(min_length=1)
    table: str = Field(min_length=1)
    deployed_from: str = Field(alias="schema", min_length=1)
    feed: Annotated[FeedModel, Field(discriminator="type")]
    columns: dict[str, ColumnModel] = Field(default_factory=dict)
    ignore: list[str] = Field(default_factory=list, alias="columns.ignore")
    partition: PartitionModel
    bad_rows: BadRowsModel = BadRowsModel()
    commit: CommitModel = CommitModel()
