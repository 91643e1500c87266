"""The columns of a quarantine, in Arrow and as Delta writes them into its log."""

from __future__ import annotations

import json
from datetime import datetime

import pyarrow as pa

from sparkhaven.store.quarantine.rejected_rows import REJECTED, RejectedRow

OWNER = ("Namespace", "TableName", "Stream")
KEY = ("SourcePartition", "Position", "SourceTime")
UTC_TIME = pa.timestamp("us", tz="UTC")
COLUMNS = pa.schema(
    [
        *(pa.field(name, pa.string()) for name in OWNER),
        *(pa.field(field.name, field.type) for field in REJECTED),  # all are nullable, as Spark makes them
        pa.field("Epoch", pa.int64()),
        pa.field("Time", UTC_TIME),
        pa.field("RequeuedEpoch", pa.int64()),
        pa.field("RequeuedTime", UTC_TIME),
    ]
)
PROPERTIES = {
    "delta.enableDeletionVectors": "false",  # so that any reader of Delta can read it
    "delta.autoOptimize.autoCompact": "true",  # with one file per batch, reading would become slower and slower
}
PROTOCOL = {"minReaderVersion": 1, "minWriterVersion": 2}
_DELTA_TYPES = {pa.string(): "string", pa.int64(): "long", pa.binary(): "binary", UTC_TIME: "timestamp"}


class QuarantinedRow(RejectedRow):
    """One row of ``COLUMNS``."""

    Namespace: str
    TableName: str
    Stream: str
    Epoch: int
    Time: datetime
    RequeuedEpoch: int | None
    RequeuedTime: datetime | None


def schema_text() -> str:
    fields = [
        {"name": field.name, "type": _DELTA_TYPES[field.type], "nullable": True, "metadata": {}} for field in COLUMNS
    ]
    return json.dumps({"type": "struct", "fields": fields}, separators=(",", ":"))


def lacking(text: str) -> list[str]:
    """Columns of a quarantine that a table with this schema lacks, or has with another type."""
    types = {field["name"]: field["type"] for field in json.loads(text)["fields"]}
    return [field.name for field in COLUMNS if types.get(field.name) != _DELTA_TYPES[field.type]]
