"""Avro payloads: every record whole or a bad row, times and numbers exact, schemas by file and by registry."""

from __future__ import annotations

import base64
import io
import json
import struct
import threading
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import fastavro
import numpy as np
import pytest

from sparkhaven.ingest.bad_rows import Rejects
from sparkhaven.ingest.content.lines import framed_block
from sparkhaven.ingest.formats.avro.avro_records import AvroRecords, parse_avro
from sparkhaven.ingest.formats.avro.payload_proof import check_payload, checker
from sparkhaven.ingest.formats.binary_records import HEAD, NotARecordError, RecordDecoder
from sparkhaven.ingest.spec import AvroSource, BadRowBudget, Target
from sparkhaven.ingest.values.typed_rows import TypedRows
from sparkhaven.store.errors import RetryableFeedError, SettingsError
from sparkhaven.store.types.datatypes import data_type
from sparkhaven.store.types.model import Column, Kind, Storage

SCHEMA = {
    "type": "record",
    "name": "Trade",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "px", "type": ["null", "double"]},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "side", "type": {"type": "enum", "name": "Side", "symbols": ["B", "S"]}},
        {"name": "who", "type": {"type": "record", "name": "Who", "fields": [{"name": "desk", "type": "string"}]}},
        {"name": "extra", "type": "int"},
    ],
}
NOW = datetime(2026, 11, 21, 12, 0, 0, 123456, UTC)


def target(source: str, kind: str) -> Target:
    encoding = "UTF_8" if kind == "String" else None
    column = Column(source.replace(".", "_"), data_type(kind), Kind.NORMAL, Storage.NONE, 0, encoding)
    return Target(column, source, "iso", None, None, True)


TARGETS = [target("id", "int"), target("px", "double"), target("at", "Instant"), target("side", "String")]
TARGETS.append(target("who.desk", "String"))


def record(number: int, **changed: Any) -> bytes:
    values = {"id": number, "px": 1.5, "at": NOW, "side": "B", "who": {"desk": "d\n"}, "extra": 1, **changed}
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(SCHEMA), values)
    return out.getvalue()


def decode(payloads: list[bytes], source: AvroSource) -> tuple[TypedRows, Rejects]:
    rejects = Rejects(BadRowBudget(max_rows=100))
    block = framed_block(payloads, np.arange(len(payloads), dtype=np.int64))
    return RecordDecoder(TARGETS, [], AvroRecords(TARGETS, source)).decode(block, "t/0", rejects), rejects


BY_FILE = AvroSource(json.dumps(SCHEMA))


def test_records_by_a_schema_file() -> None:
    payloads = [record(1), record(2, px=None), record(3, px=float("nan"))]
    rows, rejects = decode(payloads, BY_FILE)
    assert rejects.rows == [] and rejects.ignored == {"extra": 3}
    assert rows.columns[0].to_pylist() == [1, 2, 3]
    assert str(rows.columns[1].to_pylist()) == "[1.5, None, nan]"
    assert rows.columns[2][0].value == 1_795_262_400_123_456_000
    assert [column[0].as_py() for column in rows.columns[3:]] == ["B", "d\n"]


@pytest.mark.parametrize(
    ("payload", "column"),
    [(b"", None), (record(1)[:-1], None), (record(1) + b"x", None), (b"\xff" * 40, None), (record(2**40), "id")],
)
def test_what_is_no_record_is_a_bad_row_among_good_ones(payload: bytes, column: str | None) -> None:
    rows, rejects = decode([record(1), payload, record(3)], BY_FILE)
    assert rows.numbers.tolist() == [0, 2]
    assert [(row.line, row.column) for row in rejects.rows] == [(1, column)]
    assert rejects.rows[0].payload == payload


