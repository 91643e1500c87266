"""A small table as Delta 4.4 wrote it, to be unpacked and damaged by tests without Spark.

Partitioned by ``day``. Version 0 makes it; versions 1 to 7 append ids ``3 v - 3`` to ``3 v - 1`` (``day`` is null where
the id is a multiple of 3, else 2026-11-21), two files each; 8 is OPTIMIZE; 9 is DELETE WHERE id = 4. Version 5 has a
checkpoint.
"""

from __future__ import annotations

import json
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sparkhaven.store.delta.log import version_file
from tests.support.places import GOLDEN

TABLE_ID = "32639a10-a84d-497d-99c4-60e908621c7e"
_PACKED = GOLDEN / "delta-table.tar.xz"


def unpack(place: Path, *, until: int = 9) -> Path:
    """The table with its versions up to ``until``."""
    table = place / "table"
    with tarfile.open(_PACKED) as packed:
        packed.extractall(table, filter="data")
    for version in range(until + 1, 10):
        version_file(table, version).unlink()
    if until < 5:
        checkpoint(table).unlink()
    return table


def checkpoint(table: Path) -> Path:
    """Its only checkpoint."""
    return table / "_delta_log" / f"{5:020d}.checkpoint.parquet"


def actions_of(table: Path, version: int) -> list[dict[str, Any]]:
    """The actions of a version."""
    return [json.loads(line) for line in version_file(table, version).read_text().splitlines()]


def put_version(table: Path, version: int, *actions: Mapping[str, Any]) -> None:
    """Writes the file of a version."""
    version_file(table, version).write_text("".join(json.dumps(action) + "\n" for action in actions))


def change_metadata(table: Path, **changes: Any) -> None:
    """Changes what version 0 says of the table."""
    actions = actions_of(table, 0)
    for action in actions:
        if "metaData" in action:
            action["metaData"] |= changes
    put_version(table, 0, *actions)
