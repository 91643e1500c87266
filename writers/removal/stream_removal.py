"""Removal of whole streams: only of those that never committed, or whose rows are all merged and deleted.

What is checked: no location of the newest state holds a row, or its directory; nothing was set aside; every removal of
a location is complete on disk. Kept epochs and source positions go with the log, so a new stream of that name begins at
the beginning of its source. The steps are those of ``store.epochs.recovery.removed_stream``.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from sparkhaven.store.epochs.files.lock import commits_held, take_lock, take_lock_if_there
from sparkhaven.store.epochs.files.removals import read_removals
from sparkhaven.store.epochs.files.stream_notes import RemovedStream, read_removed
from sparkhaven.store.epochs.generation import Opening, open_generation
from sparkhaven.store.epochs.reading.stream_state import list_streams
from sparkhaven.store.epochs.recovery.recover import preview_recovery
from sparkhaven.store.epochs.recovery.removed_stream import files_of_stream, finish_removal, remove_files
from sparkhaven.store.epochs.recovery.set_aside import list_set_aside, missing_rows
from sparkhaven.store.epochs.recovery.witnesses import require_stream
from sparkhaven.store.epochs.state.replay import StreamState
from sparkhaven.store.errors import LockLostError, SettingsError, TableExistsError, TableNotFoundError, counted
from sparkhaven.store.layout import TableName, check_stream
from sparkhaven.store.merges.merge_records import lock_table
from sparkhaven.store.places import StreamPlace, TablePlace
from sparkhaven.writers.batch.stream_batches import refuse_batches_without_log
from sparkhaven.writers.quarantine.changes import follow_log
from sparkhaven.writers.removal.row_removal import sweep


@dataclass(frozen=True, slots=True)
class StreamRemoval:
    """What a removal takes away, with ``dry_run`` what it would: paths, and a line for each that recovery changes."""

    stream: str
    epoch: int
    files: tuple[Path, ...]
    recovered: tuple[str, ...]
    dry_run: bool


def remove_stream(place: StreamPlace, *, clock: Callable[[], float], dry_run: bool = False) -> StreamRemoval:
    """Removes a stream of which no row is left, or finishes a removal that was interrupted.

    TableNotFoundError: there is no such stream. TableExistsError: it has rows, or a location that is not deleted.
    SettingsError: a process runs it. LockLostError: a merge or removal is running. CorruptFileError: it is damaged.
    """
    check_stream(place.stream)
    files = tuple(files_of_stream(place))
    lock_path = place.stream_lock
    with ExitStack() as held:
        try:
            if place.stream not in list_streams(place):
                return _without_log(place, files, held, dry_run=dry_run)
            state = require_stream(place)
            require_removable(place, state)
            if dry_run:
                report = preview_recovery(place, time_ms=int(clock() * 1000))
                return StreamRemoval(place.stream, state.epoch, files, tuple(report.changes()), True)
            take_lock(place.fs, lock_path).release()  # refuses before anything is changed
            if place.fs.stat(place.merges) is not None:
                held.enter_context(lock_table(place))
            opening = Opening(None, "removal", clock)
            opened = open_generation(place, opening)
            held.enter_context(opened.lock)
        except LockLostError as error:
            if error.where != str(lock_path):
                raise
            raise _in_use(place.table, place.stream, error) from error
        held.enter_context(commits_held(place.fs, place.stream_removals))
        state = opened.state
        require_removable(place, state)
        follow_log(place, state)
        sweep(place, sorted({removal.key for _, removal in read_removals(place).entries}))
        note = RemovedStream(state.epoch, state.generation, int(clock() * 1000))
        remove_files(place, note)
    return StreamRemoval(place.stream, state.epoch, files, tuple(opened.recovery.changes()), False)


def _without_log(place: StreamPlace, files: tuple[Path, ...], held: ExitStack, *, dry_run: bool) -> StreamRemoval:
    """Finishes a removal, or removes what a start left that was killed before it had a log."""
    note = read_removed(place)
    if not files:
        require_stream(place)
    elif note is None:
        _require_unborn(place)
    if not dry_run and files:
        held.enter_context(take_lock(place.fs, place.stream_lock))
        held.enter_context(commits_held(place.fs, place.stream_removals))
        finish_removal(place, note)
    return StreamRemoval(place.stream, note.epoch if note else 0, files, (), dry_run)


def _require_unborn(place: StreamPlace) -> None:
    """CorruptFileError: the log is missing, although something names an epoch of it."""
    with take_lock_if_there(place.fs, place.stream_lock):
        try:
            require_stream(place)
        except TableNotFoundError:
            return


def require_removable(place: TablePlace, state: StreamState) -> None:
    """TableExistsError naming the first location that keeps a stream from being removed.

    PositionGapError: its log has no epoch, although Spark's checkpoint has batches: the log was lost.
    """
    refuse_batches_without_log(place.of_stream(state.stream), state.epoch)
    for key, location in sorted(state.locations.items()):
        directory = place.intraday_location(key)
        dates = f"--dates {key.value}"
        after = f"`sparkhaven delete {place.table} {dates}`"
        before = f"`sparkhaven merge {place.table} {dates}`, then validate, truncate and delete"
        raise TableExistsError(
            f"stream {state.stream!r} of {place.table} still has rows or locations. Nothing was changed",
            where=directory,
            expected="no location of the stream, because each is merged, truncated and deleted",
            found="a truncated location" if location.truncated else f"{counted(location.rows, 'row')} of {key.value}",
            hint=f"{after if location.truncated else before}. A rollback drops rows that were not merged",
        )
    for aside in list_set_aside(place):
        missing = missing_rows(place, aside)
        if aside.stream == state.stream and missing > 0:
            raise TableExistsError(
                f"stream {state.stream!r} of {place.table} has rows that were set aside. Nothing was changed",
                where=aside.path,
                expected="no location that was set aside",
                found=f"{counted(missing, 'row')} of {aside.internal}/{aside.value}",
                hint="restore its files from a copy and merge the date, or remove directory and note by hand",
            )


def _in_use(table: TableName, stream: str, error: LockLostError) -> SettingsError:
    return SettingsError(
        f"stream {stream!r} of {table} is running. Nothing was changed",
        where=error.where,
        expected="a stream that no process writes",
        found=error.found,
        hint=f"stop that process, then `sparkhaven streams remove {table} {stream}`",
    )
