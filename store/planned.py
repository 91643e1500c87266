"""The rows of a small batch, handed from the planner of a source to the driver beside Spark.

A Spark job that fetches a few rows and runs one short task costs several times what the task does. The planner, a
process of its own, therefore leaves what it planned for one task in a file, with the end offset that names the batch;
the driver takes it only for the batch that Spark records with the same end. Without the file, or with another one, it
asks Spark for the rows. The file is scratch: never synced, and of no meaning after the batch.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from store.fs import Fs

Row = dict[str, Any]
NAME = "planned.json"
OFFSETS_VERSION = "v1"


def leave_plan(fs: Fs, spool: Path, end: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> None:
    """Leaves the rows of the batch that ends at ``end``, in place of any earlier ones."""
    fs.mkdirs(spool)
    fs.replace(spool / NAME, json.dumps({"end": end, "rows": rows}).encode(), sync=False)


def planned_rows(fs: Fs, spool: Path, offsets: Path) -> list[Row] | None:
    """The rows that were left for the batch that Spark has recorded in the file ``offsets``, or None."""
    if fs.stat(spool / NAME) is None or fs.stat(offsets) is None:
        return None
    try:
        version, _, end = fs.read(offsets).decode("utf-8").split("\n")[:3]
        plan = json.loads(fs.read(spool / NAME))
        known = version == OFFSETS_VERSION and json.loads(end) == plan["end"]
    except ValueError:
        return None  # not of this form: Spark knows what it means
    return list(plan["rows"]) if known else None
