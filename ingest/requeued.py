"""Rows of the quarantine, decoded once more: by the rules of the stream as they are now, one row at a time.

Each row keeps its own position, so whatever is rejected again says where it came from, and columns that are taken from
the position get what they would have got at first. Rows of one source partition are routed together.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import Any

import numpy as np
import pyarrow as pa

from ingest.bad_rows import BadRow, Rejects, Unit, bad_row
from ingest.encodings import in_own_bytes, to_utf8
from ingest.feeds.delta.decode import path_of
from ingest.feeds.kafka.messages import MS, MessageBlock, MessageRows
from ingest.formats.csv.records import Header
from ingest.formats.csv.rows import CsvRows
from ingest.formats.json.rows import JsonRows, strict_object
from ingest.formats.parquet.text import from_row_text
from ingest.options.delta import DeltaFeed
from ingest.options.files import FeedSpec
from ingest.options.formats import UTF8
from ingest.options.kafka import KafkaFeed
from ingest.router import Routed, Router, newest_instant
from ingest.spec import StreamSpec, Target
from ingest.targets import resolve_targets
from ingest.values.exact import Refusal, Value
from ingest.values.rows import Rows, typed_array
from store.layout import LocationKey
from store.types.model import TableSchema

NS = 1_000_000_000
Row = dict[str, Any]
One = Callable[[bytes, Row, Rejects], "list[Value] | BadRow"]


@dataclass(frozen=True, slots=True)
class _Group:
    """Decoded rows of one source partition, all columns; ``complete`` is how its bad rows get what only it knows."""

    source: str
    rows: Rows
    payloads: Mapping[int, bytes]
    complete: Callable[[BadRow], BadRow] | None = None


def decode_requeued(
    table: pa.Table,
    spec: StreamSpec,
    schema: TableSchema,
    rejects: Rejects,
    *,
    late: frozenset[LocationKey] = frozenset(),
    clock: Callable[[], float] = time.time,
) -> Iterator[Routed]:
    """Routed batches of rows of schema ``store.rejected.REJECTED``, ordered by source partition and position.

    Rows that belong to the locations ``late`` are rejected as well as routed, for a caller who only tries.
    """
    targets, now_ns = resolve_targets(spec, schema), round(clock() * NS)
    decode = _messages if isinstance(spec.feed, KafkaFeed) else _file_rows
    by_source = groupby(table.to_pylist(), key=lambda row: row["SourcePartition"])
    groups = [decode(source, list(rows), spec, targets, now_ns, rejects) for source, rows in by_source]
    clock_ns = _clock_ns(spec, targets, groups, now_ns)
    for group in groups:
        rejects.complete = group.complete
        router = Router(targets, spec.partition, group.source, clock_ns, _unit(spec))
        if late:
            router.late(group.rows, group.payloads.__getitem__, late, rejects)
        yield from router.route(group.rows, group.payloads.__getitem__, rejects)
    rejects.complete = None
    rejects.flush()


def _unit(spec: StreamSpec) -> Unit:
    if isinstance(spec.feed, KafkaFeed):
        return "offset"
    return "row" if spec.feed.format == "parquet" else "line"


# --- messages -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Again:
    """A row as the message that it was."""

    row: Row

    def offset(self) -> int:
        return int(self.row["Position"])

    def value(self) -> bytes | None:
        return self.row["Payload"]  # type: ignore[no-any-return]

    def key(self) -> bytes | None:
        return self.row["Key"]  # type: ignore[no-any-return]

    def timestamp(self) -> tuple[int, int]:
        at_ns = self.row["SourceTime"]
        return (0, -1) if at_ns is None else (1, at_ns // MS)


def _messages(
    source: str, rows: Sequence[Row], spec: StreamSpec, targets: Sequence[Target], now_ns: int, rejects: Rejects
) -> _Group:
    """Rows of one topic and partition, by the decoder of messages."""
    assert isinstance(spec.feed, KafkaFeed)  # noqa: S101 the caller has looked
    messages = [_Again(row) for row in rows]
    found = MessageRows(targets, spec.feed, spec).decode(MessageBlock.of(messages), source, now_ns, rejects)
    payloads = {row["Position"]: row["Payload"] or b"" for row in rows}
    return _Group(source, found, payloads, rejects.complete)


# --- rows of files --------------------------------------------------------------------------------------------


def _file_rows(
    source: str, rows: Sequence[Row], spec: StreamSpec, targets: Sequence[Target], now_ns: int, rejects: Rejects
) -> _Group:
    """Rows of one file, each by the exact rules of its format."""
    payload_targets = [target for target in targets if target.meta is None]
    one = _decoder(spec, payload_targets)
    encoding = spec.feed.encoding if isinstance(spec.feed, FeedSpec) else UTF8
    complete = partial(in_own_bytes, encoding) if encoding != UTF8 else None
    rejects.complete = complete
    kept: list[Row] = []
    values: list[list[Value]] = []
    for row in rows:
        rejects.read += 1
        payload, number = to_utf8(row["Payload"] or b"", encoding), row["Position"]
        found: list[Value] | BadRow
        if payload.strip():
            found = one(payload, row, rejects)
        else:
            found = bad_row(source, number, None, "empty", "a row", "", payload, unit=_unit(spec))
        if isinstance(found, BadRow):
            rejects.add_all([found])
        else:
            kept.append({**row, "Payload": payload})
            values.append(found)
    made = iter([typed_array([value[n] for value in values], t) for n, t in enumerate(payload_targets)])
    path = path_of(source) if isinstance(spec.feed, DeltaFeed) else source
    columns = tuple(next(made) if t.meta is None else _meta(t, path, kept, now_ns) for t in targets)
    numbers = np.array([row["Position"] for row in kept], np.int64)
    return _Group(source, Rows(columns, numbers), {row["Position"]: row["Payload"] for row in kept}, complete)


def _decoder(spec: StreamSpec, targets: Sequence[Target]) -> One:
    """Exact values of one payload of the feed's format."""
    alias, options = spec.allow_null_alias, spec.feed.csv
    if spec.feed.format == "csv":
        csv_rows = CsvRows(targets, spec.ignore, options, alias=alias)

        def csv_row(payload: bytes, row: Row, rejects: Rejects) -> list[Value] | BadRow:
            names = options.names if row["Header"] is None else tuple(json.loads(row["Header"]))
            return csv_rows.one(payload, Header(names), row["SourcePartition"], row["Position"], rejects)

        return csv_row
    json_rows = JsonRows(targets, spec.ignore, alias=alias)

    def json_row(payload: bytes, row: Row, rejects: Rejects) -> list[Value] | BadRow:
        return json_rows.one(payload, row["SourcePartition"], row["Position"], rejects)

    def parquet_row(payload: bytes, row: Row, rejects: Rejects) -> list[Value] | BadRow:
        return _parquet_values(payload, row, targets, alias)

    return parquet_row if spec.feed.format == "parquet" else json_row


