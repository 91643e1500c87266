"""Removes intraday rows: those that history holds, in two phases with proof, and those that match a condition.

*Truncate* comes first, since readers may still use the files. For every location of a date:

1. *prove*: the merge record's proof holds, and its outputs are in history as recorded, byte for byte. Before any
   change;
2. under the stream's commit lock: the location has exactly the merged rows, no later ones. The lock keeps commits out
   until the record is there;
3. append the removals of the stream's locations, with the proof as evidence, and sync: from here on they are empty.
   Before ``table.size`` and the files: what is on disk follows the record;
4. publish each ``table.size`` with the truncated mark, so that tasks refuse further rows. After the record, from which
   it is derived.

*Delete* follows after a grace period and requires the proof again: files are renamed, the removal is recorded, then the
files are unlinked. The entries in ``<stream>.removals`` remain as tombstones. Both steps resume after a crash. Where
rows came for a truncated location, its stream has done the first two (``store.epochs.files.removals``), and delete
unlinks.

*Withdraw* takes out the intraday rows that match a condition, as an epoch of each stream that has some. No file is
changed: readers leave the rows out from that epoch on, older epochs still show them, and the next merge of their dates
leaves them out with proof. Streams must be stopped. All of their logs are opened before the first record is written. A
run that is killed between two of them has withdrawn the rows of the first; the same command goes on. Rows of history
that match are counted, and stay.

Rows are found by a scan of whole locations: neither statistics nor indexes leave any out. Once they are withdrawn, the
table is opened anew, and no row of these streams may match.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from sparkhaven.readers.arrow.opening import open_table
from sparkhaven.readers.arrow.pinned_table import matching_rows
from sparkhaven.readers.arrow.snapshot import pinned_of
from sparkhaven.store import next_steps
from sparkhaven.store.epochs.files.published_size import publish_location
from sparkhaven.store.epochs.files.removals import move_away, write_removals
from sparkhaven.store.epochs.log import StreamLog
from sparkhaven.store.epochs.reading.stream_state import list_streams
from sparkhaven.store.epochs.state.log_records import Withdrawn
from sparkhaven.store.epochs.state.log_values import LocationState
from sparkhaven.store.epochs.state.removed_locations import DOOMED, Removal, RemovalPhase, aside_name
from sparkhaven.store.epochs.state.replay import StreamState
from sparkhaven.store.epochs.undo import Withdrawal
from sparkhaven.store.errors import LockLostError, SettingsError, TooEarlyError, ValidationFailedError
from sparkhaven.store.io.fs import Lock
from sparkhaven.store.layout import LocationKey, TableName
from sparkhaven.store.merges.merge_records import lock_table
from sparkhaven.store.places import StreamPlace, TablePlace
from sparkhaven.store.scan.seen_history import refuse_unproved
from sparkhaven.store.schema.deployed.deploy import load_deployed
from sparkhaven.writers.merge.plan.merge_pins import after_sync
from sparkhaven.writers.merge.publish.publish_phase import GRACE_S
from sparkhaven.writers.removal.removal_proof import RemovalProof, States, require_own_files


@dataclass(frozen=True, slots=True)
class Removed:
    """The locations of a removal, with ``dry_run`` those that it would remove: (stream, internal partition, rows).

    ``since``: those that have come for the date since, which stay. ``unfinished``: what could not be done once the
    removal was recorded, and how it is done.
    """

    phase: RemovalPhase
    value: str
    locations: tuple[tuple[str, str, int], ...]
    dry_run: bool
    since: tuple[tuple[str, str, int], ...] = ()
    unfinished: tuple[str, ...] = ()

    @property
    def rows(self) -> int:
        return sum(rows for _, _, rows in self.locations)


def truncate(
    states: States,
    *,
    proof: RemovalProof,
    clock: Callable[[], float],
    source: str | None = None,
    dry_run: bool = False,
) -> Removed:
    """Truncates the intraday locations of a proved date, or those of one source; they take no further rows.

    ``states`` are those of the table's streams, for all dates of one run. ValidationFailedError: the proof is of
    another table or does not cover a location (rows came after the merge); then no location of that stream is changed.
    A date without such a location has no rows in intraday any more: nothing is done.
    """
    _require(proof, states.place.table)
    run, place = _Run(states, proof, source, clock), states.place
    schema = load_deployed(place)
    done: list[tuple[str, str, int]] = []

    def remove(stream: str, commit_lock: Lock, state: StreamState, chosen: list[LocationState]) -> None:
        full = [location for location in chosen if not location.truncated]
        for location in full:
            _require_covered(proof, stream, location)
            _require_durable(proof, state, location)
            if location.rows:
                directory = place.intraday_location(location.key)
                require_own_files(place.fs, directory, schema, location.files, location.named_by)
        done.extend((stream, location.key.internal, location.rows) for location in full)
        if dry_run or not chosen:
            return
        run.record(stream, commit_lock, full, RemovalPhase.TRUNCATE, [location.rows for location in full])
        emptied = run.states.of(stream)
        with run.after_record(RemovalPhase.TRUNCATE):
            for location in chosen:
                if place.fs.stat(place.intraday_location(location.key)) is not None:  # else a delete has moved it away
                    publish_location(place.of_stream(stream), emptied.locations[location.key])

    run.each_stream(remove)
    return Removed(RemovalPhase.TRUNCATE, proof.record.value, tuple(done), dry_run, unfinished=tuple(run.unfinished))


def delete(
    states: States,
    *,
    proof: RemovalProof,
    clock: Callable[[], float],
    source: str | None = None,
    grace_s: float = GRACE_S,
    dry_run: bool = False,
) -> Removed:
    """Deletes the files of truncated locations of a proved date, so that it can take new rows.

    A location of which the merge has no row stays: it came since. Files that were moved aside for it go.
    ValidationFailedError: another location is not truncated. TooEarlyError: one was truncated less than ``grace_s``
    seconds ago, and readers may still use it. Without a truncated location, nothing is done.
    """
    _require(proof, states.place.table)
    run, place = _Run(states, proof, source, clock), states.place
    done: list[tuple[str, str, int]] = []
    since: list[tuple[str, str, int]] = []

    def remove(stream: str, commit_lock: Lock, _: StreamState, located: list[LocationState]) -> None:
        tombstones = run.states.removals(stream, proof.record.value)
        removed = {r.key for r in tombstones if r.phase == RemovalPhase.DELETE and run.takes(r.key)}
        chosen = [location for location in located if location.truncated or proof.input_of(stream, location).rows]
        rows = [_require_deletable(place.table, tombstones, location, clock(), grace_s) for location in chosen]
        _require_unread(place, tombstones, removed, clock(), grace_s)
        done.extend((stream, loc.key.internal, n) for loc, n in zip(chosen, rows, strict=True))
        since.extend((stream, loc.key.internal, loc.rows) for loc in located if loc not in chosen)
        if dry_run or not (chosen or removed):
            return
        move_away(place, chosen)
        run.record(stream, commit_lock, chosen, RemovalPhase.DELETE, rows)
        with run.after_record(RemovalPhase.DELETE):
            sweep(place, sorted({removal.key for removal in tombstones if run.takes(removal.key)}))

    run.each_stream(remove)
    date, unfinished = proof.record.value, tuple(run.unfinished)
    return Removed(RemovalPhase.DELETE, date, tuple(done), dry_run, tuple(since), unfinished)


@dataclass(frozen=True, slots=True)
class _Run:
    """One removal: its proof, hence table and date, and the source to remove (None: all)."""

    states: States
    proof: RemovalProof
    source: str | None
    clock: Callable[[], float]
    unfinished: list[str] = field(default_factory=list)

    @property
    def place(self) -> TablePlace:
        return self.states.place

    def takes(self, key: LocationKey) -> bool:
        return key.value == self.proof.record.value and self.source in (None, key.internal)

    def each_stream(self, remove: Callable[[str, Lock, StreamState, list[LocationState]], None]) -> None:
        """Calls ``remove`` for each stream with its commit lock, its state, and its locations to remove."""
        with lock_table(self.place):
            for stream in list_streams(self.place):
                with self.states.commits_held(stream) as commit_lock:
                    state = self.states.of(stream)
                    of_date = state.locations.of_date(self.proof.record.value)
                    remove(stream, commit_lock, state, [location for location in of_date if self.takes(location.key)])

    def record(
        self, stream: str, commit_lock: Lock, locations: list[LocationState], phase: RemovalPhase, rows: list[int]
    ) -> None:
        """Records the removal of locations that had ``rows``, durably."""
        place = self.place
        now, evidence, state = int(self.clock() * 1000), self.proof.evidence(), self.states.of(stream)
        removals = [
            Removal(loc.key, loc.since, count, phase, state.epoch, evidence, now, loc.made_ms, state.generation)
            for loc, count in zip(locations, rows, strict=True)
        ]
        with place.fs.during(f"{phase}-record"):
            # an empty list makes the records of an earlier run durable
            write_removals(place.of_stream(stream), removals, commit_lock=commit_lock)
        if removals:
            self.states.removed(stream, removals)

    @contextmanager
    def after_record(self, phase: RemovalPhase) -> Iterator[None]:
        """The removal stands, whatever becomes of the body, which the same command repeats."""
        try:
            yield
        except OSError as error:
            date = self.proof.record.value
            again = next_steps.truncate(self.place.table, date)
            if phase is RemovalPhase.DELETE:
                again = f"sparkhaven delete {self.place.table} --dates {date}"
            what = f"{date}: the {phase} is recorded, and readers see it. Files could not follow: {error}."
            self.unfinished.append(f"{what} `{again}` does the rest")


def _require(proof: RemovalProof, table: TableName) -> None:
    if not isinstance(proof, RemovalProof) or proof.table != table:
        proven = f"of {proof.table} {proof.record.value}" if isinstance(proof, RemovalProof) else type(proof).__name__
        raise ValidationFailedError(
            "the proof of a date of this table is missing",
            where=table,
            expected="what writers.removal.removal_proof.prove returns for it",
            found=proven,
            hint="prove the date first",
            phase="prove",
        )


def _require_covered(proof: RemovalProof, stream: str, location: LocationState) -> None:
    taken = proof.input_of(stream, location)
    merged = taken.rows
    if merged == location.rows and not taken.leaves_out(location.withdrawn):
        raise ValidationFailedError(
            "rows were withdrawn in intraday after the merge",
            where=f"{proof.table} {location.key.value}, source {location.key.internal}",
            expected=f"{taken.withdrawn} withdrawn rows, those that the merge knew",
            found=f"{location.withdrawn.rows}, others",
            hint=f"sparkhaven merge {proof.table} --dates {location.key.value} --rewrite, then truncate again",
            phase="prove",
        )
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
    table: TableName, tombstones: Sequence[Removal], location: LocationState, now: float, grace_s: float
) -> int:
    tombstone = next((r for r in tombstones if r.phase == RemovalPhase.TRUNCATE and r.means(location)), None)
    if tombstone is None or not location.truncated:
        raise ValidationFailedError(
            "the location is not truncated",
            where=f"{table} {location.key.value}, source {location.key.internal}",
            expected="a truncated location",
            found=f"{location.rows} rows",
            hint=next_steps.truncate(table, location.key.value),
            phase="delete",
        )
    _require_age(table, tombstone, now, grace_s)
    return tombstone.rows


def _require_unread(
    place: TablePlace, tombstones: Sequence[Removal], keys: Collection[LocationKey], now: float, grace_s: float
) -> None:
    """TooEarlyError: files that late rows have moved away were truncated less than ``grace_s`` seconds ago."""
    first: dict[tuple[LocationKey, int], Removal] = {}
    for removal in tombstones:
        if removal.key in keys:
            first.setdefault((removal.key, removal.since), removal)  # the truncate, where it is still on record
    for (key, since), removal in first.items():
        directory = place.intraday_location(key)
        if place.fs.stat(directory.with_name(aside_name(directory.name, since))) is not None:
            _require_age(place.table, removal, now, grace_s)


def _require_age(table: TableName, removal: Removal, now: float, grace_s: float) -> None:
    age = now - removal.time_ms / 1000
    if age < grace_s:
        raise TooEarlyError(
            "readers may still use the truncated location",
            where=f"{table} {removal.key.value}, source {removal.key.internal}",
            expected=f"{grace_s:.0f} s since the truncate",
            found=f"{age:.0f} s",
            hint=f"run it again in {grace_s - age:.0f} s",
            phase="delete",
        )


def sweep(place: TablePlace, keys: Iterable[LocationKey]) -> None:
    """Unlinks what was moved away of these locations, and directories of values that are empty then."""
    emptied = list[Path]()
    for directory in (place.intraday_location(key).parent for key in keys):
        doomed = [name for name in place.fs.names(directory) if name.startswith(DOOMED)]
        with place.fs.during("delete-unlink"):
            for name in doomed:
                place.fs.remove_tree(directory / name)
            if place.fs.stat(directory) is not None and place.fs.rmdir(directory):
                emptied.append(directory.parent)
    place.fs.sync_dirs(emptied)


OpenLog = Callable[[StreamPlace], AbstractContextManager[StreamLog]]


@dataclass(frozen=True, slots=True)
class MatchingRows:
    """Rows of the newest snapshot that match: in intraday by stream, and how many in history, by date.

    ``dates``: how many rows each date has, matching or not.
    """

    streams: dict[str, tuple[Withdrawn, ...]]
    history: dict[str, int]
    dates: dict[str, int]

    @property
    def rows(self) -> int:
        return sum(self.of_dates().values())

    def of_dates(self) -> dict[str, int]:
        """The number of matching rows of each date, in order."""
        counts = dict(self.history)
        for parts in self.streams.values():
            for part in parts:
                counts[part.key.value] = counts.get(part.key.value, 0) + part.rows.rows
        return dict(sorted(counts.items()))


@dataclass(frozen=True, slots=True)
class WithdrawnRows:
    """What a run has withdrawn: rows and epoch of each stream that had some. ``matching``: when it began."""

    matching: MatchingRows
    rows: dict[str, Withdrawal]
    epochs: dict[str, int]


def find_rows(
    place: TablePlace, where: str, dates: Sequence[str] | None, *, streams: Collection[str] | None = None
) -> MatchingRows:
    """The rows that match, in the newest snapshot. TableNotFoundError: a user table. Raises what reading raises.

    ValidationFailedError: some are of a date whose history is not as a merge record says: a deletion cannot be proved.
    ``streams``: rows of these alone that are not merged.
    """
    pinned = pinned_of(open_table(place.layout.root, str(place.table), fs=place.fs))
    load_deployed(place)  # a user table has none
    predicate = pinned.predicate(where)
    if predicate is None:
        raise SettingsError("there is no condition", expected="SQL, like 'Size < 0'", found=where)
    parts: dict[str, list[Withdrawn]] = {}
    history: dict[str, int] = {}
    plan = pinned.plan(dates=dates, where=predicate, pruned=False)
    slices = plan.slices
    chosen = [slice_ for slice_ in slices if streams is None or slice_.stream in streams]
    for slice_, rows in matching_rows(pinned, chosen, predicate):
        if slice_.stream is None:
            history[slice_.key.value] = history.get(slice_.key.value, 0) + rows.rows
        else:
            location = pinned.pin(slice_.stream).state.locations[slice_.key]
            parts.setdefault(slice_.stream, []).append(Withdrawn(slice_.key, location.since, rows))
    matched = history.keys() | {part.key.value for own in parts.values() for part in own}
    refuse_unproved(place, [seen for seen in plan.differing if seen.value in matched])
    totals: dict[str, int] = {}
    for slice_ in slices:
        totals[slice_.key.value] = totals.get(slice_.key.value, 0) + slice_.count
    return MatchingRows({stream: tuple(own) for stream, own in sorted(parts.items())}, history, totals)


def withdraw_rows(place: TablePlace, where: str, dates: Sequence[str] | None, open_log: OpenLog) -> WithdrawnRows:
    """Withdraws the rows that match, as they are when the logs of their streams are held; none: no epoch is made.

    LockLostError: a stream, a merge or a removal is running; nothing was changed. ValidationFailedError: rows that
    match are still shown. Raises what ``find_rows`` raises.
    """
    first = find_rows(place, where, dates)
    rows: dict[str, Withdrawal] = {}
    epochs: dict[str, int] = {}
    with ExitStack() as opened:
        logs = {stream: opened.enter_context(open_log(place.of_stream(stream))) for stream in first.streams}
        now = find_rows(place, where, dates, streams=logs) if logs else first

        def plan(stream: str) -> Withdrawal:
            rows[stream] = _again(place, where, dates, stream)
            return rows[stream]

        for stream, log in logs.items():
            if now.streams.get(stream):
                epochs[stream] = log.withdraw(partial(plan, stream))
        left = find_rows(place, where, dates, streams=epochs).streams if epochs else {}
    for stream, parts in left.items():
        raise ValidationFailedError(
            "rows that match are still shown after they were withdrawn",
            where=place.of_stream(stream).stream_log,
            expected=f"no row after epoch {epochs[stream]}, which withdrew {rows[stream].rows}",
            found=f"{sum(part.rows.rows for part in parts)} rows",
            hint="report it: this is a bug. Epochs are taken back by"
            f" `sparkhaven epochs rollback {place.table} {stream} --to {epochs[stream] - 1}`",
        )
    return WithdrawnRows(first, rows, epochs)


def _again(place: TablePlace, where: str, dates: Sequence[str] | None, stream: str) -> Withdrawal:
    """The rows of one stream, found once more under the lock of the table: a merge may have come before it."""
    parts = find_rows(place, where, dates, streams=[stream]).streams.get(stream)
    if parts is None:
        raise LockLostError(
            "a merge has taken the rows that match into history meanwhile",
            where=place.of_stream(stream).stream_log,
            hint="run this again: it deletes them from there",
        )
    return Withdrawal((), f"deleted where {where}", parts)
