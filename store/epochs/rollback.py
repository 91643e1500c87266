"""Plans a rollback to an older epoch: its record and the changes of directories, before anything is changed.

A rollback of rows that a merge has written to history is refused.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from sparkhaven.store.epochs.reading.log_reader import read_files
from sparkhaven.store.epochs.reading.stream_state import load_stream
from sparkhaven.store.epochs.recovery.directory_plan import Settlement, settle_locations
from sparkhaven.store.epochs.recovery.recover import held_to_read, plan_recovery
from sparkhaven.store.epochs.recovery.resume import resume
from sparkhaven.store.epochs.state.log_records import CommitRecord, EpochRecord, RollbackRecord, WithdrawRecord
from sparkhaven.store.epochs.state.replay import StreamState
from sparkhaven.store.errors import CorruptFileError, TableExistsError
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
    again = f"sparkhaven merge {place.table} --dates {key.value}"
    on = f"the merge was killed while it published. Run `{again}` to finish it"
    return TableExistsError(
        "the rollback would remove rows that are in history",
        where=place.merges / key.value,
        expected=f"at least the {merged} merged rows of {key.internal}/{key.value}",
        found=f"{rows} rows at epoch {to}",
        hint=back if record.complete else on,
    )
