"""Timestamps of Parquet's old type INT96: a day and nanoseconds within it, without a word on zones.

Who has written the file decides what they are. Spark writes instants in UTC. Arrow keeps its own schema in the footer,
with the zone that the timestamps had. Of any other writer it is not known.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from pyarrow.parquet import ParquetFile

SPARK, ARROW = b"org.apache.spark.version", b"ARROW:schema"


@dataclass(frozen=True, slots=True)
class OldTimestamps:
    """Columns of type INT96, and which of them are ``instants``; ``unknown``: those whose writer does not say."""

    columns: frozenset[str]
    instants: frozenset[str]
    unknown: frozenset[str]


def old_timestamps(file: ParquetFile, *, instants: bool = False) -> OldTimestamps:
    """Those of an open file. ``instants``: all are, as in data files of a Delta table, whoever wrote them."""
    leaves = (file.schema.column(index) for index in range(len(file.schema)))
    columns = frozenset(leaf.path for leaf in leaves if leaf.physical_type == "INT96")
    footer = (file.metadata.metadata or {}) if columns else {}
    if instants or SPARK in footer:
        return OldTimestamps(columns, columns, frozenset())
    zones = _zones(footer.get(ARROW))
    return OldTimestamps(columns, frozenset(c for c in columns if zones.get(c)), columns - zones.keys())


def _zones(packed: bytes | None) -> dict[str, str | None]:
    """The zone, or None, of each timestamp of a schema that Arrow has put into a footer; nothing if it is damaged."""
    if packed is None:
        return {}
    try:
        schema = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(packed)))
    except (ValueError, OSError, pa.ArrowException):
        return {}
    return {field.name: field.type.tz for field in schema if pa.types.is_timestamp(field.type)}
