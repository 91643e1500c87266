"""Rows of the quarantine, decoded once more: by the rules of the stream as they are now, one row at a time.

Each row keeps its own position, so whatever is rejected again says where it came from, and columns that are taken from
the position get what they would have got at first. Rows of one source partition are routed together.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import groupby
from typing import Any

import pyarrow as pa

from sparkhaven.ingest.bad_rows import Rejects, bad_row
from sparkhaven.ingest.feeds.base import SILENT, PlannedFeed
from sparkhaven.ingest.feeds.registry import planned_feed
from sparkhaven.ingest.router import Routed, Router, of_other_tables, reference_ns, routing_target
from sparkhaven.ingest.spec import StreamSpec
from sparkhaven.ingest.targets import resolve_targets
from sparkhaven.ingest.values.typed_rows import TypedRows
from sparkhaven.store.instants import NS_PER_SECOND
from sparkhaven.store.layout import LocationKey
from sparkhaven.store.quarantine.rejected_rows import RejectedRow
from sparkhaven.store.types.model import TableSchema


def decode_requeued(
    table: pa.Table,
    spec: StreamSpec,
    schema: TableSchema,
    rejects: Rejects,
    *,
    late: frozenset[LocationKey] = frozenset(),
    left: Mapping[LocationKey, Mapping[int, str]] | None = None,
    clock: Callable[[], float] = time.time,
) -> Iterator[Routed]:
    """Routed batches of rejected rows (schema ``REJECTED``), ordered by source partition and position.

    Rows that belong to the locations ``late`` are rejected as well as routed, for a caller who only tries. So are the
    rows ``left``, by their numbers in each location, with the column that has no room.
    """
    targets, now_ns = resolve_targets(spec, schema), round(clock() * NS_PER_SECOND)
    feed = planned_feed(spec)
    rejects.source.count(table.num_rows)
    by_source = groupby(table.to_pylist(), key=lambda row: row["SourcePartition"])
    groups = [
        feed.requeue(source, _own_rows(feed, source, list(rows), now_ns, rejects), targets, now_ns, rejects)
        for source, rows in by_source
    ]
    clock_ns = reference_ns(spec.partition, targets, now_ns, lambda: (group.rows for group in groups))
    passed = Counter[LocationKey]()
    for group in groups:
        router = Router(targets, spec.partition, group.source, clock_ns, group.unit)
        with rejects.completing(group.complete):
            if late:
                router.late(group.rows, group.payloads.__getitem__, late, rejects)
            if left:
                router.without_room(group.rows, group.payloads.__getitem__, left, passed, rejects)
            yield from router.route(group.rows, group.payloads.__getitem__, rejects)
    rejects.flush()


def _own_rows(
    feed: PlannedFeed[Any, Any], source: str, rows: list[RejectedRow], now_ns: int, rejects: Rejects
) -> list[RejectedRow]:
    """The rows but those that are of another table of the feed, or of none: these are rejected again."""
    routes = feed.spec.routes
    if routes is None:
        return rows
    deciding_feed = planned_feed(replace(feed.spec, contract="evolve"))  # which has one column, and looks at no other
    texts = deciding_feed.requeue(source, rows, (routing_target(routes),), now_ns, Rejects(SILENT, keep=0))
    deciding = texts.rows
    if routes.kind == "topic":
        topic = pa.array([source.rpartition("/")[0]] * len(deciding), pa.string())
        deciding = TypedRows((topic,), deciding.numbers)
    others = of_other_tables(deciding, routes)
    rejects.add_all(
        bad_row(source, number, routes.column or None, why, shown, texts.payloads[number], unit=texts.unit)
        for number, (why, shown) in others.items()
    )
    return [row for row in rows if row["Position"] not in others]
