"""What a task must know to write for a stream: picklable values, the same for every task of every batch."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from sparkhaven.store.epochs.state.commit_policy import CommitPolicy
from sparkhaven.store.epochs.state.values import Split, add_count
from sparkhaven.store.errors import LockLostError
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout, LocationKey, TableName
from sparkhaven.store.types.frozen import frozen
from sparkhaven.store.types.model import TableSchema


@frozen
class StreamTarget:
    """One stream of one table; ``generation`` is the fencing token of the process that opened it."""

    layout: Layout
    table: TableName
    stream: str
    schema: TableSchema
    generation: int
    policy: CommitPolicy = CommitPolicy()

    def location(self, key: LocationKey) -> Path:
        """Leaf directory of a location of this table."""
        return self.layout.intraday_location(self.table, key)

    def scratch(self, batch: str) -> Path:
        """Scratch directory of one running batch."""
        return self.layout.scratch(self.table, self.stream) / batch

    @property
    def lock_file(self) -> Path:
        """The stream's lock file; it exists while the stream is open."""
        return self.layout.stream_lock(self.table, self.stream)

    def check_generation(self, fs: Fs) -> None:
        """LockLostError if the stream's lock file names another generation: this process is fenced off."""
        path = self.lock_file
        try:
            owner: dict[str, Any] = json.loads(fs.read(path))
        except (FileNotFoundError, ValueError):
            owner = {}
        if owner.get("generation") != self.generation:
            raise LockLostError(
                "another process has opened the stream",
                where=path,
                expected=f"generation {self.generation}",
                found=f"generation {owner.get('generation')}, pid {owner.get('pid')} on {owner.get('host')}",
                hint="let the newer process run, or stop it first; nothing of this batch was committed",
            )


@frozen
class RejectedFile:
    """A scratch file of rejected rows, of schema ``store.rejected.REJECTED``."""

    path: Path
    rows: int


@dataclass(slots=True)
class SplitNotes:
    """What decoding reports besides rows; a task has one for all its splits, and it pickles without ``sink``.

    ``rejected`` holds a bounded sample of bad rows as the decoder describes them; ``rejected_rows`` counts all, and
    ``rejected_files`` hold all of them (see ``keep_rejected``). ``counts`` are sums by name
    (ignored fields and the like).
    """

    rejected: list[Any] = field(default_factory=list)
    rejected_rows: int = 0
    counts: dict[str, int] = field(default_factory=dict)
    rejected_files: list[RejectedFile] = field(default_factory=list)
    sink: Callable[[pa.RecordBatch], None] | None = None

    def keep_rejected(self, rows: pa.RecordBatch) -> None:
        """Passes rejected rows (schema ``store.rejected.REJECTED``) to the sink, if any; ``reject`` counts them."""
        if self.sink is not None and rows.num_rows:
            self.sink(rows)

    def reject(self, samples: Sequence[Any], rows: int) -> None:
        """Adds ``rows`` bad rows, with some of them as samples."""
        self.rejected.extend(samples[: max(0, SAMPLES - len(self.rejected))])
        self.rejected_rows += rows

    def count(self, name: str, amount: int) -> None:
        """Adds to a named sum."""
        add_count(self.counts, name, amount)

    def merge(self, other: SplitNotes) -> None:
        """Adds the notes of another task."""
        self.reject(other.rejected, other.rejected_rows)
        self.rejected_files.extend(other.rejected_files)
        for name, amount in other.counts.items():
            self.count(name, amount)


SAMPLES = 20  # bad rows that a task keeps for error messages


@frozen
class LateRows:
    """Rows for a truncated location: a bad-row sample that the writer itself finds."""

    key: LocationKey
    rows: int
    file: str
    reason: str = "late"


class Decode(Protocol):
    """Decodes a split to routed rows, in order; rejected rows go into ``notes``. Must pickle."""

    def __call__(self, split: Split, notes: SplitNotes) -> Iterable[tuple[LocationKey, pa.RecordBatch]]:
        """Batches hold the stored columns of the table by name; missing ones are null."""
        ...
