"""Previews a recovery or rollback: the same reads and the same plan, without changes.

It needs no write permission, so it works on a read-only file system.
"""

from __future__ import annotations

from contextlib import AbstractContextManager

from sparkhaven.store.epochs.files.lock import take_lock_if_there
from sparkhaven.store.epochs.reading.stream_state import load_stream
from sparkhaven.store.epochs.recovery.recover import RecoveryReport, lost_beyond, plan_recovery
from sparkhaven.store.epochs.recovery.resume import resume
from sparkhaven.store.epochs.recovery.set_aside import list_set_aside
from sparkhaven.store.epochs.rollback import plan_rollback
from sparkhaven.store.io.fs import Fs, Lock
from sparkhaven.store.layout import Layout, TableName, check_stream


def preview_recovery(fs: Fs, layout: Layout, table: TableName, stream: str, *, time_ms: int) -> RecoveryReport:
    """The report that recovery would give now; changes nothing. ``generation`` is the current one.

    TableNotFoundError: there is no such stream. LockLostError: a process runs it, and its tails are a running batch.
    CorruptFileError: recovery would fail.
    """
    with _held(fs, layout, table, stream):
        found = resume(fs, layout, table, stream, boot_id=fs.boot_id(), time_ms=time_ms, settle=False)
        plan = plan_recovery(fs, layout, table, found)
    lost = found.lost + lost_beyond(found.state, plan)
    aside = list_set_aside(fs, layout, table)
    return RecoveryReport.of(found.state, plan, log_bytes=found.dropped_bytes, lost=lost, aside=aside)


def preview_rollback(fs: Fs, layout: Layout, table: TableName, stream: str, to: int, *, time_ms: int) -> None:
    """Raises what a rollback to epoch ``to`` would raise; changes nothing."""
    with _held(fs, layout, table, stream):
        found = resume(fs, layout, table, stream, boot_id=fs.boot_id(), time_ms=time_ms, settle=False)
        plan = plan_recovery(fs, layout, table, found, leave_damaged=True)
        plan_rollback(fs, layout, table, found.state, to, time_ms=time_ms, damaged=plan.damaged)


def _held(fs: Fs, layout: Layout, table: TableName, stream: str) -> AbstractContextManager[Lock | None]:
    """Locks an existing stream, if its lock file can be read."""
    load_stream(fs, layout, table, check_stream(stream))
    return take_lock_if_there(fs, layout.stream_lock(table, stream))
