"""The scanners of Avro and Protobuf say what the exact pass says, of good payloads and of damaged ones."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import fastavro
import numpy as np
import pytest
from google.protobuf import descriptor_pb2, timestamp_pb2
from hypothesis import given
from hypothesis import strategies as st

from sparkhaven.ingest.bad_rows import Rejects
from sparkhaven.ingest.content.lines import LineBlock, framed_block
from sparkhaven.ingest.formats.avro.avro_records import AvroRecords
from sparkhaven.ingest.formats.binary_records import HEAD, RecordDecoder, RecordFormat
from sparkhaven.ingest.formats.protobuf.message_type import message_type
from sparkhaven.ingest.formats.protobuf.protobuf_records import ProtobufRecords
from sparkhaven.ingest.spec import AvroSource, ProtobufSource, Target
from tests.support.ingest.ingest_cases import PLENTY, target
from tests.support.ingest.odd_fields import QUICK, rejected, typed

Make = Callable[[bool], RecordFormat[Any]]

AVRO = {
    "type": "record",
    "name": "T",
    "fields": [
        {"name": "a", "type": "long"},
        {"name": "b", "type": ["null", "int"]},
        {"name": "gone", "type": "string"},
        {"name": "c", "type": ["double", "null"]},
        {"name": "d", "type": "float"},
        {"name": "in", "type": {"type": "record", "name": "I", "fields": [
            {"name": "e", "type": "string"},
            {"name": "odd", "type": {"type": "enum", "name": "E", "symbols": ["X", "Y"]}},
            {"name": "raw", "type": ["null", "bytes"]},
        ]}},
        {"name": "f", "type": "boolean"},
        {"name": "g", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "h", "type": ["null", "string"]},
        {"name": "i", "type": "long"},
        {"name": "four", "type": {"type": "fixed", "name": "F", "size": 4}},
    ],
}  # fmt: skip
AVRO_TARGETS = [
    target("long", "a"),
    target("double", "a"),
    target("int", "b"),
    target("double", "c"),
    target("float", "d"),
    target("double", "d"),
    target("String", "in.e"),
    target("Boolean", "f"),
    target("Instant", "g"),
    target("String", "h", encoding="ISO_8859_1"),
    target("short", "i"),
    target("Instant", "i", unit="ms"),
]
WHOLE = st.one_of(st.integers(-70, 70), st.sampled_from([-(2**63), 2**63 - 1, 2**53 + 1, -(2**31), 2**31, 40_000]))
INTS = st.one_of(st.integers(-70, 70), st.sampled_from([-(2**31), 2**31 - 1]))
TEXTS = st.one_of(st.sampled_from(["", "x", "\0", "é", "日本", "a longer text of some words"]), st.text(max_size=9))
REALS = st.one_of(st.floats(), st.sampled_from([-1.7976931348623157e308, -3.4028234663852886e38, 0.1, -0.0]))
AVRO_ROW = st.fixed_dictionaries({
    "a": WHOLE,
    "b": st.none() | INTS,
    "gone": TEXTS.filter(lambda text: not any(0xD800 <= ord(c) < 0xE000 for c in text)),
    "c": st.none() | REALS,
    "d": st.floats(width=32) | st.just(-3.4028234663852886e38),
    "in": st.fixed_dictionaries({
        "e": TEXTS.filter(lambda text: not any(0xD800 <= ord(c) < 0xE000 for c in text)),
        "odd": st.sampled_from("XY"),
        "raw": st.none() | st.binary(max_size=3),
    }),
    "f": st.booleans(),
    "g": st.integers(-(10**10), 10**10) | st.sampled_from([2**62, -(2**62)]),
    "h": st.none() | st.sampled_from(["", "é", "日本", "x"]),
    "i": WHOLE,
    "four": st.binary(min_size=4, max_size=4),
})  # fmt: skip
KINDS = {"i64": 3, "i32": 5, "u32": 13, "u64": 4, "s32": 17, "s64": 18, "x32": 7, "x64": 6, "y32": 15, "y64": 16}
KINDS |= {"f32": 2, "f64": 1, "yes": 8, "text": 9, "raw": 12, "at": 11, "maybe": 5, "other": 9, "many": 5, "lost": 5}


def _descriptors() -> bytes:
    files = descriptor_pb2.FileDescriptorSet()
    timestamp_pb2.DESCRIPTOR.CopyToProto(files.file.add())
    file = files.file.add(name="t.proto", package="t", syntax="proto3", dependency=["google/protobuf/timestamp.proto"])
    message = file.message_type.add(name="T")
    for number, (name, kind) in enumerate(KINDS.items(), 1):
        field = message.field.add(name=name, number=number, type=kind, label=3 if name == "many" else 1)
        if name == "at":
            field.type_name = ".google.protobuf.Timestamp"
        if name == "maybe":
            field.proto3_optional, field.oneof_index = True, 0
            message.oneof_decl.add(name="_maybe")
    return bytes(files.SerializeToString())


PROTOBUF = ProtobufSource(_descriptors(), "t.T")
PROTOBUF_TARGETS = [
    target("long", "i64"),
    target("Instant", "i64", unit="s"),
    target("int", "i32"),
    target("double", "u32"),
    target("long", "u64"),
    target("byte", "s32"),
    target("long", "s64"),
    target("long", "x32"),
    target("long", "x64"),
    target("int", "y32"),
    target("long", "y64"),
    target("float", "f32"),
    target("double", "f64"),
    target("Boolean", "yes"),
    target("String", "text", encoding="US_ASCII"),
    target("Instant", "at"),
    target("int", "maybe"),
]
SMALL = st.integers(0, 70)
PROTOBUF_ROW = st.fixed_dictionaries(
    {},
    optional={
        "i64": WHOLE,
        "i32": INTS,
        "u32": SMALL | st.just(2**32 - 1),
        "u64": SMALL | st.just(2**64 - 1),
        "s32": INTS,
        "s64": WHOLE,
        "x32": SMALL | st.just(2**32 - 1),
        "x64": SMALL | st.just(2**64 - 1),
        "y32": INTS,
        "y64": WHOLE,
        "f32": st.floats(width=32),
        "f64": REALS,
        "yes": st.booleans(),
        "text": TEXTS.filter(lambda text: not any(0xD800 <= ord(c) < 0xE000 for c in text)),
        "raw": st.binary(max_size=2),
        "maybe": INTS,
        "other": st.sampled_from(["", "x"]),
        "many": st.lists(st.integers(0, 9), max_size=1),
        "lost": st.integers(0, 1),
        "at": st.tuples(st.integers(-(2**62), 2**62) | st.integers(0, 10**9), st.integers(-1, 10**9)),
    },
)


def avro_payload(row: dict[str, Any]) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(json.loads(json.dumps(AVRO))), row)
    return out.getvalue()


def protobuf_payload(row: dict[str, Any]) -> bytes:
    message = message_type(PROTOBUF).parser()
    for name, value in row.items():
        if name == "at":
            message.at.seconds, message.at.nanos = value
        elif name == "many":
            message.many.extend(value)
        else:
            setattr(message, name, value)
    return bytes(message.SerializeToString())


@st.composite
def damaged(draw: st.DrawFn, payload: bytes) -> bytes:
    """Most are sound; of the others bytes are changed, taken out or put in."""
    data = bytearray(payload)
    for _ in range(draw(st.sampled_from([0, 0, 0, 0, 1, 2]))):
        offset = draw(st.integers(0, len(data)))
        change = draw(st.integers(0, 2))
        if change == 0:
            data[offset:offset] = draw(st.binary(min_size=1, max_size=3))
        elif change == 1:
            del data[offset : offset + draw(st.integers(1, 3))]
        elif offset < len(data):
            data[offset] = draw(st.integers(0, 255))
    return bytes(data)


def block_of(payloads: Sequence[bytes]) -> LineBlock:
    return framed_block(list(payloads), np.arange(len(payloads), dtype=np.int64) * 2)


def same_both_ways(make: Make, targets: Sequence[Target], payloads: Sequence[bytes]) -> None:
    outcomes = []
    for compiled in (True, False):
        decoder = RecordDecoder(targets, ["gone"], make(compiled))
        for _ in range(2):
            rejects = Rejects(PLENTY)
            rows = typed(decoder.decode(block_of(payloads), "f", rejects), targets)
            outcomes.append((rows, rejected(rejects), rejects.read, +rejects.ignored))
    assert all(outcome == outcomes[0] for outcome in outcomes)


def avro_records(compiled: bool) -> AvroRecords:
    return AvroRecords(AVRO_TARGETS, AvroSource(json.dumps(AVRO)), compiled=compiled)


def protobuf_records(compiled: bool) -> ProtobufRecords:
    return ProtobufRecords(PROTOBUF_TARGETS, PROTOBUF, compiled=compiled)


@pytest.mark.slow
@QUICK
@given(st.lists(AVRO_ROW.map(avro_payload).flatmap(damaged), min_size=1, max_size=12))
def test_avro(payloads: list[bytes]) -> None:
    same_both_ways(avro_records, AVRO_TARGETS, payloads)


@pytest.mark.slow
@QUICK
@given(st.lists(PROTOBUF_ROW.map(protobuf_payload).flatmap(damaged), min_size=1, max_size=12))
def test_protobuf(payloads: list[bytes]) -> None:
    same_both_ways(protobuf_records, PROTOBUF_TARGETS, payloads)


@pytest.mark.slow
@QUICK
@given(st.lists(st.tuples(st.sampled_from([b"\0", b"\2\0", b"\2\2", b""]), st.integers(6, 7)), min_size=1, max_size=9))
def test_frames_of_a_registry(frames: list[tuple[bytes, int]]) -> None:
    plain = protobuf_payload({"i32": 5})
    payloads = [HEAD.pack(0, number) + indexes + plain for indexes, number in frames]

    def framed(compiled: bool) -> ProtobufRecords:
        return ProtobufRecords(PROTOBUF_TARGETS, PROTOBUF, framed=True, compiled=compiled)

    same_both_ways(framed, PROTOBUF_TARGETS, payloads)


@pytest.mark.slow
@QUICK
@given(st.lists(st.sampled_from([1, 2, 3]), min_size=1, max_size=9))
def test_schemas_of_a_registry(numbers: list[int]) -> None:
    """Number 2 has a field more, 3 has none that is wanted and is no record."""
    fields = [{"name": "a", "type": "long"}, {"name": "new", "type": "int"}]
    targets = [target("long", "a"), target("int", "new"), target("String", "nowhere")]
    with TemporaryDirectory() as directory:
        for number, schema in enumerate((_record(fields[:1]), _record(fields), "long"), 1):
            (Path(directory) / f"{number}.avsc").write_text(json.dumps(schema))
        source = AvroSource(registry=directory)

        def registered(compiled: bool) -> AvroRecords:
            return AvroRecords(targets, source, missing="null", compiled=compiled)

        payloads = [HEAD.pack(0, number) + bytes([8, 6][:number]) for number in numbers]
        same_both_ways(registered, targets, payloads)
        scanner = registered(True).scanner(HEAD.pack(0, 1))
        assert scanner is not None
        assert len(scanner.scan(block_of([HEAD.pack(0, 1) + bytes([8])])).records) == 1


def _record(fields: list[dict[str, str]]) -> dict[str, Any]:
    return {"type": "record", "name": "T", "fields": fields}


AVRO_PLAIN: dict[str, Any] = {
    "a": 7,
    "b": None,
    "gone": "",
    "c": 0.5,
    "d": 2.0,
    "in": {"e": "text", "odd": "Y", "raw": b"\n"},
}
AVRO_PLAIN |= {"f": True, "g": 10**15, "h": "é", "i": 300, "four": b"abcd"}
PROTOBUF_PLAIN: dict[str, Any] = {
    "i64": 5,
    "i32": -5,
    "s32": -9,
    "f64": 0.5,
    "text": "text",
    "at": (10**9, 5),
    "other": "x",
}


@pytest.mark.parametrize(
    ("records", "payload"),
    [(avro_records(True), avro_payload(AVRO_PLAIN)), (protobuf_records(True), protobuf_payload(PROTOBUF_PLAIN))],
)
def test_plain_records_are_never_in_doubt(records: RecordFormat[Any], payload: bytes) -> None:
    scanner = records.scanner(payload)
    assert scanner is not None
    assert scanner.scan(block_of([payload] * 5)).records.tolist() == [0, 1, 2, 3, 4]


def test_a_record_of_another_schema_goes_to_the_exact_pass() -> None:
    records = protobuf_records(True)
    payload = protobuf_payload({"i32": 5})
    scanner = records.scanner(payload)
    assert scanner is not None
    unknown = payload + bytes([0xF8, 0x07, 1])  # field 127
    assert scanner.scan(block_of([payload, unknown, payload])).records.tolist() == [0, 2]
