"""Moves dates of history to another storage partition: copied, proved, published as a new generation.

Readers change over at the merge record. The former locations go as those of every replaced generation do, an hour
later. The record says that the date stays in its new partition, so that later merges of it write there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial

from sparkhaven.store.errors import SparkhavenError
from sparkhaven.store.io.system_errors import in_phase
from sparkhaven.store.layout import LocationKey, without_generation
from sparkhaven.store.merges.history import DateHistory, load_history
from sparkhaven.store.merges.merge_records import MergeRecord, lock_table, store_records
from sparkhaven.store.merges.merge_run import MergePhase, Relocated
from sparkhaven.store.merges.validations import load_validation
from sparkhaven.store.places import TablePlace
from sparkhaven.store.scan.standing import dated_partitions
from sparkhaven.store.schema.deployed.deploy import load_deployed
from sparkhaven.store.types.model import TableSchema
from sparkhaven.store.volumes import require_volumes
from sparkhaven.writers.merge.adoption import adopted_by_command
from sparkhaven.writers.merge.plan.merge_pins import Pins
from sparkhaven.writers.merge.publish.publish_phase import PublishPhase
from sparkhaven.writers.merge.publish.unfinished_copies import undo_copy, without_unfinished_copy
from sparkhaven.writers.merge.write.phases import Failure
from sparkhaven.writers.partitions import Volume, chosen_volume, require_owner
from sparkhaven.writers.relocation.copied_bytes import CopiedBytes
from sparkhaven.writers.relocation.copied_date import (
    PlannedCopy,
    finished,
    passed_on,
    plan_copy,
    require_space,
    stage_copy,
)


@dataclass(frozen=True, slots=True)
class MovedDate:
    """A date that was moved, or would be: ``size`` in bytes of all files, ``origin`` the partitions before.

    ``generation``: that of the record; 0 where the date was there already.
    """

    value: str
    rows: int
    size: int
    origin: tuple[str, ...]
    generation: int


def move_dates(
    place: TablePlace,
    values: Sequence[str],
    partition: str,
    *,
    clock: Callable[[], float],
    workers: int = 1,
    dry_run: bool = False,
    stop_on_error: bool = False,
    on_progress: Callable[[str], None] = lambda _: None,
) -> Iterator[MovedDate | Failure]:
    """Moves merged dates, one result each, in order; a failed one does not stop the others.

    ``workers`` dates are copied at once. ``clock``: seconds since the epoch. ``stop_on_error``: one date after the
    other, and none after a failed one. TableNotFoundError, RetryableStorageError, before anything else: there is no
    such partition, or its volume is not mounted. LockLostError: a merge is running.
    """
    volume = chosen_volume(place.fs, place.layout, place.table.namespace, partition)
    moves = _Moves(place, volume, clock, CopiedBytes(on_progress))
    if dry_run:
        yield from moves.wave(values, workers=1, dry_run=True)
        return
    with lock_table(place):
        size = 1 if stop_on_error else 2 * workers
        for first in range(0, len(values), size):
            for result in moves.wave(values[first : first + size], workers=workers, dry_run=False):
                yield result
                if stop_on_error and isinstance(result, Failure):
                    return


class _Moves:
    def __init__(self, place: TablePlace, volume: Volume, clock: Callable[[], float], progress: CopiedBytes) -> None:
        self._place, self._volume, self._clock, self._progress = place, volume, clock, progress
        self._schema: TableSchema = load_deployed(place)
        self._publishing = PublishPhase(place, clock)

    def wave(self, values: Sequence[str], *, workers: int, dry_run: bool) -> list[MovedDate | Failure]:
        """Dates that are copied at once and published together; results in order."""
        planned = [self._planned(value, dry_run=dry_run) for value in values]
        copies = [one for one in planned if isinstance(one, PlannedCopy)]
        errors = dict(zip((one.history.value for one in copies), require_space(copies), strict=True))
        copies = [one for one in copies if errors[one.history.value] is None]
        results: dict[str, MovedDate | Failure] = {}
        for value, one in zip(values, planned, strict=True):
            error = errors.get(value)
            if not isinstance(one, PlannedCopy):
                results[value] = one
            elif error is not None:
                results[value] = Failure(error)
            else:
                results[value] = self._moved(one, one.record)
        if copies and not dry_run:
            with ThreadPoolExecutor(min(workers, len(copies))) as pool:
                staged = list(pool.map(self._staged, copies))
            results |= self._published(copies, staged)
        return [results[value] for value in values]

    def _planned(self, value: str, *, dry_run: bool) -> PlannedCopy | MovedDate | Failure:
        """What is to be copied of a date; a result where there is nothing to copy."""
        place = self._place
        try:
            history = load_history(place, value)
            if not dry_run:
                resumed = self._resumed(history)
                if resumed is not None:
                    return resumed
                history = without_unfinished_copy(place, self._publishing.tidied(history))
            history = adopted_by_command(
                place, history, dated_partitions(place), self._clock, Pins(place), dry_run=dry_run
            )
            base = finished(place, history, "move")
            origin = tuple(sorted({without_generation(output.internal) for output in base.outputs}))
            rows = sum(output.rows for output in base.outputs)
            if origin == (self._volume.name,):
                return MovedDate(value, rows, 0, origin, 0)
            require_volumes(place, base)
            parts = []
            for output in base.outputs:
                source = place.history_location(LocationKey(output.internal, value))
                require_owner(place.fs, source, self._volume.target)
                parts.append((source, output, self._volume))
            run = replace(base.run, stays_in=self._volume.name, relocated=Relocated("move", ",".join(origin)))
            validation = passed_on(load_validation(place, base), base, self._schema.rules)
            base = replace(base, replaces=tuple(output.internal for output in base.outputs))
            now_ms = int(self._clock() * 1000)
            return plan_copy(place, history, base, parts, run, time_ms=now_ms, validation=validation)
        except (SparkhavenError, OSError) as error:
            return Failure(error)

    def _resumed(self, history: DateHistory) -> MovedDate | Failure | None:
        """Publishes a move to the same partition that was killed after its check; None: there is none."""
        last = history.last
        if last is None or last.complete or not last.phase.reached(MergePhase.CHECK):
            return None
        if last.run.relocated is None or last.run.relocated.by != "move" or last.run.stays_in != self._volume.name:
            return None
        (closed,) = self._publishing.close([history])
        return closed if isinstance(closed, Failure) else self._moved_by(last)

    def _staged(self, planned: PlannedCopy) -> MergeRecord | Failure:
        count = partial(self._progress.count, planned.history.value)
        try:
            with in_phase("copy"):
                return stage_copy(planned, self._schema, count)
        except (SparkhavenError, OSError) as error:
            return Failure(error)

    def _published(
        self, copies: Sequence[PlannedCopy], staged: Sequence[MergeRecord | Failure]
    ) -> dict[str, MovedDate | Failure]:
        results: dict[str, MovedDate | Failure] = {}
        passed: list[tuple[PlannedCopy, MergeRecord]] = []
        for planned, record in zip(copies, staged, strict=True):
            if isinstance(record, Failure):
                results[planned.history.value] = record
            else:
                passed.append((planned, record))
        try:
            store_records(self._place, [record for _, record in passed])
        except (SparkhavenError, OSError) as error:
            for planned, record in passed:
                with suppress(SparkhavenError, OSError):
                    undo_copy(self._place, record)
                results[planned.history.value] = Failure(error)
            return results
        closed = self._publishing.close([planned.history.after(record) for planned, record in passed])
        for (planned, record), last in zip(passed, closed, strict=True):
            value = planned.history.value
            results[value] = last if isinstance(last, Failure) else self._moved(planned, record)
        return results

    def _moved(self, planned: PlannedCopy, record: MergeRecord) -> MovedDate:
        return replace(self._moved_by(record), size=planned.size)

    def _moved_by(self, record: MergeRecord) -> MovedDate:
        origin = record.run.relocated.origin.split(",") if record.run.relocated else []
        size = sum(
            state.size for output in record.outputs for state in (*output.files.values(), *output.indexes.values())
        )
        return MovedDate(record.value, sum(o.rows for o in record.outputs), size, tuple(origin), record.generation)
