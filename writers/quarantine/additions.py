"""Rows that are added to a quarantine: those of a batch, each once; with the first of them the table itself."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from sparkhaven.store.delta.snapshot import DeltaSnapshot
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.quarantine.rejected_rows import REJECTED, decode_rejected
from sparkhaven.store.types.frozen import frozen
from sparkhaven.writers.quarantine.data_files import NewFiles, read_columns
from sparkhaven.writers.quarantine.edits import Change, Key, having, keys_of
from sparkhaven.writers.quarantine.quarantine_columns import COLUMNS, KEY, OWNER, PROPERTIES, PROTOCOL, schema_text
from sparkhaven.writers.quarantine.row_choice import owned
from sparkhaven.writers.task.notes import RejectedFile


@frozen
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
