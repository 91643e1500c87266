"""Checkpoints of a Delta log (version 1): Parquet files with one action a row, each kind in a column of its own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa

TEXTS = pa.map_(pa.string(), pa.string())
NAMES = pa.list_(pa.string())
BATCH_ROWS = 4096
SCHEMA = pa.schema(
    {
        "txn": pa.struct({"appId": pa.string(), "version": pa.int64(), "lastUpdated": pa.int64()}),
        "add": pa.struct(
            {
                "path": pa.string(),
                "partitionValues": TEXTS,
                "size": pa.int64(),
                "modificationTime": pa.int64(),
                "dataChange": pa.bool_(),
                "tags": TEXTS,
                "stats": pa.string(),
            }
        ),
        "remove": pa.struct(
            {
                "path": pa.string(),
                "deletionTimestamp": pa.int64(),
                "dataChange": pa.bool_(),
                "extendedFileMetadata": pa.bool_(),
                "partitionValues": TEXTS,
                "size": pa.int64(),
            }
        ),
        "metaData": pa.struct(
            {
                "id": pa.string(),
                "name": pa.string(),
                "description": pa.string(),
                "format": pa.struct({"provider": pa.string(), "options": TEXTS}),
                "schemaString": pa.string(),
                "partitionColumns": NAMES,
                "configuration": TEXTS,
                "createdTime": pa.int64(),
            }
        ),
        "protocol": pa.struct(
            {
                "minReaderVersion": pa.int32(),
                "minWriterVersion": pa.int32(),
                "readerFeatures": NAMES,
                "writerFeatures": NAMES,
            }
        ),
        "domainMetadata": pa.struct({"domain": pa.string(), "configuration": pa.string(), "removed": pa.bool_()}),
    }
)
_ALSO_READ = {"add": ("deletionVector",)}  # what a table must not have, but a reader must see


def read_checkpoint(data: bytes) -> Iterator[tuple[str, dict[str, Any]]]:
    """Kind and body of each action of a checkpoint file. An Arrow error, which is a ValueError or OSError: damaged."""
    import pyarrow.parquet as pq  # most tables have no checkpoint yet

    file = pq.ParquetFile(pa.BufferReader(data))
    columns = []
    for kind in SCHEMA:
        if kind.name in file.schema_arrow.names:
            stored = file.schema_arrow.field(kind.name).type
            there = {stored.field(number).name for number in range(stored.num_fields)}
            wanted = (*(field.name for field in kind.type), *_ALSO_READ.get(kind.name, ()))
            columns += [f"{kind.name}.{name}" for name in wanted if name in there]
    for batch in file.iter_batches(batch_size=BATCH_ROWS, columns=columns, use_threads=False):
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            for body in column.filter(column.is_valid()).to_pylist(maps_as_pydicts="lossy"):
                if any(value is not None for value in body.values()):
                    yield name, _plain(body, SCHEMA.field(name).type)


def write_checkpoint(actions: Iterable[tuple[str, Mapping[str, Any]]]) -> bytes:
    import pyarrow.parquet as pq

    rows = [{kind: body} for kind, body in actions]
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pylist(rows, SCHEMA), sink, compression="zstd", compression_level=1)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def _plain(body: Mapping[str, Any], kind: pa.StructType) -> dict[str, Any]:
    """The body as the JSON log has it: what is null is left out."""
    plain: dict[str, Any] = {}
    for name, value in body.items():
        number = kind.get_field_index(name)
        if value is not None and number >= 0 and pa.types.is_struct(kind.field(number).type):
            plain[name] = _plain(value, kind.field(number).type)
        elif value is not None:
            plain[name] = value
    return plain
