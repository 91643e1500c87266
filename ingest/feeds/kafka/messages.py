"""Messages to typed rows: value and key each by a decoder of its own, and columns from where a message stands.

Every message is one row, whatever its payload holds: the decoders get payloads as framed records, and a message without
a value (a tombstone) has nulls for the fields of the value. A row is good when all its parts are; otherwise the first
part that is bad is reported, with topic, partition and offset, and the value as payload.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Protocol

import numpy as np
import pyarrow as pa

from ingest.bad_rows import MAX_PAYLOAD, BadRow, Rejects
from ingest.content.lines import LineBlock
from ingest.encodings import reencoded
from ingest.feeds.kafka.blocks import Messages, Part, time_ns
from ingest.formats.csv.rows import CsvRows
from ingest.formats.json.rows import JsonRows
from ingest.formats.raw import RawRows
from ingest.formats.records import RecordRows
from ingest.options.formats import UTF8, AvroSource, PayloadFormat, PayloadSchema, ProtobufSource
from ingest.options.kafka import KafkaOptions
from ingest.spec import StreamSpec, Target
from ingest.values.rows import Rows
from store.types.frozen import frozen


class Decode(Protocol):
    """Framed payloads to typed rows; bad ones are rejected."""

    def __call__(self, block: LineBlock, file: str, rejects: Rejects) -> Rows:
        """Good rows in order; ``file`` is topic/partition."""
        ...


@frozen
class _Part:
    """The targets (by place) that come from one payload of a message, and how."""

    places: tuple[int, ...]
    targets: tuple[Target, ...]
    of: Part
    decode: Decode
    encoding: str


class MessageRows:
    """Decoder of the messages of one stream. ``targets`` are all columns, in the order of the rows made."""

    def __init__(self, targets: Sequence[Target], feed: KafkaOptions, spec: StreamSpec) -> None:
        self._targets, self._feed = tuple(targets), feed
        wholes = [n for n, t in enumerate(targets) if t.meta == "key"]
        keys = [n for n, t in enumerate(targets) if t.meta is None and t.of == "key"]
        values = [n for n, t in enumerate(targets) if t.meta is None and t.of == "value"]
        self._parts: list[_Part] = []
        parts: tuple[tuple[list[int], PayloadFormat, PayloadSchema | None, Part], ...] = (
            (wholes, "raw", None, "key"),
            (keys, feed.key_format, feed.key_avro or feed.key_protobuf, "key"),
            (values, feed.format, feed.avro or feed.protobuf, "value"),
        )
        for places, format, schema, of in parts:
            if places:
                wanted = tuple(targets[n] for n in places)
                decoder = _decoder(format, schema, wanted, feed, spec)
                encoding = feed.encoding if format in ("json", "csv") else UTF8
                self._parts.append(_Part(tuple(places), wanted, of, decoder, encoding))

    def decode(self, block: Messages, place: str, received_ns: int, rejects: Rejects) -> Rows:
        """Typed rows of messages in the order of their offsets; ``place`` is topic/partition."""
        if self._feed.tombstones == "ignore":
            whole = block.where(block.valued())
            rejects.others["tombstones"] += len(block.offsets) - len(whole.offsets)
            block = whole
        read = rejects.read + len(block.offsets)
        columns: dict[int, pa.Array] = {}
        for part in self._parts:
            rejects.complete = partial(_completed, block, "key: " if part.of == "key" else "", part.encoding)
            rows = _part_rows(part, block, place, rejects)
            if len(rows) < len(block.offsets):
                good = np.isin(block.offsets, rows.numbers, assume_unique=True)
                columns = {n: column.filter(pa.array(good)) for n, column in columns.items()}
                block = block.where(good)
            columns.update(zip(part.places, rows.columns, strict=True))
        rejects.read = read
        rejects.complete = partial(_completed, block, "", UTF8)
        topic, _, partition = place.rpartition("/")
        for n, target in enumerate(self._targets):
            if n not in columns:
                columns[n] = _meta(target, block, (topic, int(partition)), received_ns)
        return Rows(tuple(columns[n] for n in range(len(self._targets))), block.offsets)


def _decoder(
    format: PayloadFormat,
    schema: PayloadSchema | None,
    targets: tuple[Target, ...],
    feed: KafkaOptions,
    spec: StreamSpec,
) -> Decode:
    ignore, alias = spec.ignore, spec.allow_null_alias
    if format == "json":
        return JsonRows(targets, ignore, alias=alias).decode
    if format == "raw":
        return RawRows(targets, alias=alias).decode
    if isinstance(schema, AvroSource):
        from ingest.formats.avro.records import AvroRecords  # fastavro only where it is used

        return RecordRows(
            targets, ignore, AvroRecords(targets, schema, alias=alias, missing=feed.missing_columns)
        ).decode
    if isinstance(schema, ProtobufSource):
        from ingest.formats.protobuf.records import ProtobufRecords  # and protobuf

        return RecordRows(targets, ignore, ProtobufRecords(targets, schema, alias=alias)).decode
    csv_rows = CsvRows(targets, ignore, feed.csv, alias=alias, missing=feed.missing_columns)
    return lambda block, file, rejects: csv_rows.decode(block, file, rejects)[0]


def _part_rows(part: _Part, block: Messages, place: str, rejects: Rejects) -> Rows:
    """Rows of one part; a message that has no such payload has nulls."""
    found = block.payloads(part.of, part.encoding)
    made, there = part.decode(found.block, place, rejects), found.there
    if there is None:
        return made
    missing = block.offsets[~there]
    numbers = np.concatenate([made.numbers, missing])
    order = pa.array(np.argsort(numbers, kind="stable"))
    columns = [pa.concat_arrays([column, pa.nulls(len(missing), column.type)]).take(order) for column in made.columns]
    return Rows(tuple(columns), np.sort(numbers))


def _completed(block: Messages, of: str, encoding: str, row: BadRow) -> BadRow:
    """A bad row with what its decoder did not know of the message; ``of`` says which payload the reason is about."""
    message = block.at(row.line)
    value = message.value()
    payload = None if value is None else value[:MAX_PAYLOAD]
    key, at_ns = message.key(), time_ns(message)
    row = reencoded(encoding, row) if encoding != UTF8 else row
    said = replace(row, unit="offset", reason=of + row.reason)
    return replace(said, key=key, time_ns=at_ns, payload=payload, size=len(value or b""))


def _meta(target: Target, block: Messages, place: tuple[str, int], received_ns: int) -> pa.Array:
    arrow, count = target.column.type.arrow, len(block.offsets)
    if target.meta == "topic":
        return pa.repeat(place[0], count)
    if target.meta == "partition":
        return pa.array(np.full(count, place[1]), pa.int64()).cast(arrow)
    if target.meta == "offset":
        return pa.array(block.offsets, pa.int64())
    if target.meta == "receive_time":
        return pa.array(np.full(count, received_ns, np.int64)).view(arrow)
    return block.instants().view(arrow)
