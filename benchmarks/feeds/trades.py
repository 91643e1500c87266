"""The rows of all feeds, as Arrow tables, and how each format writes them."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, timestamp_pb2

SPARK_FIELDS = (
    "id long, src string, sym string, ts timestamp, px double, qty int, side string, venue string, seq long,"
    " live boolean"
)
SOURCES = 2  # rows of both come in turn; a file or topic partition has those of one
MESSAGE = "bench.Trade"
_START_US = int(np.datetime64("2026-11-21", "us").astype(np.int64))
_DAY_US = 86_400_000_000
_AVRO = {"id": "long", "src": "string", "sym": "string", "px": "double", "qty": "int", "seq": "long"}
_AVRO |= {"ts": {"type": "long", "logicalType": "timestamp-micros"}, "live": "boolean"}  # type: ignore[dict-item]
_AVRO |= {"side": "string", "venue": ["null", "string"]}  # type: ignore[dict-item]
_ORDER = ("id", "src", "sym", "ts", "px", "qty", "side", "venue", "seq", "live")
AVRO_SCHEMA = json.dumps(
    {"type": "record", "name": "Trade", "fields": [{"name": name, "type": _AVRO[name]} for name in _ORDER]}
)
Encode = Callable[[dict[str, Any]], bytes]


def trades(ids: np.ndarray[Any, np.dtype[np.int64]]) -> pa.Table:
    """The rows with these ids."""
    us = _START_US + ids % 86_400 * 1_000_000 + ids % 1_000_000
    return pa.table(
        {
            "id": ids,
            "src": _named("s", SOURCES, ids % SOURCES),
            "sym": _named("SYM", 997, ids * 7919 % 997),
            "ts": pa.array(us).view(pa.timestamp("us", "UTC")),
            "px": ids * 31 % 100_000 / 100,
            "qty": (ids % 5000).astype(np.int32),
            "side": pa.array(["B", "S"]).take(pa.array(ids % 2)),
            "venue": _named("V", 13, ids % 13),
            "seq": ids * 3,
            "live": ids % 3 == 0,
        }
    )


def of_source(source: int, rows: int, first: int = 0) -> pa.Table:
    """So many rows of one source, from its row ``first`` on."""
    return trades((np.arange(first, first + rows, dtype=np.int64)) * SOURCES + source)


def avro() -> Encode:
    """The rows as Avro records, without a frame."""
    schema = fastavro.parse_schema(json.loads(AVRO_SCHEMA))

    def encode(row: dict[str, Any]) -> bytes:
        payload = io.BytesIO()
        fastavro.schemaless_writer(payload, schema, row)
        return payload.getvalue()

    return encode


def descriptor_set() -> bytes:
    """The FileDescriptorSet of ``bench.Trade``: proto3, its instant a Timestamp."""
    files = descriptor_pb2.FileDescriptorSet()
    timestamp_pb2.DESCRIPTOR.CopyToProto(files.file.add())
    kinds = {"id": 3, "src": 9, "sym": 9, "ts": 11, "px": 1, "qty": 5, "side": 9, "venue": 9, "seq": 3, "live": 8}
    file = files.file.add(name="trade.proto", package="bench", syntax="proto3")
    file.dependency.append("google/protobuf/timestamp.proto")
    message = file.message_type.add(name="Trade")
    for number, name in enumerate(_ORDER, 1):
        field = message.field.add(name=name, number=number, label=1, type=kinds[name])
        if kinds[name] == 11:
            field.type_name = ".google.protobuf.Timestamp"
    return bytes(files.SerializeToString())


def protobuf() -> Encode:
    """The rows as messages of that type."""
    pool = descriptor_pool.DescriptorPool()
    for file in descriptor_pb2.FileDescriptorSet.FromString(descriptor_set()).file:
        pool.Add(file)
    kind = message_factory.GetMessageClass(pool.FindMessageTypeByName(MESSAGE))

    def encode(row: dict[str, Any]) -> bytes:
        message = kind(**{name: value for name, value in row.items() if name != "ts"})
        message.ts.FromDatetime(row["ts"])
        return bytes(message.SerializeToString())

    return encode


def payloads(source: int, rows: int, encode: Encode, together: int = 50_000) -> Iterator[bytes]:
    """So many rows of one source, encoded one by one."""
    for first in range(0, rows, together):
        for row in of_source(source, min(together, rows - first), first).to_pylist():
            yield encode(row)


def write_csv(table: pa.Table, path: Path) -> None:
    """With a header; instants as ISO texts, texts without quotes."""
    texts = pa.compute.strftime(table["ts"], "%Y-%m-%dT%H:%M:%SZ")
    plain = table.set_column(table.schema.get_field_index("ts"), "ts", texts)
    pa.csv.write_csv(plain, path, pa.csv.WriteOptions(quoting_style="needed", quoting_header="needed"))


def write_parquet(table: pa.Table, path: Path) -> None:
    """As Spark writes it: snappy."""
    pq.write_table(table, path, compression="snappy")


def write_files(directory: Path, form: str, rows: int, files: int) -> None:
    """So many files of ``rows`` rows, each of one source, in turn."""
    directory.mkdir(parents=True)
    write = write_csv if form == "csv" else write_parquet
    for number in range(files):
        write(of_source(number % SOURCES, rows, number // SOURCES * rows), directory / f"{number:08}.{form}")


def _named(prefix: str, count: int, numbers: np.ndarray[Any, np.dtype[np.int64]]) -> pa.Array:
    return pa.array([f"{prefix}{number}" for number in range(count)]).take(pa.array(numbers))
