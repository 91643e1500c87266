"""Pending rows in quarantine."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from sparkhaven.jobs.doctor.finding import CheckContext, Found, each
from sparkhaven.jobs.operations.quarantined_stream import rejected_rows
from sparkhaven.store.epochs.state.replay import StreamState
from sparkhaven.store.layout import TableName
from sparkhaven.store.places import TablePlace
from sparkhaven.writers.quarantine.row_choice import Chosen


def quarantined(context: CheckContext) -> Iterator[Found]:
    """The number of pending rows by stream."""
    pending = False
    for table, stream, state in context.streams():
        if isinstance(state, Exception):
            continue  # reported by ``logs``
        command = context.command("quarantine", "list", table, stream)
        for result in each(f"{table} {stream}", command, partial(_of_stream, context, table, state, command)):
            pending = True
            yield result
    if not pending:
        yield "ok", "no row is pending in quarantine", None


def _of_stream(context: CheckContext, table: TableName, state: StreamState, command: str) -> Iterator[Found]:
    rows = rejected_rows(TablePlace(context.fs, context.layout, table), state)
    count = rows.count(Chosen(state="pending")) if rows is not None else 0
    if count:
        yield "note", f"{table} {state.stream}: {count:,} rows are in quarantine", command
