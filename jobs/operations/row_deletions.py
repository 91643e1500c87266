"""Rows that match a condition, deleted from Python: what the command ``delete-rows`` does."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sparkhaven.jobs.operations.maintenance import open_log
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.io.local_path import local_path
from sparkhaven.store.io.system_errors import as_ours
from sparkhaven.store.layout import TableName
from sparkhaven.store.places import TablePlace, writable_layout
from sparkhaven.writers.merge.executor import LocalExecutor, local_workers
from sparkhaven.writers.removal.row_removal import find_rows
from sparkhaven.writers.rewrites.row_deletion import delete_rows as delete_matching
from sparkhaven.writers.transfer.extended import follow


@dataclass(frozen=True, slots=True)
class RowsDeleted:
    """What a call has deleted, or with ``dry_run`` would delete.

    ``dates``: rows of each date, where it has some. ``epochs``: the epoch of each stream whose unmerged rows went.
    ``generations``: the new generation of each date of whose history rows went.
    """

    rows: int
    dates: dict[str, int]
    epochs: dict[str, int]
    generations: dict[str, int]


def delete_rows(
    root: str | Path,
    name: str,
    where: str,
    *,
    dates: str | Sequence[str] | None = None,
    dry_run: bool = False,
) -> RowsDeleted:
    """Deletes the rows of the table ``name`` that match the condition, from intraday and from history.

    Rows that are not merged go by an epoch of each stream that has some. Merged rows go by a new generation of their
    date, which validate, truncate and later merges keep. ``dates``: dates, or ranges like ``2026-11-01..2026-11-30``
    (default: all). The same call again deletes nothing more.

    TableNotFoundError: no such table or date. ExpressionError: an expression that the table does not take.
    LockLostError: a merge is running, or a stream that has such rows. An error of one date is raised after the others
    are done; its history is as before.
    """
    place = TablePlace(Fs(), writable_layout(local_path(root)), TableName.parse(name))
    chosen = [dates] if isinstance(dates, str) else dates
    if dry_run:
        matching = find_rows(place, where, chosen)
        return RowsDeleted(matching.rows, matching.of_dates(), {}, {})
    with LocalExecutor(local_workers()) as executor:
        done = delete_matching(place, where, chosen, open_log, executor=executor, clock=time.time)
    follow(place)
    for error in done.failed.values():
        raise as_ours(error)
    generations = {date: deletion.generation for date, deletion in done.history.items()}
    return RowsDeleted(done.rows, done.of_dates(), done.epochs, generations)
