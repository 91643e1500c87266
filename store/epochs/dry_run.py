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
from sparkhaven.store.io.fs import Lock
from sparkhaven.store.layout import check_stream
from sparkhaven.store.places import StreamPlace


def preview_recovery(place: StreamPlace, *, time_ms: int) -> RecoveryReport:
    """The report that recovery would give now; changes nothing. ``generation`` is the current one.

    TableNotFoundError: there is no such stream. LockLostError: a process runs it, and its tails are a running batch.
    CorruptFileError: recovery would fail.
    """
    with _held(place):
        resumed = resume(place, boot_id=place.fs.boot_id(), time_ms=time_ms, settle=False)
        plan = plan_recovery(place, resumed)
    lost = resumed.lost + lost_beyond(resumed.state, plan)
    aside = list_set_aside(place)
    return RecoveryReport.of(resumed.state, plan, log_bytes=resumed.dropped_bytes, lost=lost, aside=aside)


def preview_rollback(place: StreamPlace, to: int, *, time_ms: int) -> None:
    """Raises what a rollback to epoch ``to`` would raise; changes nothing."""
    with _held(place):
        resumed = resume(place, boot_id=place.fs.boot_id(), time_ms=time_ms, settle=False)
        plan = plan_recovery(place, resumed, leave_damaged=True)
        plan_rollback(place, resumed.state, to, time_ms=time_ms, damaged=plan.damaged)


def _held(place: StreamPlace) -> AbstractContextManager[Lock | None]:
    """Locks an existing stream, if its lock file can be read."""
    check_stream(place.stream)
    load_stream(place)
    return take_lock_if_there(place.fs, place.stream_lock)
