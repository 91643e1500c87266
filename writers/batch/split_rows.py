"""Converts a row of a source to the split that it names, for drivers and tasks: picklable functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from sparkhaven.store.epochs.state.log_values import FileId, FilePart, OffsetRange, Split

SplitOf = Callable[[Mapping[str, Any]], Split]


def file_of(row: Mapping[str, Any]) -> FileId:
    """A row of a files source: ``path``, ``size``, ``mtime_ns``; of a part of a file also ``start`` and ``stop``."""
    start, stop = row.get("start"), row.get("stop")
    if start is None or stop is None or (start, stop) == (0, row["size"]):
        return FileId(row["path"], row["size"], row["mtime_ns"])
    return FilePart(row["path"], row["size"], row["mtime_ns"], start, stop)


def range_of(row: Mapping[str, Any]) -> OffsetRange:
    """A row of a source with offsets: ``topic``, ``partition``, ``start``, ``stop``, ``topic_id`` ("" = unknown)."""
    return OffsetRange(row["topic"], row["partition"], row["start"], row["stop"], row["topic_id"])
