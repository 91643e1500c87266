"""Truncate and delete of a date whose validation has passed, as one job: ``validate --delete-after``.

The job does what can be done now, and reports what waits: a location goes only ``grace_s`` after its truncate, since
readers may still use it. Each call goes on where the last one, or a crash, has stopped; a date that is gone is done.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from sparkhaven.store.errors import TooEarlyError
from sparkhaven.store.places import TablePlace
from sparkhaven.writers.merge.plan.merge_pins import Pins
from sparkhaven.writers.merge.publish.publish_phase import GRACE_S
from sparkhaven.writers.removal.removal_proof import RemovalProof
from sparkhaven.writers.removal.row_removal import Removed, delete, truncate
from sparkhaven.writers.removal.state_cache import States

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
    place: TablePlace,
    value: str,
    *,
    proof: RemovalProof,
    clock: Callable[[], float],
    grace_s: float = GRACE_S,
    dry_run: bool = False,
    pins: Pins,
    states: States,
) -> RemovedDate:
    """Truncates the intraday locations of a date, then deletes those that were truncated ``grace_s`` seconds ago.

    Raises what ``truncate`` raises, if rows came after the merge. ``pins`` and ``states`` as ``prove`` and ``truncate``
    take them.
    """
    keys = {key for state in pins.states() for key in state.locations if key.value == value}
    internals = sorted(key.internal for key in keys)
    truncated: Locations = ()
    unfinished: list[str] = []
    if internals:
        emptied = truncate(place, value, proof=proof, clock=clock, dry_run=dry_run, states=states)
        truncated = emptied.locations
        unfinished += emptied.unfinished
    attempt = partial(delete, place, value, proof=proof, clock=clock, grace_s=grace_s, states=states)
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
