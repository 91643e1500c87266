"""Records of every format, sound ones and mutated ones, from a seed."""

from __future__ import annotations

import io
import json
import random
import struct
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, timestamp_pb2

Chance = random.Random
NOW_US = 1_795_184_000_000_000

_PIECES = [
    b"", b"\0", b"\xff", b"\x80", b'"', b"\\", b"{", b"}", b"[", b"]", b",", b":", b"\n", b"\r", b"\t", b"e", b"-",
    b"null", b"NaN", b"Infinity", b"1e999999999", b"-0", b"9" * 40, b"\\ud800", b"\xed\xa0\x80", b"\xef\xbb\xbf",
    b"2026-11-20", b"9999-12-31T23:59:59Z", b"\xff" * 9 + b"\x01", b"\x7f" * 8, b"\0\0\0\0\1", b"\0\0\0\0\7\0",
]  # fmt: skip
_TEXTS = ["", "x", "é", "😀", "NaN", "2026-11-20T12:00:00Z", "0001-01-01", "true", "1e5", "\0", "\uffff"]
_OFFSETS = ("Z", "Z", "Z", "", "+05:00")
_NUMBERS: list[Any] = [
    0,
    1,
    -1,
    127,
    2**31 - 1,
    -(2**31),
    2**63 - 1,
    -(2**63),
    1.5,
    -0.0,
    1e308,
    5e-324,
    253402300800000,
]
AVRO: dict[str, Any] = {
    "type": "record",
    "name": "R",
    "fields": [
        {"name": "a", "type": ["null", "int"]},
        {"name": "b", "type": "double"},
        {"name": "c", "type": ["string", "bytes", {"type": "int", "logicalType": "date"}]},
        {"name": "d", "type": {"type": "long", "logicalType": "local-timestamp-millis"}},
        {"name": "e", "type": "boolean"},
        {"name": "f", "type": {"type": "enum", "name": "E", "symbols": ["A", "B"]}},
        {
            "name": "g",
            "type": [
                {"type": "array", "items": {"type": "int", "logicalType": "time-millis"}},
                {"type": "map", "values": {"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 2}},
                {"type": "fixed", "name": "D", "size": 12, "logicalType": "duration"},
                {"type": "long", "logicalType": "timestamp-nanos"},
                "R",
            ],
        },
        {"name": "h", "type": "string"},
    ],
}


def mutated(payload: bytes, chance: Chance) -> bytes:
    """The payload with up to four changes; some stay as they are."""
    for _ in range(chance.choice((0, 0, 0, 1, 1, 2, 4))):
        start = chance.randint(0, len(payload))
        stop = min(len(payload), start + chance.choice((0, 0, 1, 2, 8, 64)))
        piece = chance.choice((chance.choice(_PIECES), bytes([chance.randrange(256)]), payload[stop : stop + 9]))
        payload = payload[:start] + piece + payload[stop:]
    return payload


def number(chance: Chance) -> Any:
    """A number, sometimes at the end of a range."""
    return chance.choice(_NUMBERS) if chance.random() < 0.2 else chance.randint(-(2**20), 2**20)


def text(chance: Chance) -> str:
    """A text, often one that means something."""
    return chance.choice(_TEXTS) if chance.random() < 0.2 else f"s{chance.randint(0, 9)}"


def clock(chance: Chance) -> str:
    """A moment, of which some have no offset."""
    return f"2026-11-{chance.randint(1, 30):02d}T{chance.randint(0, 24):02d}:00:00{chance.choice(_OFFSETS)}"


def json_record(chance: Chance) -> bytes:
    """An object."""
    nested: list[Any] = [number(chance), text(chance), None, [], {"a": [number(chance)]}, True]
    record = {
        "a": number(chance),
        "b": number(chance),
        "c": text(chance),
        "d": clock(chance),
        "e": chance.random() < 0.5,
        "f": "x",
        "g": chance.choice(nested),
        "h": clock(chance),
        "i": {"j": chance.choice(nested)},
    }
    return json.dumps(record, ensure_ascii=chance.random() < 0.5).encode()


def csv_record(chance: Chance) -> bytes:
    """Eight fields."""
    fields = [
        str(number(chance)),
        str(number(chance)),
        text(chance),
        clock(chance),
        "true",
        "x",
        text(chance),
        clock(chance),
    ]
    return ",".join(f'"{field}"' if chance.random() < 0.3 else field for field in fields).encode()


def raw_record(chance: Chance) -> bytes:
    """Eight bytes, as a long has them."""
    return struct.pack(">q", chance.choice((0, -1, 2**63 - 1, -(2**63), chance.randint(-(2**60), 2**60))))


def headers(chance: Chance, names: Sequence[str]) -> list[tuple[str, bytes | None]] | None:
    """Headers of a message: some of these names, repeated ones, huge and empty ones, with any bytes as values."""
    others = ("", ":", "header:", "\0", "é" * 40, "n" * 9000)
    odd: Sequence[bytes | None] = (None, b"\xff\xfe", b"\0" * 5000, chance.randbytes(8))
    found = [
        (
            chance.choice(names if chance.random() < 0.7 else others),
            chance.choice(odd) if chance.random() < 0.1 else chance.choice((b"", b"x", text(chance).encode())),
        )
        for _ in range(chance.choice((0, 0, 1, 1, 2, 4, 12)))
    ]
    return found or chance.choice(([], None))


def avro_record(chance: Chance) -> bytes:
    """A record of ``AVRO`` without its logical types, so that every number can be sent."""
    schema = _plain_avro()
    out = io.BytesIO()
    fastavro.schemaless_writer(out, schema, _avro_values(chance, 2))
    return out.getvalue()


def framed(record: Callable[[Chance], bytes], head: bytes) -> Callable[[Chance], bytes]:
    """Records behind a frame."""
    return lambda chance: head + record(chance)


def protobuf_record(chance: Chance) -> bytes:
    """A message of ``protobuf_files``."""
    message = _protobuf_class()()
    message.a = chance.choice((1, 2**31 - 1, -(2**31)))
    message.b = float(number(chance))
    message.c = f"s{chance.randint(0, 9)}".encode()
    message.d.seconds = chance.choice((1795184000, 1795184000, 253402300800, -(2**62)))
    message.d.nanos = chance.choice((0, 0, 5, -1, 10**9))
    message.e = chance.random() < 0.5
    message.f = "x"
    for _ in range(chance.randint(0, 2)):
        message.g.add(a=chance.randint(-9, 9), c=b"\xff")
    message.h = clock(chance)
    return bytes(message.SerializeToString())


def protobuf_files() -> bytes:
    """The descriptor set of ``protobuf_record``."""
    files = descriptor_pb2.FileDescriptorSet()
    timestamp_pb2.DESCRIPTOR.CopyToProto(files.file.add())
    file = files.file.add(name="r.proto", package="p", syntax="proto3", dependency=["google/protobuf/timestamp.proto"])
    record = file.message_type.add(name="R")
    F = descriptor_pb2.FieldDescriptorProto
    kinds = {"a": F.TYPE_INT32, "b": F.TYPE_DOUBLE, "c": F.TYPE_BYTES, "d": F.TYPE_MESSAGE, "e": F.TYPE_BOOL,
             "f": F.TYPE_STRING, "g": F.TYPE_MESSAGE, "h": F.TYPE_STRING}  # fmt: skip
    for place, (name, kind) in enumerate(kinds.items(), 1):
        label = F.LABEL_REPEATED if name == "g" else F.LABEL_OPTIONAL
        types = {"d": ".google.protobuf.Timestamp", "g": ".p.R"}
        record.field.add(name=name, number=place, type=kind, label=label, type_name=types.get(name))
    return bytes(files.SerializeToString())


def parquet_file(chance: Chance) -> bytes:
    """A small file."""
    rows = range(chance.randint(0, 4))
    wholes = [chance.choice((1, None, 2**31 - 1, 2**40)) for _ in rows]
    texts = pa.array([text(chance) for _ in rows]).dictionary_encode()
    columns = {
        "a": pa.array(wholes, pa.int64()),
        "b": pa.array([float(number(chance)) for _ in rows]),
        "c": texts if chance.random() < 0.5 else pa.array([chance.choice((b"x", b"\xff")) for _ in rows], pa.binary()),
        "d": pa.array([chance.choice((NOW_US, 2**62, -(2**62))) for _ in rows], pa.timestamp("us")),
        "e": pa.array([True for _ in rows], pa.bool_()),
        "f": pa.array(["x" for _ in rows], pa.string()),
        "g": pa.array([[{"k": 1.5}, None] for _ in rows], pa.list_(pa.struct([("k", pa.float64())]))),
        "h": pa.array([clock(chance) for _ in rows], pa.string()),
    }
    out = io.BytesIO()
    pq.write_table(pa.table(columns), out, compression=chance.choice(("none", "snappy", "zstd")), version="2.6")
    return out.getvalue()


VECTOR = "^Bg9^0rr910000000000iXQKl0rr9100031000000rru8"  # of rows 1 and 7


def delta_version(chance: Chance) -> bytes:
    """A version of a table, one action a line."""
    add = {"path": f"part-{chance.randint(0, 9)}.parquet", "size": number(chance), "modificationTime": number(chance),
           "partitionValues": {"p": text(chance)}, "stats": '{"numRecords":5}', "dataChange": True}  # fmt: skip
    fields = json.dumps({"type": "struct", "fields": [{"name": "a", "type": "integer"}]})
    vector = {"storageType": "i", "pathOrInlineDv": VECTOR, "sizeInBytes": 36, "cardinality": 2}
    actions: Sequence[dict[str, Any]] = [
        {"commitInfo": {"operation": "WRITE"}},
        {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
        {"metaData": {"id": "x", "schemaString": fields, "configuration": {}}},
        {"add": add},
        {"add": {**add, "path": "cut.parquet", "deletionVector": vector}},
        {"remove": {"path": "gone.parquet", "dataChange": chance.random() < 0.5}},
    ]
    return b"\n".join(json.dumps(action).encode() for action in actions)


@cache
def _plain_avro() -> Any:
    return fastavro.parse_schema(_without_logical(AVRO))


def _without_logical(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_without_logical(branch) for branch in schema]
    if isinstance(schema, dict):
        return {key: _without_logical(value) for key, value in schema.items() if key != "logicalType"}
    return schema


def _avro_values(chance: Chance, depth: int) -> dict[str, Any]:
    g: list[Any] = [
        ("R", _avro_values(chance, depth - 1)) if depth else [],
        [chance.randint(-(2**31), 2**31 - 1)],
        {"k": bytes([chance.randrange(256)])},
        bytes(chance.randrange(256) for _ in range(12)),
        chance.choice((0, 2**63 - 1, -(2**63))),
    ]
    return {
        "a": chance.choice((None, 1, 2, -(2**31))),
        "b": float(number(chance)),
        "c": chance.choice((text(chance), text(chance), "x", b"\xff", -(2**31))),
        "d": chance.choice((0, 2**63 - 1, -(2**63), 1795184000000)),
        "e": True,
        "f": chance.choice("AB"),
        "g": chance.choice(g),
        "h": clock(chance),
    }


@cache
def _protobuf_class() -> Any:
    found = descriptor_pb2.FileDescriptorSet.FromString(protobuf_files())
    pool = descriptor_pool.DescriptorPool()
    for file in found.file:
        pool.AddSerializedFile(file.SerializeToString())
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("p.R"))
