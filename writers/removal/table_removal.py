"""Removes whole tables, and whole streams of a table, with all that is kept of them.

A table goes with intraday rows, history, schema, quarantine, commit logs and caches:

1. *Doomed*, under the locks of the table and of its streams: the record with what the table has
   (``store.merges.dropped_tables``), then schema and schema history are unlinked. Readers find no such table from then
   on. Those that have it open go on, since all other files stay. Nobody can deploy a table of that name.
2. *Removed*, after the grace period: history, location by location as replaced generations are; index and records;
   intraday, by one rename and then its files; quarantine and caches. Notes keep the numbers of the streams, so a new
   stream of a name goes on with them, and no process takes its epochs for those of the dropped table.

Each step can be repeated. A drop that was killed goes on by the same command, or by ``clean``.

A stream goes alone only if it never committed, or if its rows are all merged and deleted. What is checked: no location
of the newest state holds a row, or its directory; nothing was set aside; every removal of a location is complete on
disk. Kept epochs and source positions go with the log, so a new stream of that name begins at the beginning of its
source. The steps are those of ``store.epochs.recovery.removed_stream``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from sparkhaven.store.epochs.files.lock import commits_held, take_lock, take_lock_if_there
from sparkhaven.store.epochs.files.removals import read_removals
from sparkhaven.store.epochs.files.stream_notes import RemovedStream, read_removed, write_removed
from sparkhaven.store.epochs.generation import Opening, open_generation
from sparkhaven.store.epochs.reading.stream_state import list_streams, load_stream
from sparkhaven.store.epochs.recovery.recover import preview_recovery
from sparkhaven.store.epochs.recovery.removed_stream import files_of_stream, finish_removal, remove_empty, remove_files
from sparkhaven.store.epochs.recovery.set_aside import list_set_aside, missing_rows
from sparkhaven.store.epochs.recovery.witnesses import require_stream
from sparkhaven.store.epochs.state.replay import StreamState
from sparkhaven.store.errors import (
    LockLostError,
    RetryableStorageError,
    SettingsError,
    TableExistsError,
    TableNotFoundError,
    as_ours,
    counted,
)
from sparkhaven.store.io.fs import stats_below
from sparkhaven.store.layout import TableName, check_stream
from sparkhaven.store.merges.dropped_tables import (
    DroppedHistory,
    DroppedStream,
    DropPhase,
    TableDrop,
    doomed,
    drop_numbers,
    store_drop,
)
from sparkhaven.store.merges.history import load_history, outputs_of_now, totals
from sparkhaven.store.merges.merge_records import all_values, lock_table
from sparkhaven.store.places import StreamPlace, TablePlace
from sparkhaven.store.quarantine.ledger import read_ledger
from sparkhaven.store.schema.deployed.deploy import deployed_tables, load_deployed, locked_schemas
from sparkhaven.store.volumes import absent_volume, require_volumes
from sparkhaven.writers.batch.stream_batches import refuse_batches_without_log
from sparkhaven.writers.merge.publish.publish_phase import GRACE_S
from sparkhaven.writers.merge.publish.staged_locations import retire, sweep
from sparkhaven.writers.quarantine.changes import follow_log
from sparkhaven.writers.removal.row_removal import sweep as sweep_locations


def drop_table(
    place: TablePlace,
    reason: str,
    *,
    clock: Callable[[], float],
    grace_s: float = GRACE_S,
    dry_run: bool = False,
    note: Callable[[str], object] = lambda _: None,
) -> TableDrop:
    """Drops a table, or goes on with its drop; the record as it is then. ``clock``: seconds since the epoch.

    ``note`` is told where it is dropped by now, and its files could not be removed: the same call goes on.

    TableNotFoundError: there is no such table. SettingsError: a process runs a stream of it. LockLostError: a merge or
    removal is running. RetryableStorageError: a volume with history of it is not mounted.
    """
    standing = doomed(place)
    if standing is None or place.fs.stat(place.schema) is not None:
        load_deployed(place)
        number = max(drop_numbers(place), default=0) + (standing is None)
        if dry_run:
            return _looked_at(place, number, reason, clock)
        with ExitStack() as held:
            _lock(place, held)
            standing = _looked_at(place, number, reason, clock)
            with place.fs.during("drop-record"):
                store_drop(place, standing)
            _hide(place)
        try:
            return finish_drop(place, standing, clock=clock, grace_s=grace_s)
        except (RetryableStorageError, OSError) as error:
            again = f"`sparkhaven drop {place.table} --yes` removes the rest"
            note(f"{place.table} is dropped. Its files could not be removed: {as_ours(error)}\n  to do: {again}")
            return doomed(place) or standing
    return standing if dry_run else finish_drop(place, standing, clock=clock, grace_s=grace_s)


def due_s(drop: TableDrop, now_s: float, grace_s: float = GRACE_S) -> float:
    """Seconds until the files of a dropped table may be removed; 0: now."""
    return max(0.0, drop.time_ms / 1000 + grace_s - now_s)


def finish_drop(
    place: TablePlace, drop: TableDrop, *, clock: Callable[[], float], grace_s: float = GRACE_S
) -> TableDrop:
    """Removes the files of a dropped table once the grace period is over; the record as it is then.

    Raises what ``drop_table`` raises. The caller knows that the schema is gone.
    """
    if drop.phase is DropPhase.REMOVED or due_s(drop, clock(), grace_s):
        return drop
    with ExitStack() as held:
        _lock(place, held)
        _hide(place)
        _require_mounted(place, drop)
        drop = replace(_with_numbers(place, drop), phase=DropPhase.REMOVING)
        with place.fs.during("drop-numbers"):
            store_drop(place, drop)
        _remove_history(place)
        kept = _remove_quarantines(place, drop)
        _remove_intraday(place, drop)
        for stream in drop.streams:
            if stream.epoch or stream.generation:
                place.fs.keep_dirs(place.streams, place.layout.root)
                note = RemovedStream(stream.epoch, stream.generation, drop.time_ms)
                write_removed(place.of_stream(stream.stream), note)
        drop = replace(drop, phase=DropPhase.REMOVED, removed_ms=int(clock() * 1000), kept=kept)
        with place.fs.during("drop-done"):
            store_drop(place, drop)
    return drop


def _lock(place: TablePlace, held: ExitStack) -> None:
    """Takes the locks of all streams and of the table. SettingsError: a stream is running."""
    for name in place.fs.names(place.streams):
        if name.endswith(".lock") and not name.startswith("."):
            try:
                held.enter_context(take_lock(place.fs, place.streams / name))
            except LockLostError as error:
                raise SettingsError(
                    f"stream {name.removesuffix('.lock')!r} of {place.table} is running. Nothing was changed",
                    where=error.where,
                    expected="a table that no process writes",
                    found=error.found,
                    hint=f"stop that process, then `sparkhaven drop {place.table} --yes`",
                ) from error
    if place.fs.stat(place.merges) is not None:
        held.enter_context(lock_table(place))


def _hide(place: TablePlace) -> None:
    """Unlinks the schema, and then its history: from the first on readers find no such table. Idempotent."""
    with locked_schemas(place.fs, place.layout), place.fs.during("drop-schema"):
        for path in (place.schema, place.schema_history):
            if place.fs.stat(path) is not None:
                place.fs.unlink(path)
                place.fs.sync_dirs([path.parent])


def _looked_at(place: TablePlace, number: int, reason: str, clock: Callable[[], float]) -> TableDrop:
    dates, schema = [], load_deployed(place)
    for value in all_values(place):
        base = load_history(place, value).current
        if base is not None:
            rows, digests = totals(outputs_of_now(base, schema))
            dates.append(DroppedHistory(value, base.generation, rows, digests))
    size = sum(stat.size for path in _trees(place) for _, stat in stats_below(place.fs, path))
    return TableDrop(
        table=str(place.table),
        number=number,
        phase=DropPhase.DOOMED,
        time_ms=int(clock() * 1000),
        reason=reason,
        user=place.fs.user(),
        size=size,
        schema=place.fs.read(place.schema),
        history=place.fs.read(place.schema_history),
        streams=tuple(_streams(place)),
        dates=tuple(dates),
    )


def _streams(place: TablePlace) -> Iterator[DroppedStream]:
    """Every stream of the table, also those that were removed before."""
    logs = list_streams(place)
    for stream in logs:
        own = place.of_stream(stream)
        state, ledger = load_stream(own), read_ledger(own)
        rows = sum(location.rows for location in state.locations.values())
        quarantine = "" if ledger is None else ledger.place or str(place.layout.quarantine(stream))
        yield DroppedStream(stream, state.epoch, state.generation, rows, quarantine)
    for name in place.fs.names(place.streams):
        stream, _, kind = name.rpartition(".")
        if kind == "removed" and not name.startswith(".") and stream not in logs:
            own = place.of_stream(stream)
            note, ledger = read_removed(own), read_ledger(own)
            quarantine = "" if ledger is None else ledger.place or str(place.layout.quarantine(stream))
            if note is not None:
                yield DroppedStream(stream, note.epoch, note.generation, 0, quarantine)


def _with_numbers(place: TablePlace, drop: TableDrop) -> TableDrop:
    """The record with the numbers that streams have reached since: a recovery opens a generation."""
    now = {stream.stream: stream for stream in _streams(place)}
    streams = (
        replace(old, epoch=max(old.epoch, new.epoch), generation=max(old.generation, new.generation))
        for old in drop.streams
        for new in (now.pop(old.stream, old),)
    )
    return replace(drop, streams=(*streams, *now.values()))


def _require_mounted(place: TablePlace, drop: TableDrop) -> None:
    """RetryableStorageError: a volume with history of the table may be away.

    Once files are being removed, an empty directory is no sign of it. A broken link is.
    """
    for value in all_values(place) if drop.phase is DropPhase.DOOMED else ():
        if (record := load_history(place, value).current) is not None:
            require_volumes(place, record)
    for internal in place.fs.names(place.partitions):
        partition = place.partitions / internal
        if place.fs.stat(partition) is None and (error := absent_volume(place.fs, partition)) is not None:
            raise error


def _trees(place: TablePlace) -> Iterator[Path]:
    yield place.intraday
    yield place.merges
    yield place.extended
    for internal, value in _locations(place):
        yield place.partitions / internal / value / place.table.table


def _locations(place: TablePlace) -> Iterator[tuple[str, str]]:
    """Internal partition and value of each location of history, whatever records say; also of what retires."""
    fs, table, mark = place.fs, place.table.table, f".retired-{place.table.table}-"
    for internal in fs.names(place.partitions):
        for value in fs.names(place.partitions / internal):
            if any(name == table or name.startswith(mark) for name in fs.names(place.partitions / internal / value)):
                yield internal, value


def _remove_history(place: TablePlace) -> None:
    fs = place.fs
    with fs.during("drop-history"):
        for value in all_values(place):
            for record in load_history(place, value).records:
                sweep(fs, record.run.staging)
        for internal, value in list(_locations(place)):
            retire(place, value, internal)
    with fs.during("drop-records"):
        fs.remove_tree(place.extended)
        fs.unlink(place.metadata_index)
        fs.remove_tree(place.merges)


def _remove_quarantines(place: TablePlace, drop: TableDrop) -> tuple[str, ...]:
    """Removes the quarantines at their default place that no other table shares; the others, which stay."""
    kept = set()
    with place.fs.during("drop-quarantine"):
        others = set(_places_of_others(place))
        for stream in drop.streams:
            path = Path(stream.quarantine)
            if stream.quarantine and (path != place.layout.quarantine(stream.stream) or stream.quarantine in others):
                kept.add(stream.quarantine)
            elif stream.quarantine:
                place.fs.remove_tree(path)
    return tuple(sorted(kept))


def _places_of_others(place: TablePlace) -> Iterator[str]:
    for table in deployed_tables(place.fs, place.layout):
        other = TablePlace(place.fs, place.layout, table)
        for stream in list_streams(other) if table != place.table else ():
            ledger = read_ledger(other.of_stream(stream))
            yield ledger.place if ledger is not None and ledger.place else str(place.layout.quarantine(stream))


def _remove_intraday(place: TablePlace, drop: TableDrop) -> None:
    """Intraday goes by one rename, so that no reader finds some of its files; then the files, and all caches."""
    fs, layout = place.fs, place.layout
    aside = place.drops / f"{drop.number}.intraday"
    with fs.during("drop-intraday"):
        fs.remove_tree(aside)  # of a drop that was killed
        if fs.stat(place.intraday) is not None:
            fs.rename(place.intraday, aside)
            fs.sync_dirs([place.intraday.parent, aside.parent])
        fs.remove_tree(aside)
    with fs.during("drop-caches"):
        for caches in (layout.requeues, layout.scratch, layout.spark_checkpoint):
            fs.remove_tree(caches(place.table, ""))
            remove_empty(fs, caches(place.table, "").parent, layout.root)


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
        sweep_locations(place, sorted({removal.key for _, removal in read_removals(place).entries}))
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
