"""Changes of a quarantine: rows of a batch are added, each once; others are removed or marked, small files made one.

Delta's files do not change: a version removes a file and adds others with what remains of it. The first rows create the
table itself.

A ledger says which changes of the commit log the quarantine still has to apply. The log decides. Rejected rows are
written to quarantine before the commit point, under the number of the epoch to be committed. So a row can be there
although its epoch was never committed (the process died in between), or was rolled back; in both cases the stream reads
the source again and writes what it rejects then. Such epochs are *dead*: rows written under them are removed, and
requeues by them are undone. The log never reuses epoch numbers, but a number that was not committed is used again;
therefore each start first brings the ledger, and then the quarantine, up to date with the log.

*A lost ledger* is rebuilt from the log, whose newest epoch with rejected rows (``StreamState.rejected``) shows that
there was one: dead are all rolled-back epochs, and those after the newest; removing their rows again changes nothing.
Before the first epoch with a rejected row there is none: then the
loss is not noticed, and rows of an interrupted batch stay until the epoch of their number is committed. Committed rows
are not affected.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sparkhaven.store.delta.log import Action, is_table
from sparkhaven.store.delta.snapshot import DeltaSnapshot
from sparkhaven.store.epochs.reading.stream_state import list_rollbacks
from sparkhaven.store.epochs.state.replay import MAX_PAIRS, StreamState
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout, TableName
from sparkhaven.store.places import TablePlace
from sparkhaven.store.quarantine.ledger import Ledger, read_ledger, write_ledger
from sparkhaven.store.quarantine.rejected_rows import REJECTED, decode_rejected
from sparkhaven.writers.quarantine.quarantined_rows import FILE_BYTES, NewFiles, read_columns, read_rows
from sparkhaven.writers.quarantine.row_choice import (
    CHOOSING,
    COLUMNS,
    KEY,
    OWNER,
    PROPERTIES,
    PROTOCOL,
    UTC_TIME,
    Mask,
    owned,
    schema_text,
)
from sparkhaven.writers.task import RejectedFile

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


NEVER = 2**62  # above all numbers of epochs


@dataclass(frozen=True, slots=True)
class Requeue:
    """Rows sent back to the table: a file in ``layout.requeues`` for one range of positions and one epoch."""

    path: Path
    start: int
    epoch: int


def follow(ledger: Ledger, epoch: int, rollbacks: Iterable[tuple[int, int]]) -> Ledger:
    """The ledger updated to a log at ``epoch``; ``rollbacks`` are pairs (own epoch, restored epoch)."""
    dead, seen = list(ledger.dead), ledger.seen
    for rollback, restored in sorted(rollbacks):
        if rollback > seen:
            dead.append((restored, rollback))
            seen = rollback
    newest = ledger.newest
    if newest > epoch:
        dead.append((epoch, newest))
        newest = epoch
    return replace(ledger, newest=newest, seen=seen, dead=tuple(dead))


def follow_log(place: TablePlace, state: StreamState, *, read_only: bool = False) -> Ledger | None:
    """Updates the ledger to the log of a stream and writes it; None if the quarantine never had a row.

    The caller holds the stream's lock, unless ``read_only``.
    """
    ledger = read_ledger(place.of_stream(state.stream))
    if ledger is not None:
        followed = follow(ledger, state.epoch, list_rollbacks(place.of_stream(state.stream)))
    elif state.rejected:
        directory = place.layout.quarantine(state.stream)
        followed = rebuilt_ledger(state, str(directory) if is_table(place.fs, directory) else "")
    else:
        return None
    if followed != ledger and not read_only:
        write_ledger(place.of_stream(state.stream), followed)
    return followed


def rebuilt_ledger(state: StreamState, quarantine: str) -> Ledger:
    """A ledger rebuilt from the log; ``quarantine``: its directory if it is known."""
    apart = state.rolled_back[1:] if len(state.rolled_back) >= MAX_PAIRS else state.rolled_back
    seen = max((rollback for _, rollback in apart), default=0)
    return Ledger(quarantine, "", state.epoch, seen, (*apart, (state.epoch, NEVER)))


def leftovers(place: TablePlace, state: StreamState) -> tuple[list[Requeue], list[Requeue]]:
    """Interrupted requeues: (committed, not committed).

    The commit log has the positions of committed ones; no row of the others is in the table.
    """
    directory, position = place.of_stream(state.stream).requeues, state.offsets.requeued
    requeues = []
    for name in place.fs.names(directory):
        start, _, epoch = name.removesuffix(".parquet").partition("-")
        if name.endswith(".parquet") and start.isdigit() and epoch.isdigit():
            requeues.append(Requeue(directory / name, int(start), int(epoch)))
    committed = [requeue for requeue in requeues if requeue.start < position]
    return committed, [requeue for requeue in requeues if requeue.start >= position]


def requeue_path(layout: Layout, table: TableName, stream: str, start: int, epoch: int) -> Path:
    """The file of rows that are requeued from position ``start`` on, in that epoch."""
    return layout.requeues(table, stream) / f"{start}-{epoch}.parquet"
