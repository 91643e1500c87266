"""Undoes copies of a date that were killed before they were verified: their staged files and their record go.

Such a record has no effect on readers. A merge that is killed there is begun again by the next one; of a copied date no
later command needs what was copied, and the staging may lie on a volume that merges do not write to.
"""

from __future__ import annotations

from sparkhaven.store.merges.history import DateHistory
from sparkhaven.store.merges.merge_records import MergeRecord
from sparkhaven.store.merges.merge_run import MergePhase
from sparkhaven.store.merges.validations import validation_path
from sparkhaven.store.places import TablePlace
from sparkhaven.writers.merge.publish.staged_locations import sweep


def is_unfinished_copy(record: MergeRecord | None) -> bool:
    """Whether a record is of a move or an attachment that is not verified yet."""
    return record is not None and record.run.relocated is not None and not record.phase.reached(MergePhase.CHECK)


def without_unfinished_copy(place: TablePlace, history: DateHistory) -> DateHistory:
    """The history of a date once an unfinished copy of it is undone. The caller holds the lock of the table."""
    last = history.last
    if last is None or not is_unfinished_copy(last):
        return history
    undo_copy(place, last)
    return DateHistory(history.value, history.records[:-1])


def undo_copy(place: TablePlace, record: MergeRecord) -> None:
    """Removes the staged files of a copy, then what is stored of it; idempotent."""
    sweep(place.fs, record.run.staging)
    directory = place.merges / record.value
    place.fs.unlink(validation_path(place, record.value, record.generation))  # never without its record
    place.fs.unlink(directory / f"{record.generation}.json")
    place.fs.sync_dirs([directory])