def test_a_registry_in_a_directory(tmp_path: Path) -> None:
    (tmp_path / "7.avsc").write_text(json.dumps(SCHEMA))
    source = AvroSource(registry=str(tmp_path))
    rows, rejects = decode([HEAD.pack(0, 7) + record(5), record(5)[:3], b"\x01" + record(5)], source)
    assert rows.columns[0].to_pylist() == [5]
    assert [row.line for row in rejects.rows] == [1, 2]
    rows, rejects = decode(
        [HEAD.pack(0, 7) + record(5), HEAD.pack(0, 8) + record(6), HEAD.pack(0, 7) + record(7)], source
    )
    assert rows.columns[0].to_pylist() == [5, 7]
    assert rejects.rows[0].explanation == f"not Avro (there is no schema {tmp_path}/8.avsc)"
    (tmp_path / "8.avsc").write_text(json.dumps(SCHEMA))  # what was not there is looked for again
    assert decode([HEAD.pack(0, 8) + record(6)], source)[0].columns[0].to_pylist() == [6]


@pytest.mark.parametrize(
    ("source", "there"),
    [("nothing", "at, extra, id, px, side, who"), ("who.nothing", "desk"), ("id.deeper", "a record there")],
)
def test_a_column_of_which_the_schema_knows_nothing_is_refused_at_the_start(source: str, there: str) -> None:
    with pytest.raises(SettingsError, match="has no field in the Avro schema") as caught:
        AvroRecords([target(source, "String")], BY_FILE)
    assert caught.value.expected == there


def test_fields_are_found_through_unions_maps_and_names() -> None:
    node = {"type": "record", "name": "Node", "fields": [{"name": "next", "type": ["null", "Node"]}]}
    node["fields"].append({"name": "tags", "type": {"type": "map", "values": "string"}})  # type: ignore[attr-defined]
    either = ["null", {"type": "record", "name": "A", "fields": [{"name": "a", "type": "int"}]}, "Node"]
    top = {"type": "record", "name": "Top", "fields": [{"name": "node", "type": node}, {"name": "x", "type": either}]}
    schema = AvroSource(json.dumps(top))
    for source in ("node.next.next.tags.any", "x.a", "x.next.next", "x.tags.key"):
        AvroRecords([target(source, "String")], schema)
    for source in ("node.a", "x.b", "y", "node.next.tags.any.deeper"):
        with pytest.raises(SettingsError, match="has no field"):
            AvroRecords([target(source, "String")], schema)


@pytest.mark.slow
def test_a_registry_by_http() -> None:
    asked = []

    class Registry(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            if self.headers["Authorization"] != "Basic " + base64.b64encode(b"me:p@ss").decode():
                self.send_error(401)
                return
            found = self.path == "/schemas/ids/7"
            self.send_response(200 if found else 404)
            self.end_headers()
            self.wfile.write(json.dumps({"schema": json.dumps(SCHEMA)}).encode() if found else b"{}")

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Registry)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        place = f"127.0.0.1:{server.server_port}/"
        source = AvroSource(registry=f"http://me:p%40ss@{place}")
        assert "p%40ss" not in repr(source)
        rows, _ = decode([HEAD.pack(0, 7) + record(n) for n in range(3)], source)
        assert rows.columns[0].to_pylist() == [0, 1, 2] and asked == ["/schemas/ids/7"]
        _, rejects = decode([HEAD.pack(0, 9) + record(1)], source)
        assert rejects.rows[0].explanation == f"not Avro (there is no schema http://{place}schemas/ids/9)"
        with pytest.raises(SettingsError, match="refuses") as refused:
            decode([HEAD.pack(0, 7) + record(1)], AvroSource(registry=f"http://me:wrong@{place}"))
        assert "wrong" not in str(refused.value)
    finally:
        server.shutdown()
        server.server_close()
    with pytest.raises(RetryableFeedError, match="does not answer") as caught:
        decode([HEAD.pack(0, 10) + record(1)], source)
    assert "p%40ss" not in str(caught.value)


PLAIN: list[tuple[Any, str, Any, Any]] = [  # schema, type of the column, value, as stored
    ("string", "String", "é", "é"),
    ({"type": "long"}, "long", -5, -5),
    (["null", "string"], "String", None, None),
    ({"type": "long", "logicalType": "timestamp-micros"}, "Instant", NOW, 1_795_262_400_123_456_000),
    ({"type": "enum", "name": "E", "symbols": ["B", "S"]}, "String", "S", "S"),
    ({"type": "array", "items": "int"}, "int[]", [1, 2], [1, 2]),
]


