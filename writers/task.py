"""What the task of a batch is told, picklable and the same for every task; the interface of decoders that it calls.

Decoding reports more than rows: rejected ones, counts, and what the source had.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from sparkhaven.store.epochs.state.commit_policy import CommitPolicy
from sparkhaven.store.epochs.state.log_values import LastMessage, Split, add_count
from sparkhaven.store.errors import CommitError, LockLostError
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout, LocationKey, TableName
from sparkhaven.store.places import StreamPlace
from sparkhaven.store.source_rows import SourceRows
from sparkhaven.store.types.model import TableSchema

SAMPLES = 20  # bad rows that a task keeps for error messages


@dataclass(frozen=True, slots=True)
class RejectedFile:
    """A scratch file of rejected rows, of schema ``store.quarantine.rejected_rows.REJECTED``."""

    path: Path
    rows: int


@dataclass(slots=True)
class SplitNotes:
    """What decoding reports besides rows; a task has one for all its splits, and it pickles without ``sink``.

    ``rejected`` holds a bounded sample of bad rows as the decoder describes them; ``rejected_rows`` counts all, and
    ``rejected_files`` hold all of them (see ``keep_rejected``). ``counts`` are sums by name
    (ignored fields and the like). ``source``: the rows of the split that is being decoded, as a decoder has to report
    them; ``sources``: those of all splits whose rows were proved to be all there. ``last``: the last messages of splits
    that have them.
    """

    rejected: list[Any] = field(default_factory=list)
    rejected_rows: int = 0
    counts: dict[str, int] = field(default_factory=dict)
    rejected_files: list[RejectedFile] = field(default_factory=list)
    sink: Callable[[pa.RecordBatch], None] | None = None
    source: SourceRows = field(default_factory=SourceRows)
    sources: SourceRows = field(default_factory=lambda: SourceRows(0))
    last: dict[Split, LastMessage] = field(default_factory=dict)

    def keep_rejected(self, rows: pa.RecordBatch) -> None:
        """Passes rejected rows (schema ``REJECTED``) to the sink, if any; ``reject`` counts them."""
        if self.sink is not None and rows.num_rows:
            self.sink(rows)

    def reject(self, samples: Sequence[Any], rows: int) -> None:
        self.rejected.extend(samples[: max(0, SAMPLES - len(self.rejected))])
        self.rejected_rows += rows

    def count(self, name: str, amount: int) -> None:
        add_count(self.counts, name, amount)

    def require_all(self, taken: int, rejected: int, where: object) -> None:
        """The split has ended. FeedError unless its rows are so many taken and rejected, and those left out."""
        self.source.require(taken, rejected, where)
        self.sources.add(self.source)
        self.source = SourceRows()

    def merge(self, other: SplitNotes) -> None:
        self.reject(other.rejected, other.rejected_rows)
        self.sources.add(other.sources)
        self.rejected_files.extend(other.rejected_files)
        self.last |= other.last
        for name, amount in other.counts.items():
            self.count(name, amount)


@dataclass(frozen=True, slots=True)
class LateRows:
    """Rows for a truncated location: a bad-row sample that the writer itself finds."""

    key: LocationKey
    rows: int
    file: str


class Decode(Protocol):
    """Decodes a split to routed rows, in order; rejected rows go into ``notes``. Must pickle."""

    def __call__(self, split: Split, notes: SplitNotes) -> Iterable[tuple[LocationKey, pa.RecordBatch]]:
        """Batches hold the stored columns of the table by name; missing ones are null.

        ``notes.source`` gets the number of rows that the split has, by its source, and how many of them are left out.
        """
        ...


class DecodeTables(Protocol):
    """Decodes a split once, to routed rows of several tables. Must pickle."""

    def __call__(
        self, split: Split, notes: Mapping[int, SplitNotes]
    ) -> Iterable[tuple[int, LocationKey, pa.RecordBatch]]:
        """Rows of the tables that have ``notes``, by their number; those of each table in order."""
        ...


@dataclass(frozen=True, slots=True)
class OneTable:
    """A decoder of one table, whose number is 0."""

    decode: Decode

    def __call__(
        self, split: Split, notes: Mapping[int, SplitNotes]
    ) -> Iterable[tuple[int, LocationKey, pa.RecordBatch]]:
        """What ``decode`` gives."""
        for key, batch in self.decode(split, notes[0]):
            yield 0, key, batch


@dataclass(frozen=True, slots=True)
class StreamTarget:
    """One stream of one table; ``generation`` is the fencing token of the process that opened it.

    ``takes_late``: rows for a truncated location make a new one; else they are rejected.
    """

    layout: Layout
    table: TableName
    stream: str
    schema: TableSchema
    generation: int
    policy: CommitPolicy = CommitPolicy()
    takes_late: bool = False

    def place(self, fs: Fs) -> StreamPlace:
        return StreamPlace(fs, self.layout, self.table, self.stream)

    def location(self, key: LocationKey) -> Path:
        return self.layout.intraday_location(self.table, key)

    def scratch(self, batch: str) -> Path:
        return self.layout.scratch(self.table, self.stream) / batch

    @property
    def lock_file(self) -> Path:
        """The stream's lock file; it exists while the stream is open."""
        return self.layout.stream_lock(self.table, self.stream)

    def require_root(self, fs: Fs) -> None:
        """CommitError: this machine does not see the root, because the lock file of the open stream is missing."""
        if fs.stat(self.lock_file) is None:
            raise unseen(self.layout.root, socket.gethostname())

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
                hint="let the newer process run, or stop it first. Nothing of this batch was committed",
            )


def unseen(root: Path, host: str) -> CommitError:
    """The error for a worker that does not see the root, or sees another directory of that name."""
    return CommitError(
        "a worker does not see the database root",
        where=f"{root} on {host}",
        expected="the directory that the driver writes to, shared by all machines",
        found="no such directory, or another one of that name",
        hint=f"mount the file system of {root} on {host} at the same path, then restart. Nothing was committed",
    )
