"""Locks of streams and merges, and who holds them: read from the kernel's list, since taking one would disturb."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from jobs.doctor.finding import Found, Visit, ago
from store.epochs.files.lock import holder_of


def locks(visit: Visit) -> Iterator[Found]:
    """Each stream: whether it runs, and where; and merges that run."""
    for table, stream, _ in visit.streams():
        path = visit.layout.stream_lock(table, stream)
        yield _lock(visit, f"{table} {stream}", path)
    for table in visit.tables:
        pid = holder_of(visit.fs, visit.layout.merges(table))
        if pid is not None:
            yield "ok", f"{table}: a merge or a removal runs, process {pid}", None


def _lock(visit: Visit, name: str, path: Path) -> Found:
    pid, said = holder_of(visit.fs, path), _said(visit, path)
    host = said.get("host")
    since = said.get("since")
    age = f" since {ago(visit.now_s - since / 1000)}" if isinstance(since, int | float) else ""
    if pid is not None:
        return "ok", f"{name} is being written by process {pid} of {visit.host}{age}", None
    if isinstance(host, str) and host and host != visit.host:
        what = f"{name} was last opened by process {said.get('pid')} on {host}{age}: whether it runs is seen only there"
        return "note", what, f"on {host}: ps -p {said.get('pid')}"
    return "ok", f"{name} is not being written", None


def _said(visit: Visit, path: Path) -> dict[str, Any]:
    """What the last holder has written into the file; nothing of it if it is none of ours."""
    if visit.fs.stat(path) is None:
        return {}
    try:
        value = json.loads(visit.fs.read(path))
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}
