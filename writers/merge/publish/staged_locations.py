"""Publishes staged locations by one rename each, then writes the location index; undoes copies that were killed.

A location becomes visible complete: the topmost missing directory is renamed into place with its content. Staging lies
outside the walked tree, on the same file system as its target. Published names are never reused, so an engine that has
the old files open keeps them. What the index is to have says ``readers.checks.history``.

A copy of a date that was killed before it was verified is undone: its staged files and its record go. Such a record has
no effect on readers. A merge that is killed there is begun again by the next one; of a copied date no later command
needs what was copied, and the staging may lie on a volume that merges do not write to.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

from sparkhaven.readers.checks.history import (
    Difference,
    Entries,
    differences,
    entries_of,
    entry_of,
    seen_entries,
    stored_entries,
)
from sparkhaven.store import next_steps
from sparkhaven.store.errors import MergeError, TableExistsError
from sparkhaven.store.format.index.tlmi import IndexEntry, encode_tlmi
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import PARQUET, LocationKey
from sparkhaven.store.merges.history import DateHistory
from sparkhaven.store.merges.merge_records import MergeRecord, lock_table
from sparkhaven.store.merges.merge_run import Destination, MergePhase
from sparkhaven.store.merges.validations import validation_path
from sparkhaven.store.places import TablePlace
from sparkhaven.store.scan.seen_history import see_table
from sparkhaven.store.scan.slices import Slice
from sparkhaven.writers.merge.plan.merge_plan import MergePlan


@dataclass(frozen=True, slots=True)
class IndexUpdate:
    """What an update has found, and whether it has ``written`` the index. ``entries``: as they are to be."""

    differences: tuple[Difference, ...]
    entries: Mapping[LocationKey, IndexEntry]
    written: bool = False


def store_entries(place: TablePlace, entries: Entries) -> None:
    """Writes an index with these entries."""
    path = place.metadata_index
    place.fs.keep_dirs(path.parent, place.layout.root)
    place.fs.replace(path, encode_tlmi(entries.values()))


def update_index(place: TablePlace, *, dry_run: bool = False) -> IndexUpdate:
    """Writes the index where it differs. LockLostError: a merge is running."""
    if dry_run:
        return updated_index(place, seen_entries(place), write=False)
    with lock_table(place):
        return updated_index(place, seen_entries(place, lossless=True), write=True)


def updated_index(place: TablePlace, wanted: Entries, *, write: bool) -> IndexUpdate:
    """Compares the index with the entries that it is to have; ``write``: and writes it where it differs."""
    different = tuple(differences(place, wanted))
    if different and write:
        store_entries(place, wanted)
    return IndexUpdate(different, wanted, written=bool(different) and write)


def staged_slices(plan: MergePlan, record: MergeRecord) -> list[Slice]:
    """The staged locations of a merge for a reader: all rows, of column files and ``table.parquet`` those of each."""
    stages = {destination.internal: destination.stage(plan.table, plan.value) for destination in plan.destinations}
    slices = []
    for output in record.outputs:
        key, rows = LocationKey(output.internal, plan.value), (0, output.rows, output.rows)
        files = [output.files]
        if PARQUET in output.files and len(output.files) > 1:
            files = [{n: f for n, f in output.files.items() if n != PARQUET}, {PARQUET: output.files[PARQUET]}]
        slices += [Slice("history", None, key, str(stages[output.internal]), *rows, part, {}) for part in files]
    return [slice_ for slice_ in slices if slice_.rows]


def publish(place: TablePlace, value: str, output: Destination) -> list[Path]:
    """Renames one staged location into place; idempotent. MergeError: other data is in its place.

    Returns the directories that the caller must sync, also those with entries of a merge that died before its sync.
    """
    staged, final = output.stage(place.table, value), output.published(place.table, value)
    if place.fs.stat(final) is None:
        _rename(place.fs, output, value, staged, final)
    elif place.fs.stat(staged) is not None:
        raise TableExistsError(
            "the merge's target directory already has data",
            where=final,
            hint="merge with --rewrite to write a new generation beside it, or move it away if it is not history",
        )
    link = place.partitions / output.internal
    if place.fs.stat(link) is None:
        place.fs.symlink(str(output.target), link)
    directories = [final.parent, output.target, output.target.parent, output.target.parent.parent]
    return directories + [
        parent for parent in link.parents if parent == place.layout.root or place.layout.root in parent.parents
    ]


def _rename(fs: Fs, output: Destination, value: str, staged: Path, final: Path) -> None:
    if fs.stat(staged) is None:
        raise MergeError(
            "a staged location is missing",
            where=staged,
            expected="the location that was written and checked",
            found="nothing",
            hint="merge the date again",
            phase="publish",
        )
    steps = [(output.stage_root / output.internal, output.target), (staged.parent, final.parent), (staged, final)]
    for source, target in steps:
        if fs.stat(target, follow=False) is not None and target != final:
            continue
        try:
            fs.rename(source, target)
        except OSError as error:
            if error.errno in (errno.EEXIST, errno.ENOTEMPTY) and target != final:
                continue  # another table published the same date just now
            raise
        return


def write_index(place: TablePlace, records: Sequence[MergeRecord]) -> None:
    """Adds the outputs of merges to the location index and removes those they replace; idempotent.

    Without an index it is that of what readers see. The outputs stand already, and are no history before their record.
    """
    entries = stored_entries(place)
    if entries is None:
        dates = (entries_of(place, replace(seen, unpublished=())) for seen in see_table(place))
        entries = dict(chain.from_iterable(of_date.items() for of_date in dates))
    for record in records:
        for internal in record.replaces:
            entries.pop(LocationKey(internal, record.value), None)
        for output in record.outputs:
            entry = entry_of(record, output)
            known = entries.get(entry.key)
            if known is None or (known.rows, known.format) != (entry.rows, entry.format):
                entries[entry.key] = entry
    store_entries(place, entries)


def retire(place: TablePlace, value: str, internal: str) -> None:
    """Removes a replaced location from the tree, then its files, and empty parents of a later generation."""
    final = place.fs.resolve(place.partitions / internal) / value / place.table.table
    mark = f".retired-{place.table.table}-"
    for name in place.fs.names(final.parent):
        if name.startswith(mark):  # an earlier call was killed
            place.fs.remove_tree(final.with_name(name))
    if place.fs.stat(final) is not None:
        doomed = place.merges / value / f".retired-{internal}-{os.getpid()}"
        if _device(place.fs, doomed.parent) != _device(place.fs, final):
            doomed = final.with_name(f"{mark}{os.getpid()}")
        place.fs.rename(final, doomed)  # first: a reader must find all of its files or no directory, not some of them
        place.fs.sync_dirs([final.parent])
        place.fs.remove_tree(doomed)
    place.fs.rmdir(final.parent)


def _device(fs: Fs, path: Path) -> int:
    stat = fs.stat(path)
    return -1 if stat is None else stat.device


def sweep(fs: Fs, roots: Iterable[Path]) -> None:
    for root in roots:
        fs.remove_tree(root)


def taken_rows(place: TablePlace) -> Path:
    """Where rows of a data frame wait for their merge. It belongs to whoever holds the table's lock."""
    return place.layout.scratch(place.table, ".merge")


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


def unfinished(place: TablePlace, history: DateHistory) -> MergeError:
    """The error for a date whose last record is not complete."""
    last, current = history.last, history.current
    return MergeError(
        "a merge of the date is unfinished",
        where=f"{place.table} {history.value}",
        expected="a finished one, or none" if current is None else f"merge {current.generation} as the last one",
        found=f"merge {last.generation if last else 0}",
        hint=next_steps.merge(place.table, history.value),
    )


def undo_copy(place: TablePlace, record: MergeRecord) -> None:
    """Removes the staged files of a copy, then what is stored of it; idempotent."""
    sweep(place.fs, record.run.staging)
    directory = place.merges / record.value
    place.fs.unlink(validation_path(place, record.value, record.generation))  # never without its record
    place.fs.unlink(directory / f"{record.generation}.json")
    place.fs.sync_dirs([directory])
