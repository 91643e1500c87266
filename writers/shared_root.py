"""The database root as every machine sees it: a directory at the same path, shared by all."""

from __future__ import annotations

import socket
from pathlib import Path

from store.errors import CommitError
from store.io.fs import Fs


def require_root(fs: Fs, root: Path, marker: Path) -> None:
    """CommitError if this machine does not see the root, by a file in it that exists; for tasks."""
    if fs.stat(marker) is None:
        raise unseen(root, socket.gethostname())


def unseen(root: Path, host: str) -> CommitError:
    """The error for a worker that does not see the root, or another directory of that name."""
    return CommitError(
        "a worker does not see the database root",
        where=f"{root} on {host}",
        expected="the directory that the driver writes to, shared by all machines",
        found="no such directory, or another one of that name",
        hint=f"mount the file system of {root} on {host} at the same path, then start again; nothing was committed",
    )
