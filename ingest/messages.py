"""Messages to typed rows: value and key each by a decoder of its own, and columns from where a message stands.

Every message is one row, whatever its payload holds: the decoders get payloads as framed records, and a message without
a value (a tombstone) has nulls for the fields of the value. A row is good when all its parts are; what it lacks is told
of the first part that is bad, with topic, partition and offset, and the value as payload.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import pyarrow as pa

from ingest.bad_rows import MAX_PAYLOAD, BadRow, Rejects
from ingest.csv_rows import CsvRows
from ingest.json_rows import JsonRows
from ingest.kafka_feed import AvroSource, KafkaFeed, PayloadFormat
from ingest.lines import LineBlock, framed_block
from ingest.raw_rows import RawRows
from ingest.rows import Ints, Rows
from ingest.spec import StreamSpec, Target

MS = 1_000_000


class Message(Protocol):
    """What is asked of a message: that of the client library, or a row of the quarantine that was one."""

    def offset(self) -> int:
        """Its number in the partition."""
        ...

    def value(self) -> bytes | None:
        """Its value, None for a tombstone."""
        ...

    def key(self) -> bytes | None:
        """Its key."""
        ...

    def timestamp(self) -> tuple[int, int]:
        """Kind (0: it has none) and ms since the epoch."""
        ...


class Decode(Protocol):
    """Framed payloads to typed rows; bad ones are rejected."""

    def __call__(self, block: LineBlock, file: str, rejects: Rejects) -> Rows:
        """Good rows in order; ``file`` is topic/partition."""
        ...


@dataclass(frozen=True, slots=True)
class _Part:
    """The targets (by place) that come from one payload of a message, and how."""

    places: tuple[int, ...]
    targets: tuple[Target, ...]
    pick: Callable[[Message], bytes | None]
    decode: Decode


class MessageRows:
    """Decoder of the messages of one stream. ``targets`` are all columns, in the order of the rows made."""

    def __init__(self, targets: Sequence[Target], feed: KafkaFeed, spec: StreamSpec) -> None:
        self._targets, self._feed = tuple(targets), feed
        wholes = [n for n, t in enumerate(targets) if t.meta == "key"]
        keys = [n for n, t in enumerate(targets) if t.meta is None and t.of == "key"]
        values = [n for n, t in enumerate(targets) if t.meta is None and t.of == "value"]
        self._parts: list[_Part] = []
        parts: tuple[tuple[list[int], PayloadFormat, AvroSource | None, Callable[[Message], bytes | None]], ...] = (
            (wholes, "raw", None, _key),
            (keys, feed.key_format, feed.key_avro, _key),
            (values, feed.format, feed.avro, _value),
        )
        for places, format, avro, pick in parts:
            if places:
                wanted = tuple(targets[n] for n in places)
                self._parts.append(_Part(tuple(places), wanted, pick, _decoder(format, avro, wanted, feed, spec)))

    def decode(self, messages: Sequence[Message], place: str, received_ns: int, rejects: Rejects) -> Rows:
        """Typed rows of messages in the order of their offsets; ``place`` is topic/partition."""
        if self._feed.tombstones == "ignore":
            kept = [message for message in messages if message.value() is not None]
            rejects.others["tombstones"] += len(messages) - len(kept)
            messages = kept
        offsets = np.fromiter((message.offset() for message in messages), np.int64, len(messages))
        rejects.complete = _completing(messages, offsets)
        read = rejects.read + len(messages)
        columns: dict[int, pa.Array] = {}
        for part in self._parts:
            rows = _part_rows(part, messages, offsets, place, rejects)
            if len(rows) < len(messages):
                good = np.isin(offsets, rows.numbers, assume_unique=True)
                columns = {n: column.filter(pa.array(good)) for n, column in columns.items()}
                messages = [messages[n] for n in np.flatnonzero(good).tolist()]
                offsets = offsets[good]
            columns.update(zip(part.places, rows.columns, strict=True))
        rejects.read = read
        topic, _, partition = place.rpartition("/")
        for n, target in enumerate(self._targets):
            if n not in columns:
                columns[n] = _meta(target, messages, offsets, (topic, int(partition)), received_ns)
        return Rows(tuple(columns[n] for n in range(len(self._targets))), offsets)


def payload_of(messages: Sequence[Message]) -> Callable[[int], bytes]:
    """The value of a message by its offset."""
    offsets = np.fromiter((message.offset() for message in messages), np.int64, len(messages))

    def value(offset: int) -> bytes:
        return messages[int(np.searchsorted(offsets, offset))].value() or b""

    return value


def time_ns(message: Message) -> int | None:
    """When a message was made or taken, by the broker; None if it has no timestamp."""
    kind, at_ms = message.timestamp()
    return at_ms * MS if kind and at_ms >= 0 else None


def _decoder(
    format: PayloadFormat, avro: AvroSource | None, targets: tuple[Target, ...], feed: KafkaFeed, spec: StreamSpec
) -> Decode:
    ignore, alias = spec.ignore, spec.allow_null_alias
    if format == "json":
        return JsonRows(targets, ignore, alias=alias).decode
    if format == "raw":
        return RawRows(targets, alias=alias).decode
    if format == "avro":
        from ingest.avro_rows import AvroRows  # fastavro only where it is used

        return AvroRows(targets, ignore, avro or AvroSource(), alias=alias).decode
    csv_rows = CsvRows(targets, ignore, feed.csv, alias=alias)
    return lambda block, file, rejects: csv_rows.decode(block, file, rejects)[0]


def _part_rows(part: _Part, messages: Sequence[Message], offsets: Ints, place: str, rejects: Rejects) -> Rows:
    """Rows of one part; a message that has no such payload has nulls."""
    payloads = [part.pick(message) for message in messages]
    whole = [payload for payload in payloads if payload is not None]
    if len(whole) == len(payloads):
        return part.decode(framed_block(whole, offsets), place, rejects)
    there = np.fromiter((payload is not None for payload in payloads), np.bool_, len(payloads))
    made = part.decode(framed_block(whole, offsets[there]), place, rejects)
    missing = offsets[~there]
    numbers = np.concatenate([made.numbers, missing])
    order = pa.array(np.argsort(numbers, kind="stable"))
    columns = [pa.concat_arrays([column, pa.nulls(len(missing), column.type)]).take(order) for column in made.columns]
    return Rows(tuple(columns), np.sort(numbers))


def _completing(messages: Sequence[Message], offsets: Ints) -> Callable[[BadRow], BadRow]:
    def complete(row: BadRow) -> BadRow:
        message = messages[int(np.searchsorted(offsets, row.line))]
        value = message.value()
        return replace(
            row,
            unit="offset",
            key=message.key(),
            time_ns=time_ns(message),
            payload=None if value is None else value[:MAX_PAYLOAD],
            size=len(value or b""),
        )

    return complete


def _key(message: Message) -> bytes | None:
    return message.key()


def _value(message: Message) -> bytes | None:
    return message.value()


def _meta(
    target: Target, messages: Sequence[Message], offsets: Ints, place: tuple[str, int], received_ns: int
) -> pa.Array:
    arrow = target.column.type.arrow
    if target.meta == "topic":
        return pa.repeat(place[0], len(offsets))
    if target.meta == "partition":
        return pa.array(np.full(len(offsets), place[1]), pa.int64()).cast(arrow)
    if target.meta == "offset":
        return pa.array(offsets, pa.int64())
    if target.meta == "receive_time":
        return pa.array(np.full(len(offsets), received_ns, np.int64)).view(arrow)
    return pa.array([time_ns(message) for message in messages], pa.int64()).view(arrow)
