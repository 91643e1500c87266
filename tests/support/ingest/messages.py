"""Messages of a topic that no broker has sent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sparkhaven.ingest.bad_rows import Rejects
from sparkhaven.ingest.feeds.kafka.blocks import MessageBlock
from sparkhaven.ingest.feeds.kafka.messages import MessageDecoder
from sparkhaven.ingest.feeds.kafka.options import KafkaOptions
from sparkhaven.ingest.spec.stream_spec import (
    BadRowBudget,
    ColumnSpec,
    InternalRule,
    PartitionSpec,
    StreamSpec,
    ValueRule,
)
from sparkhaven.ingest.targets.target_columns import resolve_targets
from sparkhaven.ingest.values.typed_rows import TypedRows
from sparkhaven.store.schema.document.schema_file import parse_schema

PLACE = "ticks/3"


@dataclass
class Fake:
    """A message as the client hands it out."""

    at: int
    payload: bytes | None
    name: bytes | None = None
    time_ms: int = 1000
    kind: int = 1
    named: list[tuple[str, bytes | None]] | None = None

    def offset(self) -> int:
        return self.at

    def value(self) -> bytes | None:
        return self.payload

    def key(self) -> bytes | None:
        return self.name

    def timestamp(self) -> tuple[int, int]:
        return self.kind, self.time_ms

    def headers(self) -> list[tuple[str, bytes | None]] | None:
        return self.named


def decode(
    messages: Sequence[Fake], columns: dict[str, str], specs: Sequence[ColumnSpec] = (), **feed: Any
) -> tuple[TypedRows, Rejects, dict[str, list[Any]]]:
    """Rows, rejects, and the columns as Python values by name."""
    xml = "".join(f'<Column name="{name}" dataType="{kind}"/>' for name, kind in columns.items())
    text = f'<Table namespace="T" name="T" storageType="NestedPartitionedOnDisk"><Partitions keyFormula="${{autobalance_single}}"/><Column name="Date" dataType="String" columnType="Partitioning"/>{xml}</Table>'  # noqa: E501
    schema = parse_schema(text.encode(), "T.T.schema").schema
    part = PartitionSpec(InternalRule("meta", "partition"), ValueRule(fixed="2026-11-21"))
    made = KafkaOptions("h", ("ticks",), **feed)
    spec = StreamSpec("s", "T.T", made, part, tuple(specs), bad_rows=BadRowBudget(max_rows=10_000))
    targets = resolve_targets(spec, schema)
    rejects = Rejects(spec.bad_rows, sink=lambda rows: quarantined.extend(rows))
    quarantined: list[Any] = []
    rows = MessageDecoder(targets, made, spec).decode(MessageBlock.of(messages), PLACE, 77, rejects)
    rejects.flush()
    rejects.rows = quarantined
    names = [target.column.name for target in targets]
    return rows, rejects, {name: array.to_pylist() for name, array in zip(names, rows.columns, strict=True)}
