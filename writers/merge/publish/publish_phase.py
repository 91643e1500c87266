"""The publish phase of a merge, after its check: publish, index, record, clean, for one date or several at once.

4. *publish*: staged locations are renamed into place. First: the index and the record name them;
5. *index*: the location index gets them. Before the record, so that no record counts whose index lacks its locations;
6. *record*: the commit point. Readers see the old state before it and the new state after it;
7. *clean*: replaced and left files go. After the record: until then readers need them.

All of it is idempotent, so only the last two phases are stored. Several dates share one index and one sync.

Replaced generations are removed after a grace period, by the next merge or by ``clean``. A location is removed only if
a complete merge record names it as replaced, no newer record has it among its outputs, and the grace period since then
is over. Locations that no record names, the staging of an unfinished merge, and unreachable volumes are left alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

from sparkhaven.store.errors import SparkhavenError, in_phase
from sparkhaven.store.io.fs import size_below
from sparkhaven.store.merges.history import DateHistory, begin_publication, end_publication, load_history
from sparkhaven.store.merges.merge_records import MergeRecord, all_values, generations, lock_table, store_records
from sparkhaven.store.merges.merge_run import Destination, MergePhase
from sparkhaven.store.places import TablePlace
from sparkhaven.writers.merge.date_result import PhaseTimes, PhaseWatch
from sparkhaven.writers.merge.plan.merge_inputs import holds
from sparkhaven.writers.merge.plan.merge_pins import Pins
from sparkhaven.writers.merge.publish.staged_locations import (
    is_unfinished_copy,
    publish,
    retire,
    sweep,
    taken_rows,
    undo_copy,
    write_index,
)
from sparkhaven.writers.merge.write.phases import Failure

GRACE_S = 3600.0


@dataclass(frozen=True, slots=True)
class Published:
    """A published merge, the last of its date.

    ``clean_error``: why files that it left behind could not be removed; None: they are gone. ``times``: milliseconds of
    each phase, of all dates together that were published with it.
    """

    history: DateHistory
    clean_error: SparkhavenError | OSError | None = None
    times: PhaseTimes = ()

    @property
    def record(self) -> MergeRecord:
        return _merge_of(self.history)


class PublishPhase:
    """Publishes merges of one table. ``clock`` gives seconds since the epoch; replaced ones stay ``GRACE_S``."""

    def __init__(self, place: TablePlace, clock: Callable[[], float]) -> None:
        self._place, self._clock = place, clock

    def close(self, histories: Sequence[DateHistory]) -> list[Published | Failure]:
        """Publishes the last merge of each date, whose check is stored; results in order.

        A failed one does not stop the others.

        An error after the commit point fails no merge: it is returned with the published record.
        """
        place, watch = self._place, PhaseWatch()
        results: list[DateHistory | Failure] = []
        with place.fs.during("merge-publish"), watch.phase(MergePhase.PUBLISH):
            touched: list[Path] = []
            for history in histories:
                try:
                    with in_phase("publish"):
                        for destination in destinations_of(_merge_of(history)):
                            touched += publish(place, history.value, destination)
                    results.append(history)
                except (SparkhavenError, OSError) as error:
                    results.append(Failure(error))
            place.fs.sync_dirs(touched)
        published = [result for result in results if isinstance(result, DateHistory)]
        if not published:
            return [result for result in results if isinstance(result, Failure)]
        values = [history.value for history in published]
        with place.fs.during("merge-index"), watch.phase(MergePhase.INDEX):
            begin_publication(place, values)
            write_index(place, [_merge_of(history) for history in published])
        with place.fs.during("merge-record"), watch.phase(MergePhase.RECORD):
            now_ms = int(self._clock() * 1000)
            merges = map(_merge_of, published)
            switched = [replace(r, phase=MergePhase.RECORD, run=replace(r.run, switched_ms=now_ms)) for r in merges]
            store_records(place, switched)
            end_publication(place, values)
        recorded = [history.after(record) for history, record in zip(published, switched, strict=True)]
        with watch.phase(MergePhase.CLEAN):
            tidied = self.tidy(recorded)
        closed = iter([replace(merge, times=watch.times) for merge in tidied])
        return [next(closed) if isinstance(result, DateHistory) else result for result in results]

    def resume(self, history: DateHistory, pins: Pins) -> Published | Failure | None:
        """Goes on with a merge that was killed after its check, or while it cleaned; None: there is nothing to publish.

        The staging of one whose sources have changed since is removed.
        """
        record = history.last
        if record is not None and is_unfinished_copy(record):
            undo_copy(self._place, record)
            return None
        if record is None or record.phase is MergePhase.CLEAN or not record.phase.reached(MergePhase.CHECK):
            return None
        if record.complete:
            return self.tidy([history])[0]
        if record.phase is MergePhase.CHECK and not holds(record, pins):
            sweep(self._place.fs, record.run.staging)
            return None
        return self.close([history])[0]

    def tidied(self, history: DateHistory) -> DateHistory:
        """The history of a date once what its last merge has left behind is removed, if it was killed before that."""
        if history.last is None or history.last.phase is not MergePhase.RECORD:
            return history
        return self.tidy([history])[0].history

    def tidy(self, histories: Sequence[DateHistory]) -> list[Published]:
        """Removes what the last merge of each date has left behind, of each as far as it goes; results in order."""
        errors: dict[str, SparkhavenError | OSError] = {}
        cleaned: dict[str, list[MergeRecord]] = {}
        for history in histories:
            try:
                with in_phase("clean"), self._place.fs.during("merge-clean"):
                    cleaned[history.value] = self._sweep(history)
            except (SparkhavenError, OSError) as error:
                errors[history.value] = error
        try:
            with in_phase("clean"):
                store_records(self._place, chain.from_iterable(cleaned.values()))
        except (SparkhavenError, OSError) as error:
            errors |= dict.fromkeys(cleaned, error)
        return [
            Published(history, errors[history.value])
            if history.value in errors
            else Published(history.after(*cleaned[history.value]))
            for history in histories
        ]

    def _sweep(self, history: DateHistory) -> list[MergeRecord]:
        """Removes the staging of a merge, and of earlier ones of its date whose cleaning failed; their new records."""
        *earlier, last = history.records
        swept = [*(record for record in earlier if record.phase is MergePhase.RECORD), last]
        for record in swept:
            sweep(self._place.fs, record.run.staging)
        self.retire_replaced(history)
        return [replace(record, phase=MergePhase.CLEAN) for record in swept]

    def retire_replaced(self, history: DateHistory) -> None:
        """Removes a date's replaced locations whose grace period is over."""
        now, alive = self._clock(), history.alive
        for record in history.complete:
            if now - record.published_ms / 1000 >= GRACE_S:
                for internal in record.replaces:
                    if internal not in alive:
                        retire(self._place, history.value, internal)