@pytest.mark.parametrize(("schema", "kind", "value", "stored"), PLAIN)
@pytest.mark.parametrize("by", ["file", "registry"])
def test_a_plain_value_is_the_field_value(
    tmp_path: Path, by: str, schema: Any, kind: str, value: object, stored: object
) -> None:
    """As keys often are one text or number, which no record is around."""
    (tmp_path / "7.avsc").write_text(json.dumps(schema))
    source = AvroSource(json.dumps(schema)) if by == "file" else AvroSource(registry=str(tmp_path))
    out = io.BytesIO(b"" if by == "file" else HEAD.pack(0, 7))
    out.seek(0, io.SEEK_END)
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    one, rejects = target("value", kind), Rejects(BadRowBudget(max_rows=100))
    block = framed_block([out.getvalue(), out.getvalue() + b"x"], np.arange(2, dtype=np.int64))
    rows = RecordDecoder([one], [], AvroRecords([one], source)).decode(block, "t/0", rejects)
    found = rows.columns[0][0]
    assert (found.value if kind == "Instant" else found.as_py()) == stored
    assert [(row.line, row.code) for row in rejects.rows] == [(1, "not-avro")]


def test_another_name_than_value_is_refused_for_a_plain_value() -> None:
    with pytest.raises(SettingsError, match="has no field in the Avro schema") as caught:
        AvroRecords([target("key", "String")], AvroSource('"string"'))
    assert caught.value.expected == "value"


def test_what_is_no_schema() -> None:
    for text in ("", "5", '{"type": "record"}', '{"type": "nothing"}'):
        with pytest.raises(SettingsError, match="no Avro schema"):
            parse_avro(text, "x.avsc")
        with pytest.raises(SettingsError, match="no Avro schema"):  # before anything is decoded
            AvroRecords(TARGETS, AvroSource(text))


def number(value: int) -> bytes:
    """A zigzag number, as long as it takes."""
    left, out = (value << 1) ^ (value >> 80), b""
    while left > 0x7F:
        left, out = left >> 7, out + bytes([left & 0x7F | 0x80])
    return out + bytes([left])


DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}
ENUM = {"type": "enum", "name": "E", "symbols": ["B", "S"]}
SMALL = {"type": "fixed", "name": "F", "size": 2, "logicalType": "decimal", "precision": 4, "scale": 2}
WRONG: list[tuple[Any, str, bytes, str | None]] = [  # type, of the column, bytes; what is wrong, or None
    (ENUM, "String", number(1), None),
    (ENUM, "String", number(2), "no symbol of the enum (2)"),
    (ENUM, "String", number(-1), "no symbol of the enum (-1)"),
    (["null", "long"], "long", number(1) + number(5), None),
    (["null", "long"], "long", number(-1) + number(5), "no branch of the union (-1)"),
    (["null", "long"], "long", number(-2), "no branch of the union (-2)"),
    ("boolean", "Boolean", b"\x01", None),
    ("boolean", "Boolean", b"\x02", "a boolean that is neither 0 nor 1 (2)"),
    ("int", "long", number(2**31 - 1), None),
    ("int", "long", number(2**31), "an int of more than 32 bits (2147483648)"),
    ("long", "long", number(2**63 - 1), None),
    ("long", "long", b"\xff" * 9 + b"\x7f", "a number of more than 64 bits"),
    ("long", "long", b"\x80" * 10 + b"\x01", "a number of more than ten bytes"),
    ("string", "String", number(3) + b"abc", None),
    ("string", "String", number(-1) + b"abc", "a negative length (-1)"),
    ("string", "String", number(4) + b"abc", "it ends too early"),
    ("double", "double", struct.pack("<d", 1.5), None),
    ("double", "double", struct.pack("<f", 1.5), "it ends too early"),
    ("float", "double", struct.pack("<d", 1.5), "4 bytes are left over"),
    (DECIMAL, "double", number(2) + (9975).to_bytes(2, "big"), None),
    (DECIMAL, "double", number(2) + (10_000).to_bytes(2, "big"), "a decimal of more than 4 digits"),
    (SMALL, "double", (-9975).to_bytes(2, "big", signed=True), None),
    (SMALL, "double", (-10_000).to_bytes(2, "big", signed=True), "a decimal of more than 4 digits"),
]


