"""What a task must know to write for a stream: picklable values, the same for every task of every batch."""

from __future__ import annotations

import json
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sparkhaven.store.epochs.state.commit_policy import CommitPolicy
from sparkhaven.store.errors import CommitError, LockLostError
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout, LocationKey, TableName
from sparkhaven.store.places import StreamPlace
from sparkhaven.store.types.model import TableSchema


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
