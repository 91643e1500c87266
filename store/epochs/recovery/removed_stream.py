"""Takes the files of a stream away for good, so that a kill between any two steps loses and doubles nothing.

1. the note with the numbers of the log (``store.epochs.files.removal_note``), durably: while there is a log it means
nothing 2. caches: Spark's checkpoint of the stream and scratch files 3. the log is unlinked, durably: from here on the
stream does not exist 4. checkpoint, head, removals and lock are unlinked, then directories that are empty; the note
goes if nothing needs it

After a kill before step 3 the stream is as it was, and its next start removes the note. After a later one a repeat goes
on with step 4, and so does the first start of a new stream of that name. The ledger of the quarantine stays.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from sparkhaven.store.epochs.files.lock import in_progress
from sparkhaven.store.epochs.files.removal_note import RemovedStream, write_removed
from sparkhaven.store.epochs.state.replay import StreamState
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.io.walking import stats_below
from sparkhaven.store.layout import Layout, TableName
from sparkhaven.store.quarantine.ledger import read_ledger, write_ledger

REST = (".checkpoint", ".head", ".removals")  # beside a log, in the order in which they are unlinked; then the lock


def files_of_stream(fs: Fs, layout: Layout, table: TableName, stream: str) -> list[Path]:
    """The log, what lies beside it, and the caches of a stream: what a removal takes away, in its order."""
    directory = layout.streams(table)
    names = set(fs.names(directory))
    beside = [directory / f"{stream}{suffix}" for suffix in (".log", *REST, ".lock") if f"{stream}{suffix}" in names]
    caches = [path for path in _caches(layout, table, stream) if fs.stat(path) is not None]
    return [file for path in caches for file in (path, *(path / name for name, _ in stats_below(fs, path)))] + beside


def has_no_files(fs: Fs, layout: Layout, table: TableName, stream: str) -> bool:
    """Whether neither a log nor another file is there that a removal would take away."""
    return fs.stat(layout.stream_log(table, stream)) is None and not files_of_stream(fs, layout, table, stream)


def remove_files(fs: Fs, layout: Layout, table: TableName, stream: str, note: RemovedStream) -> None:
    """All four steps; the caller holds the stream's lock and its commit lock, and no location has rows of it."""
    write_removed(fs, layout, table, stream, note)
    for path in _caches(layout, table, stream):
        with fs.during("remove-caches"):
            fs.remove_tree(path)
    with fs.during("remove-log"):
        fs.unlink(layout.stream_log(table, stream))
        fs.sync_dirs([layout.streams(table)])
    finish_removal(fs, layout, table, stream, note)


def finish_removal(fs: Fs, layout: Layout, table: TableName, stream: str, note: RemovedStream | None) -> None:
    """Step 4, also of a removal that was interrupted; the caller holds both locks.

    Without a ``note`` the stream was created, and killed before it had a log.
    """
    directory = layout.streams(table)
    for name in fs.names(directory):
        path = directory / name
        if name.startswith(f".{stream}.") and ".tmp-" in name and not in_progress(fs, path):
            fs.unlink(path)
    for suffix in REST:
        with fs.during("remove-rest"):
            fs.unlink(directory / f"{stream}{suffix}")
    lock = layout.stream_lock(table, stream)
    if (note is None or not note.epoch) and fs.stat(layout.stream_quarantine(table, stream)) is None:
        with fs.during("remove-note"):
            fs.truncate(lock, 0)  # without the note its generation would stand for a log that is lost
            fs.sync([lock])
            fs.sync_dirs([directory])
            fs.unlink(layout.stream_removed(table, stream))
    with fs.during("remove-lock"):
        fs.unlink(lock)
    for path in (*_caches(layout, table, stream), directory):
        remove_empty(fs, path, layout.root)


def begin_anew(fs: Fs, layout: Layout, table: TableName, state: StreamState) -> None:
    """Prepares the log of a new stream in the place of a removed one, at the epoch where its numbers continue.

    The ledger of the quarantine then keeps what the removed stream has rejected.
    """
    for path in (layout.stream_checkpoint(table, state.stream), layout.stream_head(table, state.stream)):
        fs.unlink(path)
    ledger = read_ledger(fs, layout, table, state.stream)
    if ledger is not None and ledger.seen < state.epoch:
        write_ledger(fs, layout, table, state.stream, replace(ledger, seen=state.epoch))


def _caches(layout: Layout, table: TableName, stream: str) -> tuple[Path, ...]:
    return layout.spark_checkpoint(table, stream), layout.scratch(table, stream), layout.former_scratch(table, stream)


def remove_empty(fs: Fs, path: Path, root: Path) -> None:
    """Removes a directory and those above it while they are empty."""
    for directory in (path, *path.parents):
        if directory == root or not fs.rmdir(directory):
            return
