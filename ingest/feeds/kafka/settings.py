"""``[feed]`` of a stream file with type kafka: pydantic models, and the options that they stand for."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, model_validator

from sparkhaven.ingest.feeds.kafka.client_settings import client_terms
from sparkhaven.ingest.feeds.kafka.options import ClientSettings, Frame, KafkaOptions, Start
from sparkhaven.ingest.settings import (
    DIALECT,
    Encoding,
    MaxPerTrigger,
    PathText,
    SettingsModel,
    beside,
    csv_options,
    given_keys,
    mounted,
    parse_instant_ns,
)
from sparkhaven.ingest.spec import AvroSource, CsvOptions, MissingColumns, PayloadFormat, ProtobufSource
from sparkhaven.store.errors import SettingsError
from sparkhaven.store.io.fs import Fs

_PARTITION = re.compile(r"(?P<topic>[A-Za-z0-9._-]{1,249}):(?P<partition>\d{1,9})\Z")
_KINDS = ("earliest", "latest", "committed")
_EXPECTED = '"earliest", "latest", "committed", { timestamp = "2026-11-21T00:00:00Z" } or { "topic:0" = 17 }'


def parse_start(value: object) -> Start:
    """``feed.start``; ValueError for anything else."""
    if isinstance(value, Start):
        return value
    if isinstance(value, str) and value in _KINDS:
        return Start(value)  # type: ignore[arg-type]
    if isinstance(value, Mapping) and set(value) == {"timestamp"}:
        return Start("timestamp", at_ms=-(-parse_instant_ns(value["timestamp"]) // 1_000_000))  # none before it
    if not isinstance(value, Mapping) or not value:
        raise ValueError(f"expected {_EXPECTED}")
    offsets = []
    for name, offset in value.items():
        match = _PARTITION.match(str(name))
        if match is None or not isinstance(offset, int) or isinstance(offset, bool) or offset < 0:
            raise ValueError(f"expected {_EXPECTED}")
        offsets.append((match["topic"], int(match["partition"]), offset))
    return Start("offsets", offsets=tuple(sorted(offsets)))


def parse_client(value: object) -> ClientSettings:
    """``feed.client``: texts, numbers and booleans by Java's names. Messages never show a value."""
    if isinstance(value, ClientSettings):
        return value
    if not isinstance(value, Mapping):
        raise ValueError('expected settings by name, like { "security.protocol" = "SASL_SSL" }')
    settings = []
    for name, setting in sorted(value.items()):
        if isinstance(setting, bool):
            setting = "true" if setting else "false"
        if not isinstance(setting, str | int | float):
            raise ValueError(f"{name}: expected a text, a number or a boolean")
        settings.append((str(name), str(setting)))
    client = ClientSettings(tuple(settings))
    client_terms(client)
    return client


def parse_pattern(value: object) -> str:
    """``feed.pattern``: a regular expression for whole names of topics."""
    if not isinstance(value, str) or not value:
        raise ValueError('expected a regular expression, like "flights-.*"')
    try:
        re.compile(value)
    except re.error as error:
        raise ValueError(f"not a regular expression: {error}") from None
    return value


ADDRESSES = ("http://", "https://")


def _registry(text: str) -> str:
    return text if text.startswith(ADDRESSES) else mounted(text)


class AvroModel(SettingsModel):
    """``avro = { schema = "file.avsc" }`` or ``{ registry = "directory or address" }``."""

    definition: PathText | None = Field(default=None, alias="schema")
    """Schema file of all messages."""
    registry: Annotated[str, Field(min_length=1), AfterValidator(_registry)] | None = None
    """Schema registry by address, or a directory of files `<id>.avsc`."""

    @model_validator(mode="after")
    def _one(self) -> AvroModel:
        if (self.definition is None) == (self.registry is None):
            raise ValueError('give one of schema, registry, like { schema = "trade.avsc" }')
        return self


