"""Takes the files of a stream away for good, so that a kill between any two steps loses and doubles nothing.

1. The note with the numbers of the log (``store.epochs.files.stream_notes``), durably. First: once the log is gone
   nothing else has its numbers. While there is a log the note means nothing.
2. Caches: Spark's checkpoint of the stream and scratch files. Before the log: a new stream must not find them.
3. The log is unlinked, durably: from here on the stream does not exist.
4. Checkpoint, head, removals and lock are unlinked, then directories that are empty. After the log: with a log and
   without them the stream would look damaged. The note goes if nothing needs it.

After a kill before step 3 the stream is as it was, and its next start removes the note. After a later one a repeat goes
on with step 4, and so does the first start of a new stream of that name. The ledger of the quarantine stays.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from sparkhaven.store.epochs.files.lock import in_progress
from sparkhaven.store.epochs.files.stream_notes import FAILED, RemovedStream, write_removed
from sparkhaven.store.epochs.state.replay import StreamState
from sparkhaven.store.io.fs import Fs, stats_below
from sparkhaven.store.places import StreamPlace
from sparkhaven.store.quarantine.ledger import read_ledger, write_ledger

REST = (".checkpoint", ".head", ".removals")  # beside a log, in the order in which they are unlinked; then the lock


def files_of_stream(place: StreamPlace) -> list[Path]:
    """The log, what lies beside it, and the caches of a stream: what a removal takes away, in its order."""
    directory = place.streams
    names = set(place.fs.names(directory))
    beside = [
        directory / f"{place.stream}{suffix}"
        for suffix in (".log", *REST, FAILED, ".lock")
        if f"{place.stream}{suffix}" in names
    ]
    caches = [path for path in _caches(place) if place.fs.stat(path) is not None]
    return [
        file for path in caches for file in (path, *(path / name for name, _ in stats_below(place.fs, path)))
    ] + beside


def has_no_files(place: StreamPlace) -> bool:
    """Whether neither a log nor another file is there that a removal would take away, but the note of a failure."""
    return place.fs.stat(place.stream_log) is None and files_of_stream(place) in ([], [place.stream_failure])


def remove_files(place: StreamPlace, note: RemovedStream) -> None:
    """All four steps; the caller holds the stream's lock and its commit lock, and no location has rows of it."""
    write_removed(place, note)
    for path in _caches(place):
        with place.fs.during("remove-caches"):
            place.fs.remove_tree(path)
    with place.fs.during("remove-log"):
        place.fs.unlink(place.stream_log)
        place.fs.sync_dirs([place.streams])
    finish_removal(place, note)


def finish_removal(place: StreamPlace, note: RemovedStream | None) -> None:
    """Step 4, also of a removal that was interrupted; the caller holds both locks.

    Without a ``note`` the stream was created, and killed before it had a log.
    """
    directory = place.streams
    for name in place.fs.names(directory):
        path = directory / name
        if name.startswith(f".{place.stream}.") and ".tmp-" in name and not in_progress(place.fs, path):
            place.fs.unlink(path)
    for suffix in (*REST, FAILED):
        with place.fs.during("remove-rest"):
            place.fs.unlink(directory / f"{place.stream}{suffix}")
    lock = place.stream_lock
    if (note is None or not note.epoch) and place.fs.stat(place.stream_quarantine) is None:
        with place.fs.during("remove-note"):
            place.fs.truncate(lock, 0)  # without the note its generation would stand for a log that is lost
            place.fs.sync([lock])
            place.fs.sync_dirs([directory])
            place.fs.unlink(place.stream_removed)
    with place.fs.during("remove-lock"):
        place.fs.unlink(lock)
    for path in (*_caches(place), directory):
        remove_empty(place.fs, path, place.layout.root)


def begin_anew(place: StreamPlace, state: StreamState) -> None:
    """Prepares the log of a new stream in the place of a removed one, at the epoch where its numbers continue.

    The ledger of the quarantine then keeps what the removed stream has rejected.
    """
    for path in (place.stream_checkpoint, place.stream_head):
        place.fs.unlink(path)
    ledger = read_ledger(place)
    if ledger is not None and ledger.seen < state.epoch:
        write_ledger(place, replace(ledger, seen=state.epoch))


def _caches(place: StreamPlace) -> tuple[Path, ...]:
    return place.spark_checkpoint, place.scratch


def remove_empty(fs: Fs, path: Path, root: Path) -> None:
    for directory in (path, *path.parents):
        if directory == root or not fs.rmdir(directory):
            return