def _parquet_values(payload: bytes, row: Row, targets: Sequence[Target], alias: bool) -> list[Value] | BadRow:
    source, number = row["SourcePartition"], row["Position"]
    try:
        record = strict_object(payload.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        shown = payload.decode("utf-8", "replace")
        return bad_row(source, number, None, f"not JSON ({error})", "one JSON object", shown, payload, unit="row")
    values: list[Value] = []
    for target in targets:
        value = from_row_text(record.get(target.source), target, alias)
        if isinstance(value, Refusal):
            shown, column = str(record[target.source]), target.column.name
            return bad_row(source, number, column, value.reason, value.expected, shown, payload, unit="row")
        values.append(value)
    return values


def _clock_ns(spec: StreamSpec, targets: Sequence[Target], groups: Sequence[_Group], now_ns: int) -> int:
    """What bounds are measured from; ``batch`` is the newest instant of all rows that are sent together."""
    chosen, rule = spec.partition.clock, spec.partition.value
    if chosen.kind == "fixed" and chosen.at_ns is not None:
        return chosen.at_ns
    if chosen.kind == "wall" or rule.column is None:
        return now_ns
    found = (newest_instant(group.rows, targets, rule) for group in groups if len(group.rows))
    return max((value for value in found if value is not None), default=now_ns)


def _meta(target: Target, source: str, kept: Sequence[Row], now_ns: int) -> pa.Array:
    arrow = target.column.type.arrow
    if target.meta == "file":
        return pa.repeat(source, len(kept))
    if target.meta == "line":
        return pa.array([row["Position"] for row in kept], pa.int64()).cast(arrow)
    stamps = [row["SourceTime"] if target.meta == "timestamp" else now_ns for row in kept]
    return pa.array(stamps, pa.int64()).view(arrow)
