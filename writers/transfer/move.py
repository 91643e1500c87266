"""Moves dates of history to another storage partition: copied, proved, published as a new generation.

Readers change over at the merge record. The former locations go as those of every replaced generation do, an hour
later. The record says that the date stays in its new partition, so that later merges of it write there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from sparkhaven.store.errors import MergeError, SparkhavenError
from sparkhaven.store.layout import LocationKey, without_generation
from sparkhaven.store.merges.history import DateHistory, load_history
from sparkhaven.store.merges.merge_records import MergeRecord, lock_table
from sparkhaven.store.merges.merge_run import MergePhase, Relocated
from sparkhaven.store.merges.validations import load_validation
from sparkhaven.store.places import TablePlace
from sparkhaven.store.volumes import require_volumes
from sparkhaven.writers.merge.plan.merge_pins import Pins
from sparkhaven.writers.merge.write.phases import Failure
from sparkhaven.writers.partitions import Volume, chosen_volume, require_owner
from sparkhaven.writers.transfer.date_copies import DateCopies, PlannedCopy, RelocatedDate, passed_on, unfinished


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
) -> Iterator[RelocatedDate | Failure]:
    """Moves merged dates, one result each, in order; a failed one does not stop the others.

    ``workers`` dates are copied at once. ``clock``: seconds since the epoch. ``stop_on_error``: one date after the
    other, and none after a failed one. TableNotFoundError, RetryableStorageError, before anything else: there is no
    such partition, or its volume is not mounted. LockLostError: a merge is running.
    """
    volume = chosen_volume(place.fs, place.layout, place.table.namespace, partition)
    copies = DateCopies(place, clock, on_progress, link=False)
    if dry_run:
        yield from _wave(copies, volume, values, workers=1, dry_run=True)
        return
    with lock_table(place):
        size = 1 if stop_on_error else 2 * workers
        for first in range(0, len(values), size):
            for result in _wave(copies, volume, values[first : first + size], workers=workers, dry_run=False):
                yield result
                if stop_on_error and isinstance(result, Failure):
                    return


def _wave(
    copies: DateCopies, volume: Volume, values: Sequence[str], *, workers: int, dry_run: bool
) -> list[RelocatedDate | Failure]:
    """Dates that are copied at once and published together; results in order."""
    results: dict[str, RelocatedDate | Failure] = {}
    planned: list[PlannedCopy] = []
    for value in values:
        one = _planned(copies, volume, value, dry_run=dry_run)
        if isinstance(one, PlannedCopy):
            planned.append(one)
        else:
            results[value] = one
    todo = []
    for one, error in zip(planned, copies.space_errors(planned), strict=True):
        results[one.history.value] = Failure(error) if error is not None else replace(_moved(one.record), size=one.size)
        todo += [one] if error is None else []
    if not dry_run:
        done = copies.run(todo, workers=workers)
        results |= {value: failed for value, failed in done.items() if isinstance(failed, Failure)}
    return [results[value] for value in values]


def _planned(copies: DateCopies, volume: Volume, value: str, *, dry_run: bool) -> PlannedCopy | RelocatedDate | Failure:
    """What is to be copied of a date; a result where there is nothing to copy."""
    place = copies.place
    try:
        history = load_history(place, value)
        killed = None if dry_run else _killed_move(history, volume)
        if killed is not None:
            return copies.closed(history) or _moved(killed)
        history = copies.adopted(history, Pins(place), dry_run=dry_run)
        base = _finished(place, history)
        origin = tuple(sorted({without_generation(output.internal) for output in base.outputs}))
        if origin == (volume.name,):
            return RelocatedDate(value, sum(output.rows for output in base.outputs), 0, 0, origin=origin)
        require_volumes(place, base)
        parts = []
        for output in base.outputs:
            source = place.history_location(LocationKey(output.internal, value))
            require_owner(place.fs, source, volume.target)
            parts.append((source, output, volume))
        run = replace(base.run, stays_in=volume.name, relocated=Relocated("move", ",".join(origin)))
        validation = passed_on(load_validation(place, base), base, copies.schema.rules)
        base = replace(base, replaces=tuple(output.internal for output in base.outputs))
        return copies.planned(history, base, parts, run, validation)
    except (SparkhavenError, OSError) as error:
        return Failure(error)


def _killed_move(history: DateHistory, volume: Volume) -> MergeRecord | None:
    """The record of a move to the same partition that was killed after its check: it only has to be published."""
    last = history.last
    if last is None or last.complete or not last.phase.reached(MergePhase.CHECK) or last.run.relocated is None:
        return None
    return last if last.run.relocated.by == "move" and last.run.stays_in == volume.name else None


def _finished(place: TablePlace, history: DateHistory) -> MergeRecord:
    """The record of a date whose last merge is complete. MergeError: there is none, or it is unfinished."""
    base = history.current
    if base is None or not base.outputs:
        raise MergeError(
            "date has no history to move",
            where=f"{place.table} {history.value}",
            expected="a merged date",
            found="none" if base is None else "history that was dropped or detached",
            hint=f"`sparkhaven merge --status {place.table}` lists the dates",
        )
    if history.last is not base:
        raise unfinished(place, history, base)
    return base


def _moved(record: MergeRecord) -> RelocatedDate:
    origin = record.run.relocated.origin.split(",") if record.run.relocated else []
    states = (state for output in record.outputs for state in (*output.files.values(), *output.indexes.values()))
    rows, size = sum(output.rows for output in record.outputs), sum(state.size for state in states)
    return RelocatedDate(record.value, rows, size, record.generation, origin=tuple(origin))
