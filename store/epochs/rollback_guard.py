"""Refuses a rollback of rows that a merge has written to history."""

from __future__ import annotations

import itertools

from sparkhaven.store.epochs.reading.stream_state import read_files
from sparkhaven.store.epochs.state.log_records import CommitRecord, RollbackRecord
from sparkhaven.store.errors import TableExistsError
from sparkhaven.store.layout import LocationKey
from sparkhaven.store.merges.merge_records import MergeRecord, newest
from sparkhaven.store.merges.phase import MergePhase
from sparkhaven.store.places import StreamPlace, TablePlace

Made = tuple[LocationKey, int]  # a location and the epoch that made it


def require_unmerged(place: StreamPlace, to: int) -> None:
    """TableExistsError: a merge has read more rows of a location than it had at the kept epoch ``to``.

    This includes locations truncated or deleted since: their rows are in history, and after a rollback the source would
    replay them. It includes a merge that was killed after its check, because it resumes. Reads the log, and the
    newest merge records of each date touched since.
    """
    then, touched = _since(place, to)
    for value in sorted({key.value for key, _ in touched}):
        for record in _records(place, value):
            taken = {(i.internal, i.since): i.rows for i in record.inputs if i.stream == place.stream}
            for key, since in sorted(touched):
                rows, merged = then.get((key, since), 0), taken.get((key.internal, since), 0)
                if key.value == value and rows < merged:
                    raise _refused(place, record, key, merged, rows, to)


def _since(place: StreamPlace, to: int) -> tuple[dict[Made, int], set[Made]]:
    """Rows of each location at epoch ``to``, without later removals, and the locations that grew after it."""
    files = read_files(place)
    state = files.checkpoint.state
    then: dict[Made, int] = {}
    touched: set[Made] = set()
    passed = state.epoch == to
    for record in itertools.chain([None], files.chain()):
        if record is not None:
            state.apply(record)
        if passed and isinstance(record, CommitRecord):
            touched.update((report.key, state.locations[report.key].since) for report in record.batch.reports)
        if state.epoch == to and (record is None or isinstance(record, CommitRecord | RollbackRecord)):
            then = {(key, location.since): location.rows for key, location in state.locations.items()}
            passed = True
    return then, touched


def _records(place: TablePlace, value: str) -> list[MergeRecord]:
    """The newest complete merge record of a date, and a newer one from which a killed merge would resume."""
    records = [newest(place, value), newest(place, value, complete=False)]
    return [r for r in records if r is not None and r.phase.reached(MergePhase.CHECK)]


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
