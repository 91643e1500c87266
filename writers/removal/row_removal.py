"""Two-phase removal of intraday rows that history holds: truncate, then delete. Both require proof.

Truncate, for every location of a date:

1. *prove*: the merge record's proof holds, and its outputs are in history as recorded, byte for byte;
2. under the stream's commit lock: the location has exactly the merged rows, no later ones;
3. append the removals of the stream's locations, with the proof as evidence, and sync: from here on they are empty;
4. publish each ``table.size`` with the truncated mark, so that tasks refuse further rows.

Delete follows after a grace period and requires the proof again: files are renamed, the removal is recorded, then the
files are unlinked. The entries in ``<stream>.removals`` remain as tombstones. Both steps resume after a crash.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from sparkhaven.store.epochs.files.lock import lock_commits
from sparkhaven.store.epochs.files.published_size import publish_location
from sparkhaven.store.epochs.files.removals import Removals, read_removals, write_removals
from sparkhaven.store.epochs.reading.stream_state import StreamState, list_streams
from sparkhaven.store.epochs.state.log_values import LocationState
from sparkhaven.store.epochs.state.tombstone import DOOMED, Removal, RemovalPhase
from sparkhaven.store.errors import LockLostError, TableNotFoundError, TooEarlyError, ValidationFailedError
from sparkhaven.store.io.fs import Fs, Lock
from sparkhaven.store.layout import Layout, LocationKey, TableName
from sparkhaven.store.merges.merge_records import lock_table
from sparkhaven.store.schema.deployed.deploy import load_deployed
from sparkhaven.store.types.frozen import frozen
from sparkhaven.writers.merge.plan.merge_pins import after_sync
from sparkhaven.writers.merge.publish.publish_phase import GRACE_S
from sparkhaven.writers.removal.removal_proof import RemovalProof, require_own_files
from sparkhaven.writers.removal.state_cache import States

LOCK_TRIES, LOCK_PAUSE_S = 500, 0.02


@frozen
class Removed:
    """The locations of a removal, with ``dry_run`` those that it would remove: (stream, internal partition, rows)."""

    phase: RemovalPhase
    value: str
    locations: tuple[tuple[str, str, int], ...]
    dry_run: bool

    @property
    def rows(self) -> int:
        """Rows removed from intraday."""
        return sum(rows for _, _, rows in self.locations)


# --- the two phases --------------------------------------------------------------------------------------


def truncate(
    fs: Fs,
    layout: Layout,
    table: TableName,
    value: str,
    *,
    proof: RemovalProof,
    clock: Callable[[], float],
    source: str | None = None,
    dry_run: bool = False,
    pause: Callable[[float], None] = time.sleep,
    states: States | None = None,
) -> Removed:
    """Truncates the intraday locations of a date, or those of one source; they take no further rows.

    ``states`` caches the streams' states between the dates of one run. ValidationFailedError: the proof is of another
    date or does not cover a location (rows came after the merge); then no location of that stream is changed.
    TableNotFoundError: there is no such location.
    """
    _require(proof, table, value)
    run = _Run(fs, layout, proof, source, clock, pause, states or States(fs, layout, table))
    schema = load_deployed(fs, layout, table)
    done: list[tuple[str, str, int]] = []
    known = False

    def remove(stream: str, commit_lock: Lock, state: StreamState, chosen: list[LocationState]) -> None:
        nonlocal known
        known = known or bool(chosen)
        full = [location for location in chosen if not location.truncated]
        for location in full:
            _require_covered(proof, stream, location)
            _require_durable(proof, state, location)
            if location.rows:
                require_own_files(fs, layout.intraday_location(table, location.key), schema, location.files)
        done.extend((stream, location.key.internal, location.rows) for location in full)
        if dry_run:
            return
        run.record(stream, commit_lock, full, RemovalPhase.TRUNCATE, [location.rows for location in full])
        emptied = run.states.of(stream) if chosen else state
        for location in chosen:
            if fs.stat(layout.intraday_location(table, location.key)) is not None:  # else a delete has moved it away
                publish_location(fs, layout, table, stream, emptied.locations[location.key])

    run.each_stream(remove)
    if not known:
        raise run.nothing("intraday locations")
    return Removed(RemovalPhase.TRUNCATE, value, tuple(done), dry_run)


def delete(
    fs: Fs,
    layout: Layout,
    table: TableName,
    value: str,
    *,
    proof: RemovalProof,
    clock: Callable[[], float],
    source: str | None = None,
    grace_s: float = GRACE_S,
    dry_run: bool = False,
    pause: Callable[[float], None] = time.sleep,
    states: States | None = None,
) -> Removed:
    """Deletes the files of truncated locations, so that the date can take new rows.

    ValidationFailedError: a location is not truncated. TooEarlyError: it was truncated less than ``grace_s`` seconds
    ago, and readers may still use it. TableNotFoundError: there is no such location.
    """
    _require(proof, table, value)
    run = _Run(fs, layout, proof, source, clock, pause, states or States(fs, layout, table))
    done: list[tuple[str, str, int]] = []
    swept = 0

    def remove(stream: str, commit_lock: Lock, _: StreamState, chosen: list[LocationState]) -> None:
        nonlocal swept
        tombstones = read_removals(fs, layout, table, stream)
        rows = [_require_deletable(table, tombstones, location, clock(), grace_s) for location in chosen]
        done.extend((stream, loc.key.internal, n) for loc, n in zip(chosen, rows, strict=True))
        if dry_run:
            return
        for location in chosen:
            _move_away(fs, layout, table, location)
        run.record(stream, commit_lock, chosen, RemovalPhase.DELETE, rows)
        for key in sorted({r.key for _, r in tombstones.entries if run.takes(r.key)}):
            swept += sweep(fs, layout, table, key)

    run.each_stream(remove)
    if not done and not swept:
        raise run.nothing("truncated intraday locations")
    return Removed(RemovalPhase.DELETE, value, tuple(done), dry_run)


@frozen
class _Run:
    """One removal: its proof, hence table and date, and the source to remove (None: all)."""

    fs: Fs
    layout: Layout
    proof: RemovalProof
    source: str | None
    clock: Callable[[], float]
    pause: Callable[[float], None]
    states: States

    def takes(self, key: LocationKey) -> bool:
        """Whether a location is one of those to remove."""
        return key.value == self.proof.record.value and self.source in (None, key.internal)

    def each_stream(self, remove: Callable[[str, Lock, StreamState, list[LocationState]], None]) -> None:
        """Calls ``remove`` for each stream with its commit lock, its state, and its locations to remove."""
        fs, layout, table = self.fs, self.layout, self.proof.table
        with lock_table(fs, layout, table):
            for stream in list_streams(fs, layout, table):
                with _commits_held(fs, layout, table, stream, self.pause) as commit_lock:
                    state = self.states.of(stream)
                    chosen = [location for key, location in state.locations.items() if self.takes(key)]
                    remove(stream, commit_lock, state, sorted(chosen, key=lambda location: location.key))

    def record(
        self, stream: str, commit_lock: Lock, locations: list[LocationState], phase: RemovalPhase, rows: list[int]
    ) -> None:
        """Records the removal of locations that had ``rows``, durably."""
        fs, layout, table = self.fs, self.layout, self.proof.table
        now, evidence, state = int(self.clock() * 1000), self.proof.evidence(), self.states.of(stream)
        removals = [
            Removal(at.key, at.since, count, phase, state.epoch, evidence, now, at.made_ms, state.generation)
            for at, count in zip(locations, rows, strict=True)
        ]
        with fs.during(f"{phase}-record"):
            # an empty list makes the records of an earlier run durable
            write_removals(fs, layout, table, stream, removals, commit_lock=commit_lock)
        if removals:
            self.states.removed(stream, removals)

    def nothing(self, what: str) -> TableNotFoundError:
        """The error if there is no location to remove."""
        return TableNotFoundError(
            f"there are no {what} to remove",
            where=f"{self.proof.table} {self.proof.record.value}" + (f", source {self.source}" if self.source else ""),
            expected="at least one",
            found="none",
            hint="`sparkhaven stats` lists dates and sources",
        )


def _require(proof: RemovalProof, table: TableName, value: str) -> None:
    if not isinstance(proof, RemovalProof) or (proof.table, proof.record.value) != (table, value):
        found = f"of {proof.table} {proof.record.value}" if isinstance(proof, RemovalProof) else type(proof).__name__
        raise ValidationFailedError(
            "the proof of this date is missing",
            where=f"{table} {value}",
            expected="what writers.removal.proof.prove returns for it",
            found=found,
            hint="prove the date first",
            phase="prove",
        )


def _require_covered(proof: RemovalProof, stream: str, location: LocationState) -> None:
    merged = proof.rows_of(stream, location)
    if merged != location.rows:
        raise ValidationFailedError(
            "intraday has rows that history does not have",
            where=f"{proof.table} {location.key.value}, source {location.key.internal}",
            expected=f"{merged} merged rows",
            found=f"{location.rows} rows",
            hint=f"sparkhaven merge {proof.table} --dates {location.key.value}, then truncate again",
            phase="prove",
        )


def _require_durable(proof: RemovalProof, state: StreamState, location: LocationState) -> None:
    if location.epoch > state.durable:  # after a power failure the source would send its rows again
        raise ValidationFailedError(
            "rows are not synced yet",
            where=f"{proof.table} {location.key.value}, source {location.key.internal}",
            expected=f"epoch {location.epoch} synced, which no power failure makes the source replay",
            found=f"synced up to epoch {state.durable}",
            hint=after_sync(proof.table),
            phase="prove",
        )


def _require_deletable(
    table: TableName, tombstones: Removals, location: LocationState, now: float, grace_s: float
) -> int:
    tombstone = next((r for _, r in tombstones.entries if r.phase == RemovalPhase.TRUNCATE and r.means(location)), None)
    if tombstone is None or not location.truncated:
        raise ValidationFailedError(
            "the location is not truncated",
            where=f"{table} {location.key.value}, source {location.key.internal}",
            expected="a truncated location",
            found=f"{location.rows} rows",
            hint=f"sparkhaven truncate {table} --dates {location.key.value}",
            phase="delete",
        )
    age = now - tombstone.time_ms / 1000
    if age < grace_s:
        raise TooEarlyError(
            "readers may still use the truncated location",
            where=f"{table} {location.key.value}, source {location.key.internal}",
            expected=f"{grace_s:.0f} s since the truncate",
            found=f"{age:.0f} s",
            hint=f"run it again in {grace_s - age:.0f} s",
            phase="delete",
        )
    return tombstone.rows


def _move_away(fs: Fs, layout: Layout, table: TableName, location: LocationState) -> None:
    directory = layout.intraday_location(table, location.key)
    if fs.stat(directory) is None:
        return
    with fs.during("delete-rename"):
        fs.rename(directory, directory.with_name(f"{DOOMED}{table.table}-{location.since}"))
        fs.sync_dirs([directory.parent])


def sweep(fs: Fs, layout: Layout, table: TableName, key: LocationKey) -> int:
    """Unlinks what was moved away, and the value's directory if it is empty then."""
    place = layout.intraday_location(table, key).parent
    doomed = [name for name in fs.names(place) if name.startswith(DOOMED)]
    with fs.during("delete-unlink"):
        for name in doomed:
            fs.remove_tree(place / name)
        if doomed and fs.rmdir(place):
            fs.sync_dirs([place.parent])
    return len(doomed)


def _commits_held(fs: Fs, layout: Layout, table: TableName, stream: str, pause: Callable[[float], None]) -> Lock:
    path = layout.stream_removals(table, stream)
    for _ in range(LOCK_TRIES):
        lock = lock_commits(fs, path)
        if lock is not None:
            return lock
        pause(LOCK_PAUSE_S)
    raise LockLostError(
        "the stream's commit lock is busy. It commits without a pause, or another removal is running",
        where=path,
        expected=f"the lock within {LOCK_TRIES * LOCK_PAUSE_S:.0f} s",
        hint="run it again",
    )
