"""Messages of a topic that no broker has sent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sparkhaven.ingest.bad_rows import Rejects
from sparkhaven.ingest.feeds.kafka.blocks import FramedMessages, Message
from sparkhaven.ingest.feeds.kafka.messages import MessageDecoder
from sparkhaven.ingest.feeds.kafka.options import KafkaOptions
from sparkhaven.ingest.spec import (
    BadRowBudget,
    ColumnSpec,
    InternalRule,
    PartitionSpec,
    StreamSpec,
    ValueRule,
)
from sparkhaven.ingest.targets import resolve_targets
from sparkhaven.ingest.values.typed_rows import TypedRows
from sparkhaven.store.schema.document.schema_file import parse_schema

PLACE = "ticks/3"


@dataclass
class Fake:
    """A message as a producer has made it: ``kind`` 0 has no timestamp, and a header may come twice."""

    at: int
    payload: bytes | None
    name: bytes | None = None
    time_ms: int = 1000
    kind: int = 1
    named: list[tuple[str, bytes | None]] | None = None

    @property
    def message(self) -> Message:
        """It, as a reader hands it out."""
        headers = {name: value for name, value in dict(self.named or ()).items() if value is not None}
        return Message(self.at, self.payload, self.name, self.time_ms if self.kind else -1, headers)


def block_of(messages: Sequence[Fake], headers: Sequence[str] = ()) -> FramedMessages:
    """A block of them, with the headers of these names."""
    return FramedMessages.made([fake.message for fake in messages], headers)


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
    decoder = MessageDecoder(targets, spec)
    rows = decoder.decode(block_of(messages, decoder.headers), PLACE, 77, rejects)
    rejects.flush()
    rejects.rows = quarantined
    names = [target.column.name for target in targets]
    return rows, rejects, {name: array.to_pylist() for name, array in zip(names, rows.columns, strict=True)}