class ProtobufModel(SettingsModel):
    """``protobuf = { schema = "file.desc", message = "pkg.Name" }``; the file is a FileDescriptorSet."""

    definition: PathText = Field(alias="schema")
    """File descriptor set, as `protoc --include_imports --descriptor_set_out` writes it."""
    message: str = Field(min_length=1)
    """Full name of the message type."""

    @model_validator(mode="before")
    @classmethod
    def _no_registry(cls, given: object) -> object:
        if isinstance(given, dict) and "registry" in given:
            raise ValueError(
                "registry is set, which is asked for Avro schemas. For Protobuf write schema = "
                '"FILE.desc", which protoc makes of the .proto, and frame = "confluent" in [feed]'
            )
        return given


class KeyModel(SettingsModel):
    """``[feed] key``: how keys of messages are read, for columns with ``key = "field"``."""

    format: PayloadFormat
    """Format of message keys."""
    avro: AvroModel | None = None
    """Schema of Avro keys."""
    protobuf: ProtobufModel | None = None
    """Type of Protobuf keys."""
    frame: Frame | None = None
    """`"confluent"`: JSON and Protobuf keys begin with the frame of a schema registry."""


class KafkaFeedModel(SettingsModel):
    """``[feed]`` with type kafka."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    type: Literal["kafka"]
    """Feed of Kafka topics."""
    bootstrap: str = Field(min_length=1)
    """Brokers to connect to first: `host:port`, separated by commas."""
    topics: list[Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,249}$")]] | None = Field(default=None, min_length=1)
    """Topics by name."""
    pattern: Annotated[str, BeforeValidator(parse_pattern)] | None = None
    """Regular expression for whole names of topics, instead of `topics`."""
    start: Annotated[Start, BeforeValidator(parse_start)] = Start()
    """Where a stream without an epoch begins: `"earliest"`, `"latest"`, `"committed"`, `{ timestamp =
    "2026-11-21T00:00:00Z" }` or `{ "topic:0" = 17 }`. Later the commit log decides.
    """
    format: PayloadFormat = "json"
    """Format of message values."""
    avro: AvroModel | None = None
    """Schema of Avro values."""
    protobuf: ProtobufModel | None = None
    """Type of Protobuf values."""
    frame: Frame | None = None
    """`"confluent"`: JSON and Protobuf values begin with the frame of a schema registry, as Confluent's serializers
    write them. With `avro = { registry = … }` they do anyway.
    """
    names: list[str] | None = None
    """CSV: names of the columns; messages have no header."""
    delimiter: str | None = Field(default=None, min_length=1, max_length=1)
    """CSV: one character. Default: `","`."""
    quote: str | None = Field(default=None, min_length=1, max_length=1)
    """CSV: one character. Default: the double quote."""
    null: list[str] | None = None
    """CSV: texts that mean null where they are not quoted. Default: `[""]`."""
    quoted_null: bool | None = None
    """CSV: the texts of `null` mean null in quotes too. Default: false."""
    trailing_delimiter: bool | None = None
    """CSV: a record may end with one delimiter more. Default: false."""
    encoding: Encoding | None = None
    """Encoding of JSON and CSV. Default: `"utf-8"`."""
    key: KeyModel = KeyModel(format="raw")
    """How keys of messages are read, for columns with `key`."""
    client: Annotated[ClientSettings, BeforeValidator(parse_client)] = ClientSettings()
    """Settings of the Kafka client by Java's names, such as security; values are never logged."""
    max_per_trigger: MaxPerTrigger = MaxPerTrigger(rows=1_000_000)
    """Largest batch, in rows or bytes."""
    tombstones: Literal["row", "ignore"] = "row"
    """A message without a value: a row with nulls, or skipped."""
    allow_gap: bool = False
    """Where messages are gone that were not read: go on behind them and record the gap, instead of stopping."""
    binary_as_text: bool = False
    """Bytes and fixed of Avro, and bytes of Protobuf, are texts in UTF-8."""
    missing_columns: MissingColumns = "fail"
    """A stored column that the names or the schema lack: refused, or null."""

    @model_validator(mode="after")
    def _fits(self) -> KafkaFeedModel:
        if (self.topics is None) == (self.pattern is None):
            raise ValueError('give one of topics, pattern, like topics = ["flights"]')
        formats = {self.format, self.key.format}
        if self.encoding is not None and not formats & {"json", "csv"}:
            raise ValueError('encoding is set, and format is neither "json" nor "csv"')
        dialect_keys = given_keys(self, DIALECT)
        if dialect_keys and "csv" not in formats:
            raise ValueError(f'format is not "csv", which these settings are for: {", ".join(dialect_keys)}')
        if "csv" in formats and not self.names:
            raise ValueError('format = "csv" without names, like names = ["first", "second"]')
        for part, name in ((self, "format"), (self.key, "key.format")):
            if (part.format == "avro") != (part.avro is not None):
                raise ValueError(f'{name} = "avro" without avro = {{ schema = "file.avsc" }}, or the reverse')
            if (part.format == "protobuf") != (part.protobuf is not None):
                example = 'protobuf = { schema = "file.desc", message = "pkg.Name" }'
                raise ValueError(f'{name} = "protobuf" without {example}, or the reverse')
            unregistered = part.avro is not None and part.avro.registry is None
            if part.frame is not None and (part.format in ("csv", "raw") or unregistered):
                raise ValueError(
                    f'frame is set beside {name} = "{part.format}". For Avro set avro = {{ registry = "https://…" }}'
                )
        if self.binary_as_text and not formats & {"avro", "protobuf"}:
            raise ValueError('binary_as_text is set, and format is neither "avro" nor "protobuf"')
        if self.max_per_trigger.files is not None:
            raise ValueError("max_per_trigger of a kafka feed is in files")
        return self


