"""The columns of a quarantine, in Arrow and as Delta writes them into its log; and which of its rows are meant.

Rows are chosen by stream, reason, source, epoch and state.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

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
State = Literal["all", "pending", "requeued"]
Dead = Sequence[tuple[int, int | None]]
"""Ranges of epochs: after the first, up to and including the second; None: all later."""
Mask = npt.NDArray[np.bool_]
CHOOSING = (*OWNER, "SourcePartition", "Position", "Reason", "Epoch", "RequeuedEpoch")


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


@dataclass(frozen=True, slots=True)
class Chosen:
    """A filter of rows, its fields joined by AND. ``source`` may have ``*``."""

    reason: str | None = None
    source: str | None = None
    epoch: int | None = None
    state: State = "all"


def owned(rows: pa.Table, owner: tuple[str, str, str]) -> Mask:
    """Which rows are of a stream, given by namespace, table and stream."""
    mask = np.ones(len(rows), np.bool_)
    for name, value in zip(OWNER, owner, strict=True):
        mask &= _equal(rows[name], value)
    return mask


def fitting(rows: pa.Table, owner: tuple[str, str, str], chosen: Chosen, dead: Dead = ()) -> Mask:
    """Which rows, with the columns ``CHOOSING``, are chosen. Rows of dead epochs are not; their requeues are void."""
    mask = owned(rows, owner)
    epochs, requeued = epochs_of(rows, "Epoch"), epochs_of(rows, "RequeuedEpoch")
    mask &= ~among(epochs, dead)
    requeued = np.where(among(requeued, dead), -1, requeued)
    if chosen.reason is not None:
        mask &= _equal(rows["Reason"], chosen.reason)
    if chosen.source is not None:
        pattern = re.compile(".*".join(map(re.escape, chosen.source.split("*"))), re.DOTALL)
        mask &= np.array([bool(pattern.fullmatch(text)) for text in rows["SourcePartition"].to_pylist()], np.bool_)
    if chosen.epoch is not None:
        mask &= epochs == chosen.epoch
    if chosen.state != "all":
        mask &= (requeued < 0) if chosen.state == "pending" else (requeued >= 0)
    return mask


def epochs_of(rows: pa.Table, name: str) -> npt.NDArray[np.int64]:
    """A column of epochs; null is -1."""
    epochs: npt.NDArray[np.int64] = pc.fill_null(rows[name], -1).to_numpy()
    return epochs


def among(epochs: npt.NDArray[np.int64], dead: Dead) -> Mask:
    """Which epochs lie in one of the ranges."""
    mask = np.zeros(len(epochs), np.bool_)
    for after, upto in dead:
        mask |= (epochs > after) if upto is None else (epochs > after) & (epochs <= upto)
    return mask


def _equal(column: pa.ChunkedArray, value: Any) -> Mask:
    mask: Mask = pc.fill_null(pc.equal(column, value), False).to_numpy()
    return mask
