"""Compaction: the checkpoint moves up to a new rollback floor, the log keeps what came after it.

Due when the log holds at least twice the epochs to keep and at least as many bytes as the checkpoint (and 1 MiB), so
the cost per epoch is constant however long the stream lives. Order: checkpoint, then log, each by temporary file,
sync, rename, sync of the directory. Between the two the log begins before the checkpoint; readers skip
those records by their number.
"""

from __future__ import annotations

from dataclasses import dataclass

from store.epochs.checkpoint import Checkpoint, encode_checkpoint
from store.epochs.framing import LOG_MAGIC, header, refuse_damage
from store.epochs.graves import Graves
from store.epochs.load import read_files
from store.epochs.records import CommitRecord, Record, RollbackRecord
from store.epochs.removals import read_removals
from store.epochs.replay import chain
from store.fs import Fs
from store.layout import Layout, TableName

COMPACT_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Compacted:
    """Sizes after a compaction, the new floor, and what was rolled back after it."""

    floor: int
    graves: Graves
    log_bytes: int
    checkpoint_bytes: int


def is_due(epochs: int, keep_epochs: int, log_bytes: int, checkpoint_bytes: int, least_bytes: int) -> bool:
    """Whether a log of that many epochs and bytes is worth compacting."""
    return epochs >= 2 * max(1, keep_epochs) and log_bytes >= max(least_bytes, checkpoint_bytes)


def compact(fs: Fs, layout: Layout, table: TableName, stream: str, *, keep_epochs: int) -> Compacted | None:
    """Compacts to the newest epoch that is at least ``keep_epochs`` old; None if that is the floor already.

    Everything in the log must be durable. OSError: either nothing changed, or one of the two files was replaced.
    """
    path = layout.stream_log(table, stream)
    files = read_files(fs, layout, table, stream)
    refuse_damage(files.found, path)
    state = files.checkpoint.state
    base = state.epoch
    kept = chain(files.records, base, None, path)
    made = [record.epoch for record in kept if isinstance(record, CommitRecord | RollbackRecord)]
    newest = made[-1] if made else base
    floor = max((epoch for epoch in made if epoch <= newest - keep_epochs), default=base)
    if floor <= base:
        return None
    cut = _records_to(files.records, floor)
    for record in files.records[:cut]:
        state.note(record)
    for record in chain(files.records[:cut], base, None, path):
        state.apply(record)
    folded = files.checkpoint.removals
    for end, removal in read_removals(fs, layout, table, stream, folded).entries:
        if removal.epoch > floor:
            break
        state.remove(removal)
        folded = end
    checkpoint = encode_checkpoint(Checkpoint(state, folded))
    with fs.during("checkpoint-replace"):
        fs.replace(layout.stream_checkpoint(table, stream), checkpoint)
    log = header(LOG_MAGIC, floor) + b"".join(files.log[f.offset : f.end] for f in files.frames[cut:])
    with fs.during("log-replace"):
        fs.replace(path, log)
    return Compacted(floor, Graves.of(files.records[cut:], kept), len(log), len(checkpoint))


def _records_to(records: tuple[Record, ...], floor: int) -> int:
    """How many records lie before the first one of an epoch above the floor."""
    return next((i for i, record in enumerate(records) if record.epoch > floor), len(records))
