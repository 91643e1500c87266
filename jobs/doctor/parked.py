"""Rows that were set aside and wait for somebody."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from jobs.doctor.finding import Found, Visit, each, exists
from jobs.operations.quarantine_rows import QuarantineRows
from store.epochs.state.replay import StreamState
from store.layout import TableName
from writers.quarantine.ledger import follow_log
from writers.quarantine.table import Chosen


def quarantined(visit: Visit) -> Iterator[Found]:
    """How many rows of each stream are pending."""
    waiting = False
    for table, stream, state in visit.streams():
        if isinstance(state, Exception):
            continue  # told by ``logs``
        command = visit.command("quarantine", "list", stream, "--table", table)
        for found in each(f"{table} {stream}", command, partial(_of_stream, visit, table, state, command)):
            waiting = True
            yield found
    if not waiting:
        yield "ok", "no row waits in quarantine", None


def _of_stream(visit: Visit, table: TableName, state: StreamState, command: str) -> Iterator[Found]:
    ledger = follow_log(visit.fs, visit.layout, table, state, read_only=True)
    if ledger is None or not ledger.place or not exists(visit.fs, Path(ledger.place) / "_delta_log"):
        return
    owner = table.namespace, table.table, state.stream
    rows = QuarantineRows(visit.fs, Path(ledger.place), owner, [*ledger.dead, (state.epoch, None)])
    pending = rows.count(Chosen(state="pending"))
    if pending:
        yield "note", f"{table} {state.stream}: {pending:,} rows are in quarantine", command
