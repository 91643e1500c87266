"""Locks of streams and merges and their owners, read from the kernel's list: taking a lock would disturb."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sparkhaven.jobs.doctor.finding import CheckContext, Found, ago
from sparkhaven.store.epochs.files.lock import lock_owner


def locks(context: CheckContext) -> Iterator[Found]:
    """By stream whether it runs and where, and running merges."""
    for table, stream, _ in context.streams():
        path = context.layout.stream_lock(table, stream)
        yield _lock(context, f"{table} {stream}", path)
    for table in context.tables:
        pid = lock_owner(context.fs, context.layout.merges(table))
        if pid is not None:
            yield "ok", f"{table}: a merge or a removal runs, process {pid}", None


def _lock(context: CheckContext, name: str, path: Path) -> Found:
    pid, owner = lock_owner(context.fs, path), _owner(context, path)
    host = owner.get("host")
    since = owner.get("since")
    age = f" since {ago(context.now_s - since / 1000)}" if isinstance(since, int | float) else ""
    if pid is not None:
        return "ok", f"{name} is being written by process {pid} of {context.host}{age}", None
    if isinstance(host, str) and host and host != context.host:
        message = (
            f"{name} was last opened by process {owner.get('pid')} on {host}{age}. Only that host knows whether it runs"
        )
        return "note", message, f"on {host}: ps -p {owner.get('pid')}"
    return "ok", f"{name} is not being written", None


def _owner(context: CheckContext, path: Path) -> dict[str, Any]:
    """What the last owner has written into the lock file; nothing if it has another format."""
    if context.fs.stat(path) is None:
        return {}
    try:
        mark = json.loads(context.fs.read(path))
    except ValueError:
        return {}
    return mark if isinstance(mark, dict) else {}
