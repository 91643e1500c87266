"""``[feed]`` of a stream file with type kafka, as pydantic models."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, ConfigDict, Field, model_validator

from ingest.options.formats import MissingColumns, PayloadFormat
from ingest.options.kafka import ClientSettings, Start
from jobs.settings.base_model import DIALECT, Encoding, MaxPerTrigger, SettingsModel
from jobs.settings.kafka_values import parse_client, parse_pattern, parse_start


class AvroModel(SettingsModel):
    """``avro = { schema = "file.avsc" }`` or ``{ registry = "directory or address" }``."""

    definition: str | None = Field(default=None, alias="schema", min_length=1)
    registry: str | None = Field(default=None, min_length=1)

    @model_validator(mode="after")
    def _one(self) -> AvroModel:
        if (self.definition is None) == (self.registry is None):
            raise ValueError('give one of schema, registry, like { schema = "trade.avsc" }')
        return self


class ProtobufModel(SettingsModel):
    """``protobuf = { schema = "file.desc", message = "pkg.Name" }``; the file is a FileDescriptorSet."""

    definition: str = Field(alias="schema", min_length=1)
    message: str = Field(min_length=1)


class KeyModel(SettingsModel):
    """``[feed] key``: how keys of messages are read, for columns with ``key = "field"``."""

    format: PayloadFormat
    avro: AvroModel | None = None
    protobuf: ProtobufModel | None = None


class KafkaFeedModel(SettingsModel):
    """``[feed]`` with type kafka."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    type: Literal["kafka"]
    bootstrap: str = Field(min_length=1)
    topics: list[Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,249}$")]] | None = Field(default=None, min_length=1)
    pattern: Annotated[str, BeforeValidator(parse_pattern)] | None = None
    start: Annotated[Start, BeforeValidator(parse_start)] = Start()
    format: PayloadFormat = "json"
    avro: AvroModel | None = None
    protobuf: ProtobufModel | None = None
    names: list[str] | None = None
    delimiter: str | None = Field(default=None, min_length=1, max_length=1)
    quote: str | None = Field(default=None, min_length=1, max_length=1)
    null: list[str] | None = None
    quoted_null: bool | None = None
    trailing_delimiter: bool | None = None
    encoding: Encoding | None = None
    key: KeyModel = KeyModel(format="raw")
    client: Annotated[ClientSettings, BeforeValidator(parse_client)] = ClientSettings()
    max_per_trigger: MaxPerTrigger = MaxPerTrigger(rows=1_000_000)
    tombstones: Literal["row", "ignore"] = "row"
    allow_gap: bool = False
    missing_columns: MissingColumns = "fail"

    @property
    def csv(self) -> dict[str, Any]:
        """The options of the CSV dialect that were given."""
        given = {name: getattr(self, name) for name in DIALECT}
        return {name: value for name, value in given.items() if value is not None}

    @model_validator(mode="after")
    def _fits(self) -> KafkaFeedModel:
        if (self.topics is None) == (self.pattern is None):
            raise ValueError('give one of topics, pattern, like topics = ["flights"]')
        formats = {self.format, self.key.format}
        if self.encoding is not None and not formats & {"json", "csv"}:
            raise ValueError('encoding is that of texts, read with format = "json" or "csv"')
        if self.csv and "csv" not in formats:
            raise ValueError(f'only read with format = "csv": {", ".join(self.csv)}')
        if "csv" in formats and not self.names:
            raise ValueError('format = "csv" needs names = ["first", "second"]: messages have no header')
        for part, name in ((self, "format"), (self.key, "key.format")):
            if (part.format == "avro") != (part.avro is not None):
                raise ValueError(f'avro = {{ schema = "file.avsc" }} goes with {name} = "avro"')
            if (part.format == "protobuf") != (part.protobuf is not None):
                example = 'protobuf = { schema = "file.desc", message = "pkg.Name" }'
                raise ValueError(f'{example} goes with {name} = "protobuf"')
        if self.max_per_trigger.files is not None:
            raise ValueError("max_per_trigger of a kafka feed is in rows or bytes, it has no files")
        return self
