"""Quarantines written by hand, as Delta tables without Spark."""

from __future__ import annotations

import json
import tarfile
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from sparkhaven.store.quarantine.rejected_rows import REJECTED
from tests.support.places import GOLDEN

OWNER = ("Test", "Event", "feed")
TIME = datetime(2026, 11, 21, 12, 0, 0, 250_000)
FIELDS = [pa.field(name, pa.string()) for name in ("Namespace", "TableName", "Stream")]
FIELDS += [*REJECTED, pa.field("Epoch", pa.int64()), pa.field("Time", pa.timestamp("us"))]
FIELDS += [pa.field("RequeuedEpoch", pa.int64()), pa.field("RequeuedTime", pa.timestamp("us"))]
_PACKED = GOLDEN / "quarantine-table.tar.xz"
FIRST = {"metaData": {"id": "q", "configuration": {}}}, {"protocol": {"minReaderVersion": 1}}


def unpack_older(place: Path) -> None:
    """A quarantine that Delta 4.4 in Spark wrote, of stream ``feed`` of ``Test.Event``.

    Epochs 1 to 12 have one row each, whose time of the source is the epoch; version 10 has a checkpoint.
    """
    with tarfile.open(_PACKED) as packed:
        packed.extractall(place, filter="data")


def row(source: str, position: int, epoch: int, requeued: int | None = None, **more: object) -> dict[str, Any]:
    """A rejected row of ``OWNER``."""
    owner = dict(zip(("Namespace", "TableName", "Stream"), OWNER, strict=True))
    made = {"SourcePartition": source, "Position": position, "Reason": "overflow", "Payload": b"x", "PayloadBytes": 1}
    times = {"Time": TIME, "RequeuedTime": None if requeued is None else TIME}
    return {**owner, **made, "Epoch": epoch, "RequeuedEpoch": requeued, **times, **more}


def version(place: Path, number: int, *actions: dict[str, Any]) -> None:
    """Writes a version of the table's log."""
    (place / "_delta_log").mkdir(parents=True, exist_ok=True)
    text = "".join(json.dumps(action) + "\n" for action in actions)
    (place / "_delta_log" / f"{number:020}.json").write_text(text)


def added(place: Path, name: str, rows: list[dict[str, Any]], **options: Any) -> dict[str, Any]:
    """Writes a data file; the action that adds it."""
    pq.write_table(pa.Table.from_pylist(rows, pa.schema(FIELDS)), place / name, row_group_size=2, **options)
    return {"add": {"path": name, "size": 1, "modificationTime": 1, "dataChange": True}}
