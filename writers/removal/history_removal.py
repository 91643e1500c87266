"""Dates of history that are dropped: by a merge record without outputs, which replaces all locations of the date.

From that record on no reader opens the date. Its files go as those of every replaced generation do, an hour later, by
the next merge or ``clean``. The records stay as evidence: the rows and digests that were dropped, and the reason.

``validate --delete-after`` is truncate and delete of a date whose validation has passed, as one job. It does what can
be done now, and reports what waits: a location goes only ``grace_s`` after its truncate, since readers may still use
it. Each call goes on where the last one, or a crash, has stopped; a date that is gone is done.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from sparkhaven.store import next_steps
from sparkhaven.store.errors import MergeError, TableNotFoundError, TooEarlyError, counted
from sparkhaven.store.merges.history import DateHistory, in_columns, load_history
from sparkhaven.store.merges.merge_records import MergeRecord, lock_table, store_record
from sparkhaven.store.merges.merge_run import MergePhase, MergeRun
from sparkhaven.store.places import TablePlace
from sparkhaven.store.scan.standing import dated_partitions
from sparkhaven.store.schema.deployed.deploy import load_deployed
from sparkhaven.store.types.model import TableSchema
from sparkhaven.writers.merge.adoption import adopted_by_command
from sparkhaven.writers.merge.plan.merge_pins import Pins
from sparkhaven.writers.merge.plan.merge_proof import add_left_out, as_left_out, left_out_before, proof_of
from sparkhaven.writers.merge.publish.publish_phase import GRACE_S, PublishPhase, replaced_by
from sparkhaven.writers.merge.publish.staged_locations import unfinished, without_unfinished_copy
from sparkhaven.writers.merge.write.phases import Failure
from sparkhaven.writers.removal.removal_proof import RemovalProof, States
from sparkhaven.writers.removal.row_removal import Removed, delete, truncate

REASON = "dropped"  # the entry of a run that says why


@dataclass(frozen=True, slots=True)
class DroppedDate:
    """A date that was dropped, or would be: ``rows`` and ``size`` in bytes that readers no longer see.

    ``generation``: that of the record; 0 where there was nothing to drop.
    """

    value: str
    rows: int
    size: int
    generation: int


def drop_history(
    place: TablePlace,
    values: Sequence[str],
    reason: str,
    *,
    clock: Callable[[], float],
    dry_run: bool = False,
) -> Iterator[DroppedDate | Failure]:
    """Drops merged dates, one result each; a failed one does not stop the others.

    TableNotFoundError: the date was never merged. MergeError: intraday still has it, or a merge of it is unfinished.
    LockLostError, before anything else: a merge is running. ``clock``: seconds since the epoch.
    """
    if dry_run:
        yield from (_dropped(place, value, reason, Pins(place), clock, dry_run=True) for value in values)
        return
    with lock_table(place):
        pins = Pins(place)
        for value in values:
            yield _dropped(place, value, reason, pins, clock, dry_run=False)


def _dropped(
    place: TablePlace, value: str, reason: str, pins: Pins, clock: Callable[[], float], *, dry_run: bool
) -> DroppedDate | Failure:
    try:
        history = load_history(place, value)
        if not dry_run:
            history = without_unfinished_copy(place, history)
        history = adopted_by_command(place, history, dated_partitions(place), clock, pins, dry_run=dry_run)
        base, last = history.current, history.last
        if base is None or last is None or REASON not in last.run.others or last.complete:
            base = droppable(place, history, pins)
            last = emptying_record(load_deployed(place), history, reason, clock) if base.outputs else None
        if last is None:
            return DroppedDate(value, 0, 0, 0)
        after = history.after(replace(last, phase=MergePhase.RECORD))
        size = sum(old.size for old in replaced_by(place, after, clock()) if old.internal in last.replaces)
        if not dry_run:
            with place.fs.during("drop-history"):
                if last is not history.last:
                    store_record(place, last)
                (closed,) = PublishPhase(place, clock).close([history.after(last)])
            if isinstance(closed, Failure):
                return closed
        return DroppedDate(value, base.rows, size, last.generation)
    except (MergeError, TableNotFoundError) as error:
        return Failure(error)


def droppable(place: TablePlace, history: DateHistory, pins: Pins) -> MergeRecord:
    """The record of a date that intraday no longer has; raises what ``drop_history`` says."""
    base, where = history.current, f"{place.table} {history.value}"
    if base is None:
        raise TableNotFoundError(
            "date has no history to drop",
            where=where,
            expected="a complete merge",
            found="none",
            hint=next_steps.merged_dates(place.table),
        )
    if history.last is not base:
        raise unfinished(place, history)
    pins.require(history.value)
    standing = [location for state in pins.states() for location in state.locations.of_date(history.value)]
    if base.outputs and standing:  # a truncated one too: its delete needs the history as proof
        rows = sum(location.rows for location in standing)
        there = f"{counted(rows, 'row')} in {counted(len(standing), 'location')}"
        raise MergeError(
            "intraday still has the date",
            where=where,
            expected="a date that was deleted from intraday",
            found=there if rows else f"{counted(len(standing), 'location')}, truncated and not deleted",
            hint=f"first `sparkhaven truncate {place.table} --dates {history.value}`, then `sparkhaven delete"
            f" {place.table} --dates {history.value}`"
            if rows
            else f"first `sparkhaven delete {place.table} --dates {history.value}`",
        )
    return base


def emptying_record(schema: TableSchema, history: DateHistory, reason: str, clock: Callable[[], float]) -> MergeRecord:
    """The record by which a date that has history has no rows, to begin with; with all that it had as left out."""
    base = history.current
    assert base is not None  # noqa: S101
    base = in_columns(base, schema)
    left_out = add_left_out(left_out_before(base, schema), as_left_out(base, schema), schema)
    kept = MergeRun(sort=base.run.sort, format=base.run.format, dedupe=base.run.dedupe, detached=base.run.outside)
    run = replace(kept, others={REASON: reason})
    empty = replace(base, outputs=())
    return replace(
        empty,
        generation=history.next_generation,
        phase=MergePhase.CHECK,
        proof=proof_of(empty, left_out, schema),
        time_ms=int(clock() * 1000),
        replaces=tuple(output.internal for output in base.outputs),
        run=run,
    )


Locations = tuple[tuple[str, str, int], ...]  # (stream, internal partition, rows)


@dataclass(frozen=True, slots=True)
class RemovedDate:
    """What became of the intraday locations of a date. ``waiting``: internal partitions that are truncated, and stay.

    ``reason`` says how long they stay; None if none waits. ``unfinished``: as of ``Removed``.
    """

    truncated: Locations = ()
    deleted: Locations = ()
    waiting: tuple[str, ...] = ()
    reason: str | None = None
    unfinished: tuple[str, ...] = ()


def truncate_and_delete(
    states: States,
    *,
    proof: RemovalProof,
    clock: Callable[[], float],
    grace_s: float = GRACE_S,
    dry_run: bool = False,
    pins: Pins,
) -> RemovedDate:
    """Truncates the intraday locations of a proved date, then deletes those truncated ``grace_s`` seconds ago.

    Raises what ``truncate`` raises, if rows came after the merge. ``pins`` and ``states`` as ``prove`` and ``truncate``
    take them.
    """
    keys = {key for state in pins.states() for key in state.locations if key.value == proof.record.value}
    internals = sorted(key.internal for key in keys)
    truncated: Locations = ()
    unfinished: list[str] = []
    if internals:
        emptied = truncate(states, proof=proof, clock=clock, dry_run=dry_run)
        truncated = emptied.locations
        unfinished += emptied.unfinished
    attempt = partial(delete, states, proof=proof, clock=clock, grace_s=grace_s)
    sources: list[str | None] = [*internals]
    deleted, waiting, reason = list[tuple[str, str, int]](), list[str](), None
    if dry_run:  # what it would truncate is not truncated yet
        would = {internal for _, internal, _ in truncated}
        sources = [internal for internal in internals if internal not in would]
        if grace_s:
            waiting, reason = sorted(would), _later(grace_s) if would else None
        else:
            deleted += truncated
    elif _all_due(attempt):
        sources = [None]
    for source in sources:
        try:
            removed = attempt(source=source, dry_run=dry_run)
            deleted += removed.locations
            unfinished += removed.unfinished
        except TooEarlyError as error:
            waiting.append(str(source))
            reason = error.hint
    return RemovedDate(truncated, tuple(deleted), tuple(sorted(waiting)), reason, tuple(unfinished))


def _later(seconds: float) -> str:
    return f"run it again in {seconds:.0f} s"


def _all_due(attempt: Callable[..., Removed]) -> bool:
    """Whether no location of the date has to wait, so that one call deletes all of them."""
    try:
        attempt(dry_run=True)
    except TooEarlyError:
        return False
    return True
