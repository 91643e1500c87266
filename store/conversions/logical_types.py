"""The columns of a Parquet file by their logical types, where Arrow's reader knows another or none.

Arrow's extension types are read as their storage (``arrow_extensions_enabled=False``), since that alone can be read as
a dictionary: a UUID gets its type back here. ENUM is text in UTF-8 by the standard, and bytes to Arrow; INTERVAL is
bytes to Arrow too, and nothing that a column takes. INT96 of a writer that stores instants has a zone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from sparkhaven.store.conversions.int96 import OldTimestamps

if TYPE_CHECKING:
    from pyarrow.parquet import ParquetFile

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
