"""Rows that a feed takes of a Delta table, without a stream."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from sparkhaven.ingest.bad_rows import Rejects
from sparkhaven.ingest.feeds.base import route
from sparkhaven.ingest.feeds.delta.feed import DeltaFeed
from sparkhaven.ingest.feeds.delta.planner import DeltaOptions, DeltaPlanner, share_out
from sparkhaven.ingest.spec import (
    BadRowBudget,
    ColumnSpec,
    InternalRule,
    Limit,
    PartitionSpec,
    StreamSpec,
    TextForm,
    ValueRule,
)
from sparkhaven.store.io.fs import Fs
from tests.support.ingest.ingest_cases import schema


def taken(table: Path, start: int | None = None, **columns: str) -> list[dict[str, Any]]:
    """All rows, in batches of three files by two tasks; texts are taken as such. A start takes changed files too."""
    options = DeltaOptions(str(table), start_version=start, ignore_changes=start is not None)
    partition = PartitionSpec(InternalRule("fixed", "0"), ValueRule(fixed="2026-11-21"))
    texts = tuple(ColumnSpec(name, form=TextForm(as_text=True)) for name, kind in columns.items() if kind == "String")
    spec = StreamSpec("s", "Test.T", options, partition, texts, bad_rows=BadRowBudget(10, 1.0))
    planner = DeltaPlanner(Fs(), options, None)
    rows: list[dict[str, Any]] = []
    planner.look()
    while (batch := planner.plan(Limit(files=3))) is not None:
        for split in share_out(batch, planner.table_id, 2, small=0):
            rejects, before = Rejects(spec.bad_rows), len(rows)
            blocks = DeltaFeed(spec).decode(Fs(), split, schema(**columns), rejects, time.time)
            rows += [row for routed in route(blocks, rejects) for row in routed.batch.to_pylist()]
            rejects.source.require(len(rows) - before, rejects.bad, split)
            assert not rejects.bad, rejects.rows
        planner.look()
    return rows
