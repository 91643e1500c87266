"""Rows of the quarantine, decoded once more: by the rules of the stream as they are now, one row at a time.

Each row keeps its own position, so whatever is rejected again says where it came from, and columns that are taken from
the position get what they would have got at first. Rows of one source partition are routed together.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import Any

import numpy as np
import pyarrow as pa

from ingest.bad_rows import BadRow, Rejects, Unit, bad_row
from ingest.csv_records import Header
from ingest.csv_rows import CsvRows
from ingest.exact import Refusal, Value
from ingest.json_rows import JsonRows, strict_object
from ingest.parquet_text import from_row_text
from ingest.route import Routed, Router, newest_instant
from ingest.rows import Rows, typed_array
from ingest.spec import StreamSpec, Target
from ingest.targets import resolve_targets
from store.layout import LocationKey
from store.schema.model import TableSchema

NS = 1_000_000_000
Row = dict[str, Any]
One = Callable[[bytes, Row, Rejects], "list[Value] | BadRow"]
UNITS: dict[str, Unit] = {"json": "line", "csv": "line", "parquet": "row"}


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
    targets = resolve_targets(spec, schema)
    payload_targets = [target for target in targets if target.meta is None]
    one = _decoder(spec, payload_targets)
    rows: list[Row] = table.to_pylist()
    groups = [
        (source, *_decoded(source, list(group), payload_targets, one, rejects, UNITS[spec.feed.format]))
        for source, group in groupby(rows, key=lambda row: row["SourcePartition"])
    ]
    now_ns = round(clock() * NS)
    clock_ns = _clock_ns(spec, payload_targets, [rows for _, rows, _ in groups], now_ns)
    for source, typed, kept in groups:
        payloads = {row["Position"]: row["Payload"] for row in kept}
        router = Router(targets, spec.partition, source, clock_ns, UNITS[spec.feed.format])
        whole = _with_meta(typed, targets, source, kept, now_ns)
        if late:
            router.late(whole, payloads.__getitem__, late, rejects)
        yield from router.route(whole, payloads.__getitem__, rejects)
    rejects.flush()


def _decoded(
    source: str, rows: Sequence[Row], targets: Sequence[Target], one: One, rejects: Rejects, unit: Unit
) -> tuple[Rows, list[Row]]:
    kept: list[Row] = []
    values: list[list[Value]] = []
    for row in rows:
        rejects.read += 1
        payload = row["Payload"]
        if payload is None or not payload.strip():
            found: list[Value] | BadRow = bad_row(
                source, row["Position"], None, "empty", "a payload", "", payload or b"", unit=unit
            )
        else:
            found = one(payload, row, rejects)
        if isinstance(found, BadRow):
            rejects.add_all([found])
        else:
            kept.append(row)
            values.append(found)
    columns = tuple(typed_array([value[place] for value in values], t) for place, t in enumerate(targets))
    return Rows(columns, np.array([row["Position"] for row in kept], np.int64)), kept


def _decoder(spec: StreamSpec, targets: Sequence[Target]) -> One:
    """Exact values of one payload of the feed's format."""
    alias = spec.allow_null_alias
    if spec.feed.format == "csv":
        csv_rows = CsvRows(targets, spec.ignore, spec.feed.csv, alias=alias)

        def csv_row(payload: bytes, row: Row, rejects: Rejects) -> list[Value] | BadRow:
            names = spec.feed.csv.names if row["Header"] is None else tuple(json.loads(row["Header"]))
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


def _clock_ns(spec: StreamSpec, targets: Sequence[Target], groups: Sequence[Rows], now_ns: int) -> int:
    """What bounds are measured from; ``batch`` is the newest instant of all rows that are sent together."""
    chosen, rule = spec.partition.clock, spec.partition.value
    if chosen.kind == "fixed" and chosen.at_ns is not None:
        return chosen.at_ns
    if chosen.kind == "wall" or all(target.column.name != rule.column for target in targets):
        return now_ns
    found = (newest_instant(rows, targets, rule) for rows in groups if len(rows))
    return max((value for value in found if value is not None), default=now_ns)


def _with_meta(rows: Rows, targets: Sequence[Target], source: str, kept: Sequence[Row], now_ns: int) -> Rows:
    payload = iter(rows.columns)
    columns = [next(payload) if t.meta is None else _meta(t, rows, source, kept, now_ns) for t in targets]
    return Rows(tuple(columns), rows.numbers)


def _meta(target: Target, rows: Rows, source: str, kept: Sequence[Row], now_ns: int) -> pa.Array:
    if target.meta == "file":
        return pa.repeat(source, len(rows))
    if target.meta == "line":
        return pa.array(rows.numbers, pa.int64()).cast(target.column.type.arrow)
    stamps = [row["SourceTime"] if target.meta == "timestamp" else now_ns for row in kept]
    return pa.array(stamps, pa.int64()).view(target.column.type.arrow)
