"""What a feed of Kafka topics is: values only, which pickle. Client settings may hold secrets, so they never show.

Secrets go to the planner and to the workers inside pickled values, not by the options of a Spark source, because
options stand in plans, in the UI and in the event log.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import ClassVar, Literal

from sparkhaven.ingest.spec import (
    KAFKA_META,
    AvroSource,
    CsvOptions,
    Limit,
    MissingColumns,
    PayloadFormat,
    ProtobufSource,
    Traits,
)
from sparkhaven.store.epochs.state.log_values import OffsetRange

Frame = Literal["confluent"]
StartKind = Literal["earliest", "latest", "committed", "timestamp", "offsets"]

JAAS_VALUE = re.compile(r'(?P<name>[\w.]+)\s*=\s*"(?P<value>(?:[^"\\]|\\.)*)"')
_SECRET = re.compile(r"password|secret|token(?!\.endpoint)|jaas|username|\bkey\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """Settings of the client by Java's names, beside those that are ours to choose. ``repr`` shows names only."""

    values: tuple[tuple[str, str], ...] = ()

    def __repr__(self) -> str:
        return f"ClientSettings({', '.join(name for name, _ in self.values)})"

    def hide(self, text: str) -> str:
        """The text without the values of settings that are secret."""
        for name, value in self.values:
            if _SECRET.search(name) and value:
                for secret in (value, *(part["value"] for part in JAAS_VALUE.finditer(value) if part["value"])):
                    text = text.replace(secret, "***")
        return text


@dataclass(frozen=True, slots=True)
class Start:
    """Where a stream without an epoch begins: ``timestamp`` with ``at_ms``, ``offsets`` with (topic, partition).

    A partition that ``offsets`` does not name begins at its earliest offset, as does one that becomes part of the feed
    once the stream has an epoch, while it runs or is down. ``committed`` is what the consumer group ``group.id`` has
    committed at the broker, else the earliest.
    """

    kind: StartKind = "earliest"
    at_ms: int | None = None
    offsets: tuple[tuple[str, int, int], ...] = ()  # topic, partition, offset


@dataclass(frozen=True, slots=True)
class ReadLimits:
    """How many messages, and bytes of values and keys, are decoded together; the last message may be large.

    ``held_messages``, ``held_bytes``: of a range that is looked at twice without a second fetch. ``consumers``:
    partitions whose messages a reader keeps from one batch to the next.
    """

    messages: int = 100_000
    bytes: int = 16 << 20
    held_messages: int = 400_000
    held_bytes: int = 64 << 20
    consumers: int = 64


@dataclass(frozen=True, slots=True)
class KafkaOptions:
    """Topics by name, or all whose whole name matches ``pattern``. ``format`` is that of the value.

    ``tombstones``: a message without a value is a row with nulls for fields of the value, or passed over and counted.
    ``missing_columns``: ``names`` of CSV or a schema of a registry that lack a stored column are refused, or null.
    ``frame``: payloads of JSON and Protobuf begin with the frame of a schema registry.
    ``binary_as_text``: bytes of Avro and Protobuf are texts in UTF-8.
    ``allow_gap``: where messages are gone that were not read, go on behind them and record the gap.
    """

    traits: ClassVar[Traits] = Traits("kafka", OffsetRange, "messages", KAFKA_META, ("partition", "topic"), keys=True)

    bootstrap: str
    topics: tuple[str, ...] = ()
    pattern: str | None = None
    start: Start = field(default_factory=Start)
    format: PayloadFormat = "json"
    csv: CsvOptions = field(default_factory=CsvOptions)
    key_format: PayloadFormat = "raw"
    avro: AvroSource | None = None
    key_avro: AvroSource | None = None
    protobuf: ProtobufSource | None = None
    key_protobuf: ProtobufSource | None = None
    client: ClientSettings = field(default_factory=ClientSettings)
    max_per_trigger: Limit = field(default_factory=Limit)
    tombstones: Literal["row", "ignore"] = "row"
    allow_gap: bool = False
    missing_columns: MissingColumns = "fail"
    encoding: str = "utf-8"
    frame: Frame | None = None
    key_frame: Frame | None = None
    binary_as_text: bool = False
    limits: ReadLimits = ReadLimits()

    @property
    def path(self) -> str:
        return f"{self.pattern if self.pattern is not None else ', '.join(self.topics)} at {self.bootstrap}"

    def takes(self, topic: str) -> bool:
        return topic in self.topics if self.pattern is None else re.fullmatch(self.pattern, topic) is not None
