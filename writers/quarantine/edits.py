"""Changes of rows that are in a quarantine: files are written anew without removed rows, and with new marks.

Delta's files do not change: a version removes a file and adds others with what remains of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa

from sparkhaven.store.delta.snapshot import Action, DeltaSnapshot
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.lazy_compute import pc
from sparkhaven.store.types.frozen import frozen
from sparkhaven.writers.quarantine.data_files import FILE_BYTES, NewFiles, read_columns, read_rows
from sparkhaven.writers.quarantine.quarantine_columns import COLUMNS, KEY, UTC_TIME
from sparkhaven.writers.quarantine.row_choice import CHOOSING, Mask

EDITING = tuple(dict.fromkeys((*CHOOSING, *KEY)))
SMALL_BYTES = FILE_BYTES // 2
MANY_SMALL = 50  # files, as Delta's own compaction

Key = tuple[str, int, int | None]


@frozen
class Mark:
    """What becomes of ``RequeuedEpoch`` and ``RequeuedTime`` (microseconds); None: pending."""

    epoch: int | None = None
    time_us: int | None = None


@frozen
class Edit:
    """Which rows of a file are removed, and which of the others are marked."""

    removed: Mask
    marked: Mask


@dataclass(slots=True)
class Change:
    """The actions of a version, and the files that it adds; ``rows``: how many it removes."""

    actions: list[Action] = field(default_factory=list)
    files: list[NewFiles] = field(default_factory=list)
    rows: int = 0

    def add(self, files: NewFiles) -> None:
        files.close()
        self.files.append(files)
        self.actions += [("add", body) for body in files.adds]

    def remove(self, snapshot: DeltaSnapshot, path: Path, now_ms: int, *, is_change: bool = True) -> None:
        body = {
            "path": snapshot.files[path]["path"],
            "deletionTimestamp": now_ms,
            "dataChange": is_change,
            "extendedFileMetadata": True,
            "partitionValues": {},
            "size": snapshot.files[path]["size"],
        }
        self.actions.append(("remove", body))

    def discard(self) -> None:
        for files in self.files:
            files.discard()


def edit_files(fs: Fs, snapshot: DeltaSnapshot, decide: Callable[[pa.Table], Edit], mark: Mark, now_ms: int) -> Change:
    """Edits all files; ``decide`` is given the columns ``EDITING`` of each."""
    change = Change()
    for path in snapshot.paths():
        edit = decide(read_columns(fs, path, EDITING))
        removed = int(edit.removed.sum())
        if not removed and not edit.marked.any():
            continue
        change.rows += removed
        change.remove(snapshot, path, now_ms)
        if removed < len(edit.removed):
            files = NewFiles(fs, snapshot.table, now_ms)
            for first, rows in read_rows(fs, path):
                part = slice(first, first + len(rows))
                files.write(marked(rows, edit.marked[part], mark).filter(pa.array(~edit.removed[part])))
            change.add(files)
    return change


def marked(rows: pa.Table, mask: Mask, mark: Mark) -> pa.Table:
    if not mask.any():
        return rows
    values = {"RequeuedEpoch": pa.scalar(mark.epoch, pa.int64()), "RequeuedTime": pa.scalar(mark.time_us, UTC_TIME)}
    for name, value in values.items():
        number = rows.column_names.index(name)
        column = pc.if_else(pa.array(mask), value, rows[name])
        rows = rows.set_column(number, rows.schema.field(number), column)
    return rows


def keys_of(rows: pa.Table) -> Iterator[Key]:
    """The keys of rows of one stream."""
    return zip(*(rows[name].to_pylist() for name in KEY), strict=True)


def having(rows: pa.Table, keys: frozenset[Key], owned: Mask) -> Mask:
    """Which rows, of those that are ``owned``, have one of the keys."""
    positions = pa.array(sorted({position for _, position, _ in keys}), pa.int64())
    near = np.flatnonzero(owned & pc.is_in(rows["Position"], value_set=positions).to_numpy())
    mask = np.zeros(len(rows), np.bool_)
    mask[near] = [key in keys for key in keys_of(rows.take(pa.array(near)))]
    return mask


def is_crowded(snapshot: DeltaSnapshot) -> bool:
    return len(_small(snapshot)) >= MANY_SMALL


def compacted(fs: Fs, snapshot: DeltaSnapshot, now_ms: int) -> Change:
    """Writes many small files as one. A file with columns that are not ours stays as it is."""
    change, paths = Change(), [path for path in _small(snapshot) if _is_ours(fs, path)]
    if len(paths) < MANY_SMALL:
        return change
    files = NewFiles(fs, snapshot.table, now_ms, is_change=False)
    for path in paths:
        for _, rows in read_rows(fs, path):
            files.write(rows)
        change.remove(snapshot, path, now_ms, is_change=False)
    change.add(files)
    return change


def _small(snapshot: DeltaSnapshot) -> list[Path]:
    return [path for path in snapshot.paths() if snapshot.files[path]["size"] < SMALL_BYTES]


def _is_ours(fs: Fs, path: Path) -> bool:
    first = next(read_rows(fs, path), None)
    return first is None or first[1].column_names == COLUMNS.names
