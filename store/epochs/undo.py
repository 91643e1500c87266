"""Plans the withdrawal of whole epochs: which rows of which locations they have, before anything is changed.

Epochs after them stay, and so do the positions of the source: the stream does not ingest the rows again.

Plans a rollback to an older epoch: its record and the changes of directories, before anything is changed.

A rollback of rows that a merge has written to history is refused.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from sparkhaven.store import next_steps
from sparkhaven.store.epochs.reading.log_reader import LogFiles, read_files
from sparkhaven.store.epochs.reading.stream_state import load_stream
from sparkhaven.store.epochs.recovery.directory_plan import Settlement, settle_locations
from sparkhaven.store.epochs.recovery.recover import held_to_read, plan_recovery
from sparkhaven.store.epochs.recovery.resume import resume
from sparkhaven.store.epochs.state.log_records import (
    CommitRecord,
    EpochRecord,
    RollbackRecord,
    Withdrawn,
    WithdrawRecord,
)
from sparkhaven.store.epochs.state.log_values import LocationReport, LocationState, OffsetRange
from sparkhaven.store.epochs.state.replay import StreamState, chain
from sparkhaven.store.errors import CorruptFileError, SettingsError, TableExistsError, TableNotFoundError
from sparkhaven.store.layout import LocationKey
from sparkhaven.store.merges.merge_records import MergeRecord, newest
from sparkhaven.store.merges.merge_run import MergePhase
from sparkhaven.store.places import StreamPlace, TablePlace
from sparkhaven.store.types.row_ranges import NO_ROWS, RowRanges


@dataclass(frozen=True, slots=True)
class Rollback:
    """The record that commits the older state as an epoch, the state after it, and the changes of its directories."""

    record: RollbackRecord
    state: StreamState
    plan: Settlement


def plan_rollback(
    place: TablePlace,
    before: StreamState,
    to: int,
    *,
    time_ms: int,
    reason: str = "asked for",
    damaged: Collection[LocationKey] = (),
) -> Rollback | None:
    """The rollback from ``before``, the newest state, to epoch ``to``; None if that is the newest one. Reads only.

    ``damaged``: locations whose files lack rows of the newest epoch. CorruptFileError: epoch ``to`` has those rows too.
    TableNotFoundError: that epoch is not kept. TableExistsError: history has rows that would be removed.
    """
    target = load_stream(place.of_stream(before.stream), epoch=to)
    if to == before.epoch:
        return None
    require_unmerged(place.of_stream(before.stream), to)
    touched = {key for key, location in before.locations.items() if location.epoch > to}
    changed = tuple(sorted(key for key in touched if key in target.locations))
    record = RollbackRecord(before.n + 1, before.epoch + 1, before.generation, time_ms, to, reason, changed)
    target.apply(record)
    target.note(record)
    asked = {*changed, *(key for key in damaged if key in target.locations)}
    try:
        plan = settle_locations(place, target, sorted(asked), ahead=False)
    except CorruptFileError as error:
        location = "/".join(Path(str(error.where)).parts[-4:-2])
        raise CorruptFileError(
            f"epoch {to} has a damaged location: {error.what}",
            where=error.where,
            expected=error.expected,
            found=error.found,
            hint="roll back further, restore the file from a copy, or set its location aside with `sparkhaven recover"
            f" {place.table} {before.stream} --quarantine {location}`. Nothing was changed or deleted",
        ) from error
    gone = sorted(key for key in touched if key not in target.locations)
    plan.stray_locations.extend(place.intraday_location(key) for key in gone)
    return Rollback(record, target, plan)


def preview_rollback(place: StreamPlace, to: int, *, time_ms: int) -> None:
    """Raises what a rollback to epoch ``to`` would raise; changes nothing."""
    with held_to_read(place):
        resumed = resume(place, boot_id=place.fs.boot_id(), time_ms=time_ms, settle=False)
        plan = plan_recovery(place, resumed, leave_damaged=True)
        plan_rollback(place, resumed.state, to, time_ms=time_ms, damaged=plan.damaged)


Made = tuple[LocationKey, int]  # a location and the epoch that made it


def require_unmerged(place: StreamPlace, to: int) -> None:
    """TableExistsError: a merge has read more rows of a location than it had at the kept epoch ``to``.

    This includes locations truncated or deleted since: their rows are in history, and after a rollback the source would
    replay them. It includes a merge that was killed after its check, because it resumes. Reads the log, and the
    newest merge records of each date touched since.
    """
    then, touched = _since(place, to)
    for value in sorted({key.value for key, _ in touched}):
        for record in merge_records_of(place, value):
            taken = {(i.internal, i.since): i for i in record.inputs if i.stream == place.stream}
            for key, since in sorted(touched):
                (rows, withdrawn), merged = then.get((key, since), (0, NO_ROWS)), taken.get((key.internal, since))
                if merged is None or key.value != value:
                    continue
                if rows < merged.rows:
                    raise _refused(place, record, key, merged.rows, rows, to)
                if not merged.leaves_out(withdrawn):
                    raise _other_withdrawn(place, record, key, merged.withdrawn, to)


def _since(place: StreamPlace, to: int) -> tuple[dict[Made, tuple[int, RowRanges]], set[Made]]:
    """Rows of each location at epoch ``to``, and withdrawn ones, without removals; and what has changed after it."""
    files = read_files(place)
    state = files.checkpoint.state
    then: dict[Made, tuple[int, RowRanges]] = {}
    touched: set[Made] = set()
    passed = state.epoch == to
    for record in itertools.chain([None], files.chain()):
        if record is not None:
            state.apply(record)
        if passed and isinstance(record, CommitRecord):
            touched.update((report.key, state.locations[report.key].since) for report in record.batch.reports)
        if passed and isinstance(record, WithdrawRecord):
            touched.update((part.key, part.since) for part in record.locations)
        if state.epoch == to and (record is None or isinstance(record, EpochRecord)):
            located = state.locations.items()
            then = {(key, location.since): (location.rows, location.withdrawn) for key, location in located}
            passed = True
    return then, touched


def merge_records_of(place: TablePlace, value: str) -> list[MergeRecord]:
    """The records of a date that have read its rows for good: the newest complete one, and one that was killed."""
    records = [newest(place, value), newest(place, value, complete=False)]
    return [r for r in records if r is not None and r.phase.reached(MergePhase.CHECK)]


def _other_withdrawn(
    place: StreamPlace, record: MergeRecord, key: LocationKey, withdrawn: int, to: int
) -> TableExistsError:
    return TableExistsError(
        "the rollback would go back to other withdrawn rows than those that history left out",
        where=place.merges / key.value,
        expected=f"the {withdrawn} rows of {key.internal}/{key.value} that merge {record.generation} left out",
        found=f"others at epoch {to}",
        hint="roll back to the epoch that withdrew them or a later one. See"
        f" `sparkhaven epochs list {place.table} {place.stream}`",
    )


def _refused(
    place: StreamPlace, record: MergeRecord, key: LocationKey, merged: int, rows: int, to: int
) -> TableExistsError:
    back = f"roll back to the merged epoch or a later one. See `sparkhaven epochs list {place.table} {place.stream}`"
    again = next_steps.merge(place.table, key.value)
    on = f"the merge was killed while it published. Run `{again}` to finish it"
    return TableExistsError(
        "the rollback would remove rows that are in history",
        where=place.merges / key.value,
        expected=f"at least the {merged} merged rows of {key.internal}/{key.value}",
        found=f"{rows} rows at epoch {to}",
        hint=back if record.complete else on,
    )


@dataclass(frozen=True, slots=True)
class Withdrawal:
    """What a ``withdraw`` record is to say; ``undoes``: the epochs whose rows these are, where these are all."""

    undoes: tuple[int, ...]
    reason: str
    locations: tuple[Withdrawn, ...]

    @property
    def rows(self) -> int:
        return sum(part.rows.rows for part in self.locations)


def plan_undo(place: StreamPlace, epochs: Sequence[int]) -> Withdrawal:
    """The rows of some epochs that are still shown; none of those that were undone before. Reads the log and the merge
    records of their dates.

    TableNotFoundError: an epoch is not kept, was rolled back, or does not exist. SettingsError: it has no rows of its
    own. TableExistsError: rows of it are merged, or their location was truncated or removed.
    """
    files, now = read_files(place), load_stream(place)
    live = _Live(place, files)
    ranges: dict[LocationKey, tuple[int, RowRanges]] = {}
    undone = {epoch: live.undone[epoch] for epoch in epochs if epoch in live.undone}
    if undone and len(undone) == len(set(epochs)):
        return Withdrawal((), f"undone before, by epoch {', '.join(map(str, sorted(set(undone.values()))))}", ())
    for epoch in sorted(set(epochs) - set(undone)):
        commit = live.commit(epoch)
        then = load_stream(place, epoch=epoch)
        for report in commit.batch.reports:
            if report.rows > report.base_rows:
                location = _unchanged(
                    place, epoch, report, then.locations.get(report.key), now.locations.get(report.key)
                )
                _require_unmerged(place, epoch, location, report.base_rows)
                rows = RowRanges.one(report.base_rows, report.rows).intersection(
                    location.withdrawn.outside(0, location.rows)
                )
                since, before = ranges.get(report.key, (location.since, rows))
                ranges[report.key] = since, before.union(rows)
    located = tuple(Withdrawn(key, since, rows) for key, (since, rows) in sorted(ranges.items()) if rows)
    if not located:
        numbers = ", ".join(map(str, epochs))
        raise SettingsError("there are no rows to undo", where=place.stream_log, found=f"epoch {numbers} without rows")
    return Withdrawal(tuple(sorted(set(epochs) - set(undone))), "undone", located)


def epochs_of_file(place: StreamPlace, path: str) -> list[int]:
    """The epoch that took a source file, by its path or the end of that. Raises what ``_chosen`` raises."""

    def takes(commit: CommitRecord) -> tuple[int, list[str]]:
        files = [file.path for file in commit.batch.files]
        mine = [name for name in files if name == path or name.endswith(f"/{path.removeprefix('/')}")]
        others = [name for name in files if name not in mine]
        return len(mine), [*others, *(part.path for part in commit.batch.ranges)]

    return _chosen(place, takes, f"file {path}")


def epochs_of_offsets(place: StreamPlace, topic: str, partition: int, start: int, stop: int) -> list[int]:
    """The epochs that took offsets ``[start, stop)`` of a topic's partition. Raises what ``_chosen`` raises."""

    def inside(part: OffsetRange) -> bool:
        return (part.topic, part.partition) == (topic, partition) and start <= part.start and part.stop <= stop

    def takes(commit: CommitRecord) -> tuple[int, list[str]]:
        ranges = [part for part in commit.batch.ranges if part.start < part.stop]
        same = [part for part in ranges if (part.topic, part.partition) == (topic, partition)]
        mine = [part for part in same if part.start < stop and start < part.stop]
        others = [part.path for part in ranges if not inside(part)] if mine else []
        return len(mine), [*others, *([file.path for file in commit.batch.files] if mine else [])]

    return _chosen(place, takes, f"offsets {start} to {stop} of {topic}/{partition}")


