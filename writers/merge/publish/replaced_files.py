"""Replaced generations of history: lists them, and removes them after a grace period.

A location is removed only if a complete merge record names it as replaced, no newer record has it among its outputs,
and the grace period since then is over. Locations that no record names, the staging of an unfinished merge, and
unreachable volumes are left alone.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from sparkhaven.store.errors import SparkhavenError
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.io.walking import files_below
from sparkhaven.store.layout import Layout, TableName
from sparkhaven.store.merges.history import DateHistory, load_history
from sparkhaven.store.merges.merge_records import all_values, generations, lock_table
from sparkhaven.store.types.frozen import frozen
from sparkhaven.writers.merge.publish.publish_phase import GRACE_S, PublishPhase


@frozen
class Replaced:
    """A replaced location: its directory, its files' ``size`` in bytes, and seconds until its removal (0: now)."""

    value: str
    internal: str
    path: Path
    size: int
    due_s: float


def waiting(fs: Fs, layout: Layout, table: TableName, now_s: float, *, value: str | None = None) -> list[Replaced]:
    """The replaced locations that are still on disk, of one date or of all; ``now_s`` is seconds since the epoch."""
    found: list[Replaced] = []
    for each in [value] if value is not None else all_values(fs, layout, table):
        found += replaced_by(fs, layout, table, load_history(fs, layout, table, each), now_s)
    return found


def replaced_by(fs: Fs, layout: Layout, table: TableName, history: DateHistory, now_s: float) -> list[Replaced]:
    """The same for one date."""
    alive, found = history.alive, []
    for record in history.complete:
        for internal in record.replaces:
            path = fs.resolve(layout.partitions(table.namespace) / internal) / record.value / table.table
            if internal in alive or fs.stat(path) is None:
                continue
            size = sum(stat.size for file in files_below(fs, path) if (stat := fs.stat(file)) is not None)
            due = max(0.0, record.published_ms / 1000 + GRACE_S - now_s)
            found.append(Replaced(record.value, internal, path, size, due))
    return found


def clean(
    fs: Fs, layout: Layout, table: TableName, clock: Callable[[], float], *, dry_run: bool = False
) -> tuple[list[Replaced], list[Replaced]]:
    """Removes what is due; returns the removed locations (with ``dry_run`` those due) and those that still wait.

    LockLostError: a merge is running.
    """
    if dry_run:
        return _parted(waiting(fs, layout, table, clock()))
    with lock_table(fs, layout, table):
        histories = [load_history(fs, layout, table, value) for value in all_values(fs, layout, table)]
        now_s, publishing = clock(), PublishPhase(fs, layout, table, clock)
        due, later = _parted([item for each in histories for item in replaced_by(fs, layout, table, each, now_s)])
        for history in histories:
            if any(item.value == history.value for item in due):
                publishing.retire_replaced(history)
    return due, later


def clean_after(
    fs: Fs, layout: Layout, table: TableName, clock: Callable[[], float], on_progress: Callable[[str], None]
) -> None:
    """The same at the end of a merge, which holds the table's lock; reports an error and does not raise it."""
    publishing = PublishPhase(fs, layout, table, clock)
    for value in all_values(fs, layout, table):
        try:
            if len(generations(fs, layout, table, value)) < 2:
                continue
            history = load_history(fs, layout, table, value)
            if _parted(replaced_by(fs, layout, table, history, clock()))[0]:
                publishing.retire_replaced(history)
        except (SparkhavenError, OSError) as error:
            on_progress(
                f"{value}: replaced locations could not be removed ({error}). `sparkhaven clean {table}` removes them"
            )


def _parted(found: list[Replaced]) -> tuple[list[Replaced], list[Replaced]]:
    return [each for each in found if not each.due_s], [each for each in found if each.due_s]
