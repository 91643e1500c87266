"""Passes the planned rows of a batch from the source's planner to the driver, and back how many tasks may share one.

Through Spark the rows would need a job of their own, with a second process for each task. The planner, a process of its
own, therefore writes its plan to a file, with the end offset that identifies the batch; the driver uses it only for the
batch that Spark records with the same end, and else asks Spark for the rows. Only the driver knows which executors are
there, so it writes the number of tasks to a second file. Both are scratch: never synced, and meaningless after the
batch.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sparkhaven.store.io.fs import Fs

Row = dict[str, Any]
NAME = "planned.json"
TASKS = "tasks"
OFFSETS_VERSION = "v1"


def leave_plan(fs: Fs, scratch: Path, end: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> None:
    """Writes the rows of the batch that ends at ``end``, replacing earlier ones."""
    fs.mkdirs(scratch)
    fs.replace(scratch / NAME, json.dumps({"end": end, "rows": rows}).encode(), sync=False)


def planned_rows(fs: Fs, scratch: Path, offsets: Path) -> list[Row] | None:
    """The rows written for the batch that Spark has recorded in the file ``offsets``, or None."""
    end = recorded_end(fs, offsets)
    if end is None or fs.stat(scratch / NAME) is None:
        return None
    try:
        plan = json.loads(fs.read(scratch / NAME))
    except ValueError:
        return None  # torn: Spark is asked for the rows
    return list(plan["rows"]) if plan["end"] == end else None


def note_tasks(fs: Fs, scratch: Path, tasks: int) -> None:
    fs.mkdirs(scratch)
    fs.replace(scratch / TASKS, b"%d" % tasks, sync=False)


def noted_tasks(fs: Fs, scratch: Path) -> int | None:
    """The number that was written last, at least 1; None if there is none, or it is torn."""
    if fs.stat(scratch / TASKS) is None:
        return None
    text = fs.read(scratch / TASKS)
    return max(1, int(text)) if text.isdigit() else None


def recorded_end(fs: Fs, offsets: Path) -> Any:
    """The end offset in one of Spark's records of a planned batch of one source; None if it has none of this form."""
    if fs.stat(offsets) is None:
        return None
    try:
        version, _, end = fs.read(offsets).decode("utf-8").split("\n")[:3]
        return json.loads(end) if version == OFFSETS_VERSION else None
    except ValueError:
        return None