def _chosen(place: StreamPlace, takes: Callable[[CommitRecord], tuple[int, list[str]]], what: str) -> list[int]:
    """The epochs that took what is asked for. TableNotFoundError: none did. SettingsError: one took more than that."""
    listed = next_steps.kept_epochs(place.table, place.stream)
    live = _Live(place, read_files(place))
    epochs = []
    for commit in live.commits:
        count, others = takes(commit)
        if not count:
            continue
        if others and commit.epoch not in live.undone:
            more = f"{others[0]} and {len(others) - 1} more" if len(others) > 1 else others[0]
            raise SettingsError(
                "the epoch took more than what is to be undone",
                where=place.stream_log,
                expected=f"an epoch of {what} alone",
                found=f"epoch {commit.epoch}, with {more}",
                hint=f"to undo all of it: `sparkhaven epochs undo {place.table} {place.stream} --epoch {commit.epoch}`",
            )
        epochs.append(commit.epoch)
    if not epochs:
        raise TableNotFoundError(
            f"no kept epoch took {what}",
            where=place.stream_log,
            expected=f"one after the rollback floor {live.floor} that was not rolled back",
            found="none",
            hint=listed,
        )
    return epochs


class _Live:
    """The epochs of a log above its floor that were not rolled back."""

    def __init__(self, place: StreamPlace, files: LogFiles) -> None:
        self._place, self._files, self.floor = place, files, files.epoch
        self._chain = [r for r in chain(files.records, files.epoch, None, files.path) if isinstance(r, EpochRecord)]
        self.commits = [record for record in self._chain if isinstance(record, CommitRecord)]
        withdrawals = [record for record in self._chain if isinstance(record, WithdrawRecord)]
        self.undone = {epoch: record.epoch for record in withdrawals for epoch in record.undoes}

    def commit(self, epoch: int) -> CommitRecord:
        """The commit of an epoch with its reports; raises what ``plan_undo`` says."""
        place = self._place
        newest = self._chain[-1].epoch if self._chain else self.floor
        record = next((record for record in self._chain if record.epoch == epoch), None)
        if isinstance(record, RollbackRecord | WithdrawRecord):
            kind = "a rollback" if isinstance(record, RollbackRecord) else "a withdrawal of rows"
            raise SettingsError(
                f"epoch {epoch} is {kind} and has no rows of its own",
                where=place.stream_log,
                expected="an epoch that added rows",
                hint=f"`sparkhaven epochs rollback {place.table} {place.stream} --to {epoch - 1}` goes back before it",
            )
        if record is None:
            gone = any(isinstance(r, EpochRecord) and r.epoch == epoch for r in self._files.records)
            what = (
                "was rolled back"
                if gone
                else "is at or below the rollback floor"
                if epoch <= self.floor
                else "does not exist"
            )
            raise TableNotFoundError(
                f"epoch {epoch} {what}",
                where=place.stream_log,
                expected=f"one of the kept epochs, {self.floor + 1} to {newest}",
                found=epoch,
                hint=next_steps.kept_epochs(place.table, place.stream),
            )
        full = self._files.full(record)
        assert isinstance(full, CommitRecord)  # noqa: S101  the others were refused
        return full


