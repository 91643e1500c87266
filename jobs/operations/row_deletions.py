"""Rows that match a condition, deleted from intraday and history."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from sparkhaven.jobs.operations.maintenance import open_log
from sparkhaven.store.places import TablePlace
from sparkhaven.writers.merge.executor import LocalExecutor, local_workers
from sparkhaven.writers.removal.row_removal import find_rows
from sparkhaven.writers.rewrites.row_deletion import DeletedRows
from sparkhaven.writers.rewrites.row_deletion import delete_rows as delete_matching
from sparkhaven.writers.transfer.extended import follow


@dataclass(frozen=True, slots=True)
class RowsDeleted:
    """What was deleted, or of a dry run would be.

    ``dates``: rows of each date, where it has some. ``epochs``: the epoch of each stream whose unmerged rows went.
    ``generations``: the new generation of each date of whose history rows went.
    """

    rows: int
    dates: dict[str, int]
    epochs: dict[str, int]
    generations: dict[str, int]

    @classmethod
    def of(cls, done: DeletedRows, *, dry_run: bool) -> RowsDeleted:
        if dry_run:
            return cls(done.matching.rows, done.matching.of_dates(), {}, {})
        generations = {date: deletion.generation for date, deletion in done.history.items()}
        return cls(done.rows, done.of_dates(), done.epochs, generations)


def delete_rows(
    place: TablePlace, where: str, dates: Sequence[str] | None, note: Callable[[str], None], *, dry_run: bool = False
) -> DeletedRows:
    """Deletes the rows that match, or with ``dry_run`` counts them; ``failed`` has the errors of dates.

    Raises what ``row_deletion.delete_rows`` raises.
    """
    if dry_run:
        return DeletedRows(find_rows(place, where, dates), {}, {}, {}, {})
    with LocalExecutor(local_workers()) as executor:
        open_one = partial(open_log, note=note)
        done = delete_matching(place, where, dates, open_one, executor=executor, clock=time.time, on_progress=note)
    follow(place, note)
    return done