@pytest.mark.parametrize(("kind", "column", "payload", "wrong"), WRONG)
def test_bytes_that_fastavro_would_bend_into_a_value(kind: Any, column: str, payload: bytes, wrong: str | None) -> None:
    schema = {"type": "record", "name": "R", "fields": [{"name": "v", "type": kind}]}
    targets, rejects = [target("v", column)], Rejects(BadRowBudget(max_rows=1))
    block = framed_block([payload], np.zeros(1, np.int64))
    rows = RecordDecoder(targets, [], AvroRecords(targets, AvroSource(json.dumps(schema)))).decode(
        block, "t/0", rejects
    )
    assert len(rows) == (wrong is None)
    assert [row.explanation for row in rejects.rows] == ([] if wrong is None else [f"not Avro ({wrong})"])


def test_lists_in_blocks() -> None:
    check = checker(fastavro.parse_schema({"type": "array", "items": {"type": "map", "values": "null"}}))
    entries = number(1) + number(1) + b"k" + number(0)
    for payload in (number(0), number(2) + entries * 2 + number(0), number(-1) + number(4) + entries + number(0)):
        check_payload(check, payload, 0)
    with pytest.raises(NotARecordError, match="a block of 4 bytes that says 5"):
        check_payload(check, number(-1) + number(5) + entries + number(0), 0)
    for many in (2**40, -(2**40)):
        with pytest.raises(NotARecordError, match="a list of 1099511627776 entries"):
            check_payload(checker({"type": "array", "items": "null"}), number(many) + number(0) + number(0), 0)


def test_a_schema_that_names_itself_is_followed_so_far() -> None:
    schema = {"type": "record", "name": "L", "fields": [{"name": "v", "type": ["null", "L"]}]}
    check = checker(fastavro.parse_schema(schema))
    check_payload(check, number(1) * 99 + number(0), 0)
    for depth in (100, 1_000_000):
        with pytest.raises(NotARecordError, match="more than 100 records in each other"):
            check_payload(check, number(1) * depth + number(0), 0)


def test_a_uuid_is_a_text() -> None:
    text = "82f8d289-9742-4a10-be8d-606c15710a0a"
    schema = {
        "type": "record",
        "name": "R",
        "fields": [{"name": "v", "type": {"type": "string", "logicalType": "uuid"}}],
    }
    targets, rejects = [target("v", "String")], Rejects(BadRowBudget(max_rows=1))
    block = framed_block([number(36) + text.encode(), number(1) + b"x"], np.arange(2, dtype=np.int64))
    rows = RecordDecoder(targets, [], AvroRecords(targets, AvroSource(json.dumps(schema)))).decode(
        block, "t/0", rejects
    )
    assert (rows.columns[0].to_pylist(), [row.line for row in rejects.rows]) == ([text], [1])


def test_records_with_fields_that_no_column_takes_by_a_strict_contract() -> None:
    payloads = [record(number) for number in range(3)]
    block = framed_block(payloads, np.arange(3, dtype=np.int64))

    def decoded(*ignored: str) -> tuple[int, Rejects]:
        rejects = Rejects(BadRowBudget(max_rows=100))
        rows = RecordDecoder(TARGETS, ignored, AvroRecords(TARGETS, BY_FILE), strict=True).decode(block, "t/0", rejects)
        return len(rows), rejects

    rows, rejects = decoded()
    assert (rows, [(row.code, row.value) for row in rejects.rows]) == (0, [("unknown-field", "extra")] * 3)
    rows, rejects = decoded("extra")
    assert (rows, rejects.bad, rejects.read) == (3, 0, 3)
