"""The snapshots of a table: a directory for each, whose name begins with its date."""

from __future__ import annotations

import re
import shutil
from datetime import UTC, datetime
from pathlib import Path

MANIFEST = "snapshot.json"  # the last file of a snapshot: one without it is none
_NAME = re.compile(r"\d{4}-\d{2}-\d{2}T\d{6}Z\Z")


def name_of(moment: datetime) -> str:
    """The name of the snapshot of a run, in UTC."""
    return f"{moment.astimezone(UTC):%Y-%m-%dT%H%M%SZ}"


def finished(directory: Path) -> list[Path]:
    """The snapshots there are, the oldest first."""
    return sorted(path for path in _named(directory) if (path / MANIFEST).is_file())


def remove_old(directory: Path, keep: int) -> list[Path]:
    """Removes all but the newest ``keep`` snapshots, and what an earlier call has left of one; ``keep`` 0: nothing.

    The manifest goes first, so that nobody takes a rest for a snapshot.
    """
    newest = finished(directory)[-keep:] if keep else []
    if not newest:
        return []
    old = sorted(path for path in _named(directory) if path.name < newest[0].name)
    for path in old:
        (path / MANIFEST).unlink(missing_ok=True)
        shutil.rmtree(path)
    return old


def _named(directory: Path) -> list[Path]:
    if not directory.is_dir():
        return []
    return [path for path in directory.iterdir() if _NAME.match(path.name) and path.is_dir() and not path.is_symlink()]
