"""Columns that a merge left out because a command had dropped them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sparkhaven.store.types.frozen import frozen


@frozen
class ColumnDrop:
    """A column of the sources that the outputs lack: in how many rows it had a value.

    ``digest`` is that of the column in the sources, as 32 hex digits.
    """

    id: int
    name: str
    rows: int
    digest: str


def encode_drops(drops: Sequence[ColumnDrop]) -> dict[str, Any]:
    """The entry of a merge record; none where no column was dropped."""
    return {"columnDrops": [[drop.id, drop.name, drop.rows, drop.digest] for drop in drops]} if drops else {}


def decode_drops(record: Mapping[str, Any]) -> tuple[ColumnDrop, ...]:
    """The inverse of ``encode_drops``; TypeError where a part is missing."""
    return tuple(ColumnDrop(*entry) for entry in record.get("columnDrops", ()))
