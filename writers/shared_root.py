"""Checks that a machine sees the database root: one shared directory at the same path everywhere."""

from __future__ import annotations

import socket
from pathlib import Path

from sparkhaven.store.errors import CommitError
from sparkhaven.store.io.fs import Fs


def require_root(fs: Fs, root: Path, marker: Path) -> None:
    """CommitError: this machine does not see the root, because the existing file ``marker`` in it is missing."""
    if fs.stat(marker) is None:
        raise unseen(root, socket.gethostname())


def unseen(root: Path, host: str) -> CommitError:
    """The error for a worker that does not see the root, or sees another directory of that name."""
    return CommitError(
        "a worker does not see the database root",
        where=f"{root} on {host}",
        expected="the directory that the driver writes to, shared by all machines",
        found="no such directory, or another one of that name",
        hint=f"mount the file system of {root} on {host} at the same path, then restart. Nothing was committed",
    )