def _unchanged(
    place: StreamPlace, epoch: int, report: LocationReport, then: LocationState | None, now: LocationState | None
) -> LocationState:
    """The location as it is now; TableExistsError: its rows of then are no longer in intraday."""
    since = epoch if report.base_epoch == 0 else then.since if then is not None else 0
    if now is None or now.truncated or now.since != since:
        raise TableExistsError(
            "the epoch has rows that are no longer in intraday",
            where=place.intraday_location(report.key),
            expected=f"the {report.rows - report.base_rows} rows that epoch {epoch} added",
            found="a truncated location" if now is not None and now.truncated else "another location, or none",
            hint=_delete_hint(place, report.key),
        )
    return now


def _require_unmerged(place: StreamPlace, epoch: int, location: LocationState, first: int) -> None:
    """TableExistsError: a merge has read rows of the location from ``first`` on, or was killed after it had."""
    key = location.key
    for record in merge_records_of(place, key.value):
        taken = {i.key: i.rows for i in record.inputs}.get((place.stream, key.internal, location.since), 0)
        if taken > first:
            raise TableExistsError(
                "the epoch has rows that are in history",
                where=Path(place.merges) / key.value,
                expected=f"at most {first} merged rows of {key.internal}/{key.value}",
                found=f"{taken} rows, of epoch {epoch} too",
                hint=_delete_hint(place, key),
            )


def _delete_hint(place: StreamPlace, key: LocationKey) -> str:
    return (
        "rows of history are deleted by a condition:"
        f" `sparkhaven delete-rows {place.table} --dates {key.value} --where CONDITION`"
    )
