"""What the commit log has of single epochs: who made them, how much they touched, and the digest of their record."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from hashlib import sha256

from sparkhaven.store.epochs.reading.log_reader import read_files
from sparkhaven.store.epochs.state.log_records import CommitRecord, RollbackRecord
from sparkhaven.store.places import StreamPlace


@dataclass(frozen=True, slots=True)
class EpochRecord:
    """One epoch. ``digest``: SHA-256, in hex, of the frame of its record.

    A rollback has no rows of its own, and neither schema nor query: those are None.
    """

    generation: int
    locations: int
    digest: str
    rows: int | None = None
    schema_version: int | None = None
    query_id: str | None = None


def epoch_records(place: StreamPlace, epochs: Collection[int]) -> dict[int, EpochRecord]:
    """Those of these epochs that the log still has, by number; raises the errors of reading the log."""
    files = read_files(place)
    by_epoch: dict[int, EpochRecord] = {}
    for record, (start, end) in zip(files.records, files.places, strict=True):
        if not isinstance(record, CommitRecord | RollbackRecord) or record.epoch not in epochs:
            continue
        digest = sha256(files.opened.source.read(start, end - start)).hexdigest()
        if isinstance(record, RollbackRecord):
            by_epoch[record.epoch] = EpochRecord(record.generation, len(record.changed), digest)
            continue
        full = files.full(record)
        batch = full.batch if isinstance(full, CommitRecord) else record.batch
        about = batch.rows, batch.schema_version, batch.query_id
        by_epoch[record.epoch] = EpochRecord(record.generation, len(batch.reports), digest, *about)
    return by_epoch
