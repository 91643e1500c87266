"""The first epoch of a table that is fed together with others: no rows, and the positions that it begins at.

It is committed when a batch is ready, before any table commits it. Else a process that is killed between the commits
of two tables would leave one without positions, and nobody could tell a table that lacks the batch from one that was
added later. A table that is added to a stream begins where the stream is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from sparkhaven.store.epochs.log import StreamLog
from sparkhaven.store.epochs.state.joint_positions import first_ranges, furthest_back
from sparkhaven.store.epochs.state.log_values import Batch, OffsetRange, Split
from sparkhaven.store.io.fs import Fs
from sparkhaven.writers.task.target import StreamTarget


class Fed(Protocol):
    """A table of a feed, with its open log."""

    @property
    def log(self) -> StreamLog: ...

    @property
    def target(self) -> StreamTarget: ...


def note_starts(fs: Fs, tables: Sequence[Fed], proposed: Sequence[Split], *, query_id: str, batch_id: int) -> None:
    """Commits where tables without an epoch begin; ``proposed``: the batch that is the next of all tables.

    Raises what ``StreamLog.commit`` raises.
    """
    new = [table for table in tables if not table.log.state.epoch]
    if len(tables) == 1 or not new:
        return
    state = furthest_back([table.log.state for table in tables])
    ranges = first_ranges(state.offsets, (split for split in proposed if isinstance(split, OffsetRange)))
    files = tuple(sorted(state.files))
    for table in new:
        version = table.target.schema.version
        with fs.during("first-positions"):
            table.target.check_generation(fs)
            table.log.publish(table.log.commit(Batch(query_id, batch_id, files, (), version, 0, ranges=ranges)))
            table.log.sync_now()  # whatever the durability: a power cut may leave the batch in another table