def destinations_of(record: MergeRecord) -> list[Destination]:
    """The destinations that a record's own run wrote and that have rows."""
    written = {output.internal for output in record.outputs}
    return [destination for destination in record.run.destinations if destination.internal in written]


def _merge_of(history: DateHistory) -> MergeRecord:
    """The merge that is published: the last of its date."""
    return history.records[-1]


@dataclass(frozen=True, slots=True)
class Replaced:
    """A replaced location: its directory, its files' ``size`` in bytes, and seconds until its removal (0: now)."""

    value: str
    internal: str
    path: Path
    size: int
    due_s: float


def waiting(place: TablePlace, now_s: float) -> list[Replaced]:
    """The replaced locations that are still on disk; ``now_s`` is seconds since the epoch."""
    dates = (replaced_by(place, load_history(place, date), now_s) for date in all_values(place))
    return [replaced for of_date in dates for replaced in of_date]


def replaced_by(place: TablePlace, history: DateHistory, now_s: float) -> list[Replaced]:
    """The replaced locations of one date that are still on disk."""
    alive, replaced = history.alive, []
    for record in history.complete:
        for internal in record.replaces:
            path = place.fs.resolve(place.partitions / internal) / record.value / place.table.table
            if internal in alive or place.fs.stat(path) is None:
                continue
            due = max(0.0, record.published_ms / 1000 + GRACE_S - now_s)
            replaced.append(Replaced(record.value, internal, path, size_below(place.fs, path), due))
    return replaced


def clean(
    place: TablePlace, clock: Callable[[], float], *, dry_run: bool = False
) -> tuple[list[Replaced], list[Replaced]]:
    """Removes what is due; returns the removed locations (with ``dry_run`` those due) and those that still wait.

    LockLostError: a merge is running.
    """
    if dry_run:
        return _parted(waiting(place, clock()))
    with lock_table(place):
        histories = [load_history(place, value) for value in all_values(place)]
        sweep(place.fs, [taken_rows(place)])
        now_s, publishing = clock(), PublishPhase(place, clock)
        due, later = _parted([item for history in histories for item in replaced_by(place, history, now_s)])
        for history in histories:
            if any(item.value == history.value for item in due):
                publishing.retire_replaced(history)
    return due, later


def clean_after(place: TablePlace, clock: Callable[[], float], on_progress: Callable[[str], None]) -> None:
    """Removes what is due at the end of a merge, which holds the table's lock. Errors are reported, not raised."""
    publishing = PublishPhase(place, clock)
    sweep(place.fs, [taken_rows(place)])  # of a merge of a frame that was killed
    for value in all_values(place):
        try:
            if len(generations(place, value)) < 2:
                continue
            history = load_history(place, value)
            if _parted(replaced_by(place, history, clock()))[0]:
                publishing.retire_replaced(history)
        except (SparkhavenError, OSError) as error:
            again = f"`sparkhaven clean {place.table}` removes them"
            on_progress(f"{value}: replaced locations could not be removed ({error}). {again}")


def _parted(replaced: list[Replaced]) -> tuple[list[Replaced], list[Replaced]]:
    due = [location for location in replaced if not location.due_s]
    return due, [location for location in replaced if location.due_s]
