"""Replaced generations of history: lists them, and removes them after a grace period.

A location is removed only if a complete merge record names it as replaced, no newer record has it among its outputs,
and the grace period since then is over. Locations that no record names, the staging of an unfinished merge, and
unreachable volumes are left alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from sparkhaven.store.errors import SparkhavenError
from sparkhaven.store.io.fs import size_below
from sparkhaven.store.merges.history import DateHistory, load_history
from sparkhaven.store.merges.merge_records import all_values, generations, lock_table
from sparkhaven.store.places import TablePlace
from sparkhaven.writers.merge.publish.publish_phase import GRACE_S, PublishPhase
from sparkhaven.writers.merge.publish.staged_locations import sweep, taken_rows


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
