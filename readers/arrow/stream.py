"""A table as an Arrow stream of the PyCapsule interface, which duckdb, polars, pandas and pyarrow take as it is.

Texts are plain strings: a stream whose dictionaries change from batch to batch cannot be grouped by pyarrow, and
becomes a pandas column without an order. A consumer that asks for dictionaries gets those of the batches.
Source of the protocol: Arrow's specification of the PyCapsule interface, ``__arrow_c_stream__``.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from sparkhaven.store.errors import SchemaMismatchError

Open = Callable[[bool], pa.RecordBatchReader]  # by whether texts are dictionaries


class _Requested:
    """The capsule of a schema as an object that pyarrow imports."""

    def __init__(self, capsule: object) -> None:
        self._capsule = capsule

    def __arrow_c_schema__(self) -> object:
        return self._capsule


def stream_capsule(open_: Open, requested_schema: object | None) -> object:
    """A capsule of a new stream, cast to the requested schema, if any.

    SchemaMismatchError if that has other fields, or a type to which there is no cast. A value that does not fit into
    the type that is requested ends the stream with an error.
    """
    if requested_schema is None:
        return open_(False).__arrow_c_stream__()
    requested = pa.schema(_Requested(requested_schema))
    reader = open_(any(pa.types.is_dictionary(kind) for kind in requested.types))
    if requested.names != reader.schema.names:
        raise SchemaMismatchError(
            "the requested Arrow schema has other fields than the table",
            expected=", ".join(reader.schema.names),
            found=", ".join(requested.names),
            hint="choose columns by to_batches(columns=...), whose result is an Arrow stream too",
        )
    try:
        return reader.cast(requested).__arrow_c_stream__()
    except pa.ArrowException as error:
        raise SchemaMismatchError(
            f"the table cannot be cast to the requested Arrow schema: {error}",
            expected=", ".join(f"{field.name} {field.type}" for field in reader.schema),
            found=", ".join(f"{field.name} {field.type}" for field in requested),
        ) from None
