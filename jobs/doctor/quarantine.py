"""Pending rows in quarantine."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from sparkhaven.jobs.doctor.finding import CheckContext, Found, each
from sparkhaven.store.delta.log import is_table
from sparkhaven.store.epochs.state.replay import StreamState
from sparkhaven.store.layout import TableName
from sparkhaven.writers.quarantine.pending_changes import follow_log
from sparkhaven.writers.quarantine.quarantined_rows import QuarantineRows
from sparkhaven.writers.quarantine.row_choice import Chosen


def quarantined(context: CheckContext) -> Iterator[Found]:
    """The number of pending rows by stream."""
    pending = False
    for table, stream, state in context.streams():
        if isinstance(state, Exception):
            continue  # reported by ``logs``
        command = context.command("quarantine", "list", table, stream)
        for found in each(f"{table} {stream}", command, partial(_of_stream, context, table, state, command)):
            pending = True
            yield found
    if not pending:
        yield "ok", "no row is pending in quarantine", None


def _of_stream(context: CheckContext, table: TableName, state: StreamState, command: str) -> Iterator[Found]:
    ledger = follow_log(context.fs, context.layout, table, state, read_only=True)
    if ledger is None or not ledger.place or not is_table(context.fs, Path(ledger.place)):
        return
    owner = table.namespace, table.table, state.stream
    rows = QuarantineRows(context.fs, Path(ledger.place), owner, [*ledger.dead, (state.epoch, None)])
    count = rows.count(Chosen(state="pending"))
    if count:
        yield "note", f"{table} {state.stream}: {count:,} rows are in quarantine", command
