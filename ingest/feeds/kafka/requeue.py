"""Rejected messages decoded once more, from what quarantine keeps of them: value, key, time and place."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from sparkhaven.ingest.bad_rows import Rejects
from sparkhaven.ingest.feeds.base import RequeuedRows
from sparkhaven.ingest.feeds.kafka.blocks import MS, Headers, MessageBlock
from sparkhaven.ingest.feeds.kafka.messages import MessageDecoder, headers_of
from sparkhaven.ingest.feeds.kafka.options import KafkaOptions
from sparkhaven.ingest.spec.stream_spec import StreamSpec, Target
from sparkhaven.ingest.values.instants import INSTANT_HIGH
from sparkhaven.store.quarantine.rejected_rows import RejectedRow

LATEST_MS = 2**63 - 1


@dataclass(frozen=True, slots=True)
class _Message:
    """A row as the message that it was."""

    row: RejectedRow

    def offset(self) -> int:
        return self.row["Position"]

    def value(self) -> bytes | None:
        return self.row["Payload"]

    def key(self) -> bytes | None:
        return self.row["Key"]

    def timestamp(self) -> tuple[int, int]:
        at_ns = self.row["SourceTime"]
        if at_ns is None:
            return 0, -1
        return 1, LATEST_MS if at_ns == INSTANT_HIGH else at_ns // MS  # a far one has saturated

    def headers(self) -> Headers | None:
        return None if self.row["Header"] is None else headers_of(tuple(json.loads(self.row["Header"])))


def requeue_messages(
    source: str,
    rows: Sequence[RejectedRow],
    spec: StreamSpec,
    options: KafkaOptions,
    targets: Sequence[Target],
    now_ns: int,
    rejects: Rejects,
) -> RequeuedRows:
    """Rows of one topic and partition, by the decoder of messages."""
    messages = [_Message(row) for row in rows]
    typed = MessageDecoder(targets, options, spec).decode(MessageBlock.of(messages), source, now_ns, rejects)
    payloads = {row["Position"]: row["Payload"] or b"" for row in rows}
    return RequeuedRows(source, typed, payloads, "offset", rejects.complete)
