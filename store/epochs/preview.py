"""What opening a stream would recover: the same reading and the same plan, and nothing applied."""

from __future__ import annotations

from store.epochs.holder import take_lock
from store.epochs.load import load_stream
from store.epochs.recover import RecoveryReport, lost_beyond, plan_recovery
from store.epochs.resume import resume
from store.fs import Fs
from store.layout import Layout, TableName, check_stream


def preview_recovery(fs: Fs, layout: Layout, table: TableName, stream: str, *, time_ms: int) -> RecoveryReport:
    """The report that recovery would give now; changes nothing. ``generation`` is the one that is.

    TableNotFoundError if there is no such stream, LockLostError while a process runs it (then its tails are a batch
    on its way), CorruptFileError where recovery would refuse.
    """
    load_stream(fs, layout, table, check_stream(stream))
    path = layout.stream_lock(table, stream)
    lock = take_lock(fs, path) if fs.stat(path) is not None else None
    try:
        found = resume(fs, layout, table, stream, boot_id=fs.boot_id(), time_ms=time_ms)
        plan = plan_recovery(fs, layout, table, found)
    finally:
        if lock is not None:
            lock.release()
    lost = found.lost + lost_beyond(found.state, plan)
    return RecoveryReport.of(found.state, plan, log_bytes=found.dropped_bytes, lost=lost)
