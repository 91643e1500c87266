"""Tables: what ``verify`` finds without reading every byte."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from sparkhaven.jobs.doctor.finding import CheckContext, Found, each
from sparkhaven.jobs.doctor.streams import of_damage
from sparkhaven.readers.checks.verify import verify
from sparkhaven.store.epochs.files.lock import lock_owner
from sparkhaven.store.epochs.reading.stream_state import list_streams
from sparkhaven.store.layout import TableName
from sparkhaven.store.places import TablePlace


def tables(context: CheckContext) -> Iterator[Found]:
    """By table the findings of a shallow ``verify`` that no check before has told.

    Warnings beside a running stream are left out: what is not committed yet is no waste.
    """
    sound = 0
    for table in context.tables:
        results = list(each(table, context.command("verify", table), partial(_of_table, context, table)))
        yield from results
        sound += not results
    if sound:
        yield "ok", f"{sound:,} tables are as their logs and merge records say", None


def _of_table(context: CheckContext, table: TableName) -> Iterator[Found]:
    findings = verify(context.fs, context.layout, table).findings
    reported = [finding for finding in findings if finding.severity == "error" or not _runs(context, table)]
    yield from of_damage(context, table, reported)


def _runs(context: CheckContext, table: TableName) -> bool:
    locks = (
        context.layout.stream_lock(table, name) for name in list_streams(TablePlace(context.fs, context.layout, table))
    )
    return any(lock_owner(context.fs, lock) is not None for lock in locks)