def kafka_options(feed: KafkaFeedModel, base: Path, fs: Fs) -> KafkaOptions:
    """The options of a checked ``[feed]``; relative paths start from ``base``.

    SettingsError for a schema or a registry that is not there.
    """
    return KafkaOptions(
        bootstrap=feed.bootstrap,
        topics=tuple(dict.fromkeys(feed.topics or ())),
        pattern=feed.pattern,
        start=feed.start,
        format=feed.format,
        csv=csv_options(feed, DIALECT, CsvOptions(header=False)),
        key_format=feed.key.format,
        avro=_avro(feed.avro, base, fs),
        key_avro=_avro(feed.key.avro, base, fs),
        protobuf=_protobuf(feed.protobuf, base, fs),
        key_protobuf=_protobuf(feed.key.protobuf, base, fs),
        client=feed.client,
        max_per_trigger=feed.max_per_trigger.limit,
        tombstones=feed.tombstones,
        allow_gap=feed.allow_gap,
        missing_columns=feed.missing_columns,
        encoding=feed.encoding or "utf-8",
        frame=feed.frame,
        key_frame=feed.key.frame,
        binary_as_text=feed.binary_as_text,
    )


def _avro(part: AvroModel | None, base: Path, fs: Fs) -> AvroSource | None:
    """The text of a schema file, or where a registry is; a directory is relative to the stream file."""
    if part is None:
        return None
    if part.registry is not None:
        if part.registry.startswith(ADDRESSES):
            return AvroSource(registry=part.registry)
        directory = beside(base, part.registry)
        stat = fs.stat(directory)
        if stat is None or not stat.is_dir:
            raise SettingsError(
                "no such registry of Avro schemas",
                where=directory,
                expected="a directory of files <id>.avsc, or an address that begins with http:// or https://",
                found="nothing" if stat is None else "a file",
                hint="correct `avro` in [feed]",
            )
        return AvroSource(registry=str(directory))
    return AvroSource(_schema(fs, beside(base, str(part.definition)), "avro").decode("utf-8", "replace"))


def _protobuf(part: ProtobufModel | None, base: Path, fs: Fs) -> ProtobufSource | None:
    if part is None:
        return None
    path = beside(base, part.definition)
    return ProtobufSource(_schema(fs, path, "protobuf"), part.message, str(path))


def _schema(fs: Fs, path: Path, key: str) -> bytes:
    stat = fs.stat(path)
    if stat is None or stat.is_dir:
        raise SettingsError(
            f"no such {key.title()} schema",
            where=path,
            found="nothing" if stat is None else "a directory",
            hint=f"correct `{key}` in [feed]",
        )
    return fs.read(path)
