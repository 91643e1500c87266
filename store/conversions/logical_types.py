"""The columns of a Parquet file by their logical types, where Arrow's reader knows another or none.

Arrow's extension types are read as their storage (``arrow_extensions_enabled=False``), since that alone can be read as
a dictionary: a UUID gets its type back here. ENUM is text in UTF-8 by the standard, and bytes to Arrow; INTERVAL is
bytes to Arrow too, and nothing that a column takes. INT96 of a writer that stores instants has a zone.

INT96 is Parquet's old type of timestamps: a day and nanoseconds within it, without a word on zones. Who has written the
file decides what they are. Spark writes instants in UTC. Arrow keeps its own schema in the footer, with the zone that
the timestamps had. Of any other writer it is not known.
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


_NAMED = {"UUID": pa.uuid(), "ENUM": pa.string(), "INTERVAL": pa.month_day_nano_interval()}


def logical_schema(file: ParquetFile, old: OldTimestamps) -> pa.Schema:
    """Names and types of the columns of an open file, in order; names may repeat."""
    logical = {}
    for leaf in (file.schema.column(index) for index in range(len(file.schema))):
        interval = leaf.converted_type == "INTERVAL"  # which has no logical type of its own
        logical[leaf.path] = "INTERVAL" if interval else leaf.logical_type.type
    fields = []
    for column in file.schema_arrow:
        kind = _NAMED.get(logical.get(column.name, ""), column.type)
        fields.append(pa.field(column.name, pa.timestamp("ns", "UTC") if column.name in old.instants else kind))
    return pa.schema(fields)


def as_logical(array: pa.Array, declared: pa.DataType) -> pa.Array:
    """A column as it was read, as its logical type; without view. An ENUM is not validated."""
    kind, kinds = array.type, pa.types
    if kinds.is_string_view(kind):
        return array.cast(pa.string())
    if kinds.is_binary_view(kind):
        return array.cast(pa.binary())
    if declared == pa.uuid() and kinds.is_fixed_size_binary(kind):
        return pa.ExtensionArray.from_storage(declared, array)
    return array.view(pa.string()) if declared == pa.string() and kinds.is_binary(kind) else array
