"""Changes of a quarantine: rows of a batch are added, each once; others are removed or marked, small files made one.

Delta's files do not change: a version removes a file and adds others with what remains of it. The first rows create the
table itself.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sparkhaven.store.delta.log import Action
from sparkhaven.store.delta.snapshot import DeltaSnapshot
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.quarantine.rejected_rows import REJECTED, decode_rejected
from sparkhaven.writers.quarantine.data_files import FILE_BYTES, NewFiles, read_columns, read_rows
from sparkhaven.writers.quarantine.quarantine_columns import (
    COLUMNS,
    KEY,
    OWNER,
    PROPERTIES,
    PROTOCOL,
    UTC_TIME,
    schema_text,
)
from sparkhaven.writers.quarantine.row_choice import CHOOSING, Mask, owned
from sparkhaven.writers.task.decoding import RejectedFile

EDITING = tuple(dict.fromkeys((*CHOOSING, *KEY)))
SMALL_BYTES = FILE_BYTES // 2

Key = tuple[str, int, int | None]


@dataclass(frozen=True, slots=True)
class Mark:
    """What becomes of ``RequeuedEpoch`` and ``RequeuedTime`` (microseconds); None: pending."""

    epoch: int | None = None
    time_us: int | None = None


@dataclass(frozen=True, slots=True)
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


def is_crowded(snapshot: DeltaSnapshot, many: int) -> bool:
    return len(_small(snapshot)) >= many


def compacted(fs: Fs, snapshot: DeltaSnapshot, now_ms: int, many: int) -> Change:
    """Writes so many small files, or more, as one. A file with columns that are not ours stays as it is."""
    change, paths = Change(), [path for path in _small(snapshot) if _is_ours(fs, path)]
    if len(paths) < many:
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


@dataclass(frozen=True, slots=True)
class RejectedBatch:
    """The rejected rows of a batch of the stream ``owner``, and the time in seconds when they are written."""

    owner: tuple[str, str, str]
    files: Sequence[RejectedFile]
    epoch: int
    time_s: float


def new_rows(fs: Fs, snapshot: DeltaSnapshot, batch: RejectedBatch, *, is_new: bool) -> Change:
    """Adds the rows of a batch, file by file; unless ``is_new``, those whose key the table lacks."""
    now_ms = round(batch.time_s * 1000)
    change, files = created(snapshot, now_ms), NewFiles(fs, snapshot.table, now_ms)
    for rows in _portions(fs, batch):
        files.write(rows if is_new else _lacking(fs, snapshot, batch.owner, rows))
    change.add(files)
    return change


def created(snapshot: DeltaSnapshot, now_ms: int) -> Change:
    """The actions that create a quarantine where there is none."""
    if snapshot.metadata:
        return Change()
    metadata = {
        "id": str(uuid.uuid4()),
        "format": {"provider": "parquet", "options": {}},
        "schemaString": schema_text(),
        "partitionColumns": [],
        "configuration": PROPERTIES,
        "createdTime": now_ms,
    }
    return Change([("protocol", PROTOCOL), ("metaData", metadata)])


def _portions(fs: Fs, batch: RejectedBatch) -> Iterator[pa.Table]:
    for file in batch.files:
        rejected = decode_rejected(fs.read(file.path))
        count = len(rejected)
        columns = {name: pa.array([value] * count) for name, value in zip(OWNER, batch.owner, strict=True)}
        columns |= {name: rejected[name] for name in REJECTED.names}
        columns["Epoch"] = pa.array(np.full(count, batch.epoch))
        columns["Time"] = pa.array(np.full(count, round(batch.time_s * 1e6)))
        yield pa.table([columns.get(name, pa.nulls(count)) for name in COLUMNS.names], COLUMNS.names).cast(COLUMNS)


def _lacking(fs: Fs, snapshot: DeltaSnapshot, owner: tuple[str, str, str], rows: pa.Table) -> pa.Table:
    keys = frozenset(keys_of(rows))
    there: set[Key] = set()
    for path in snapshot.paths():
        present = read_columns(fs, path, (*OWNER, *KEY))
        present = present.filter(pa.array(having(present, keys, owned(present, owner))))
        there.update(keys_of(present))
    return rows.filter(pa.array([key not in there for key in keys_of(rows)], pa.bool_())) if there else rows
