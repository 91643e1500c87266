"""Payloads behind the frame of a schema registry, made here as Confluent's serializers make them."""

from __future__ import annotations

import json
import threading
import tomllib
from collections.abc import Iterator
from functools import cache
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from tempfile import mkdtemp
from typing import Any
from uuid import UUID

import pytest

from sparkhaven.ingest.feeds.kafka.options import KafkaOptions
from sparkhaven.ingest.feeds.kafka.source import sample_of
from sparkhaven.ingest.formats.avro.avro_records import single_object_head
from sparkhaven.ingest.spec import AvroSource, ColumnSpec, ProtobufSource, TextForm
from sparkhaven.jobs.settings.stream_file import parse_stream
from sparkhaven.store.errors import SettingsError
from tests.support.ingest.messages import Fake, decode
from tests.support.ingest.protoc import compiled, encoded

PROTO = """syntax = "proto3";
package p;
message First { string v = 1; }
message Second {
  map<string, int32> counts = 1;
  message Inner { string v = 1; message Deep { string v = 1; } }
  message Other { string v = 1; }
  string v = 2;
}
"""


@cache
def protobuf(message: str) -> ProtobufSource:
    return ProtobufSource(compiled(Path(mkdtemp()), PROTO), message)


@cache
def payload(message: str) -> bytes:
    return encoded(Path(mkdtemp()), PROTO, message, "v: 'x'")


def zigzag(number: int) -> bytes:
    """As the specification has it: least bits first, seven a byte."""
    left, out = number * 2 if number >= 0 else -number * 2 - 1, bytearray()
    while left > 127:
        out.append(left % 128 + 128)
        left //= 128
    return bytes([*out, left])


def frame(number: int, *indexes: int) -> bytes:
    """The frame of a Protobuf message; of the first one the short form."""
    path = b"\0" if indexes == (0,) else zigzag(len(indexes)) + b"".join(map(zigzag, indexes))
    return b"\0" + number.to_bytes(4, "big") + (path if indexes else b"")


@pytest.mark.parametrize(
    ("message", "indexes"),
    [
        ("p.First", (0,)),
        ("p.Second", (1,)),
        ("p.Second.Inner", (1, 1)),  # Python counts the entry of the map
        ("p.Second.Inner", (1, 0)),  # Java does not
        ("p.Second.Inner.Deep", (1, 1, 0)),
        ("p.Second.Other", (1, 2)),
    ],
)
@pytest.mark.slow
@pytest.mark.parametrize("number", [7, 200, 2**31])
def test_protobuf(message: str, indexes: tuple[int, ...], number: int) -> None:
    whole = frame(number, *indexes) + payload(message)
    _, rejects, found = decode(
        [Fake(0, whole)], {"v": "String"}, format="protobuf", protobuf=protobuf(message), frame="confluent"
    )
    assert (rejects.rows, found) == ([], {"v": ["x"]})


def test_the_long_form_of_the_first_message() -> None:
    whole = b"\0\0\0\0\7\2\0" + payload("p.First")
    _, _, found = decode(
        [Fake(0, whole)], {"v": "String"}, format="protobuf", protobuf=protobuf("p.First"), frame="confluent"
    )
    assert found == {"v": ["x"]}


@pytest.mark.parametrize(
    ("whole", "reason"),
    [
        (payload("p.First"), "not Protobuf (it does not begin with a zero byte and the id of its schema)"),
        (b"\0\0\0", "not Protobuf (it does not begin with a zero byte and the id of its schema)"),
        (frame(7, 1) + payload("p.First"), "not Protobuf (its frame names message [1] of its schema, p.First is [0])"),
        (frame(7, 0, 9), "not Protobuf (its frame names message [0, 9] of its schema, p.First is [0])"),
        (b"\0\0\0\0\7", "not Protobuf (its frame ends too early)"),
        (b"\0\0\0\0\7\x04\0", "not Protobuf (its frame ends too early)"),
        (b"\0\0\0\0\7\x01", "not Protobuf (its frame has -1 message indexes)"),
        (b"\0\0\0\0\7" + b"\xff" * 9, "not Protobuf (its frame has a message index of more than 32 bits)"),
    ],
)  # fmt: skip
def test_frames_that_are_none_or_of_another_message(whole: bytes, reason: str) -> None:
    good = frame(7, 0) + payload("p.First")
    _, rejects, found = decode(
        [Fake(0, good), Fake(1, whole), Fake(2, good)],
        {"v": "String"},
        format="protobuf",
        protobuf=protobuf("p.First"),
        frame="confluent",
    )
    assert found == {"v": ["x", "x"]}
    assert [(row.line, row.explanation, row.payload) for row in rejects.rows] == [(1, reason, whole)]


@pytest.mark.parametrize("encoding", ["utf-8", "latin-1", "utf-16be"])
def test_json(encoding: str) -> None:
    messages = [Fake(n, frame(200 + n) + f'{{"v":"é{n}"}}'.encode(encoding)) for n in range(3)]
    messages[1:1] = [Fake(0, b'{"v":"x"}'), Fake(0, b""), Fake(0, frame(9)), Fake(0, None)]
    messages = [Fake(n, message.payload) for n, message in enumerate(messages)]
    _, rejects, found = decode(messages, {"v": "String", "at": "long"}, [ColumnSpec("at", meta="offset")],
                               frame="confluent", encoding=encoding)  # fmt: skip
    assert found == {"v": ["é0", None, "é1", "é2"], "at": [0, 4, 5, 6]}
    assert [(row.line, row.code, row.payload) for row in rejects.rows] == [
        (1, "no-frame", b'{"v":"x"}'),
        (2, "no-frame", b""),
        (3, "not-json", frame(9)),
    ]
    assert rejects.read == 7


def test_keys_have_a_frame_of_their_own() -> None:
    specs = [ColumnSpec("k", source="k", of="key")]
    _, rejects, found = decode(
        [Fake(0, b'{"v":"x"}', frame(3) + b'{"k":"y"}')],
        {"v": "String", "k": "String"},
        specs,
        key_format="json",
        key_frame="confluent",
    )
    assert (rejects.rows, found) == ([], {"v": ["x"], "k": ["y"]})


@pytest.mark.parametrize("number", [8, 200, 70000])
def test_a_reason_names_the_frame_that_no_setting_announces(number: int) -> None:
    said = f"(it looks like the frame of a schema registry: a zero byte and schema id {number})"
    columns, plain = (
        {"v": "String"},
        json.dumps({"type": "record", "name": "R", "fields": [{"name": "v", "type": "long"}]}),
    )
    _, rejects, _ = decode([Fake(0, frame(number) + b'{"v":"x"}')], columns)
    assert rejects.rows[0].explanation in (f"not JSON {said}", f"not UTF-8 {said}")
    assert 'frame = "confluent" in [feed]' in rejects.rows[0].refusal.expected
    whole = frame(number, 0) + payload("p.First")
    _, rejects, _ = decode([Fake(0, whole)], columns, format="protobuf", protobuf=protobuf("p.First"))
    assert (rejects.rows[0].explanation, rejects.rows[0].payload) == (f"not Protobuf {said}", whole)
    _, rejects, _ = decode([Fake(0, frame(number) + b"\2")], {"v": "long"}, format="avro", avro=AvroSource(plain))
    assert rejects.rows[0].explanation == f"not Avro {said}"
    specs = [ColumnSpec("v", source="v", of="key")]
    _, rejects, _ = decode([Fake(0, b"{}", frame(number) + b'{"v":"x"}')], columns, specs, key_format="json")
    assert rejects.rows[0].explanation.startswith("key: not ") and said in rejects.rows[0].explanation


GUID = UUID("2d1a6c1e-8f0b-4c53-9d0e-5a6b7c8d9e0f")
LONG = json.dumps({"type": "record", "name": "R", "fields": [{"name": "v", "type": "long"}]})
OTHER_FRAMES = {
    "the frame of AWS Glue, schema": b"\3\0" + GUID.bytes,
    "the frame of AWS Glue before a packed payload, schema": b"\3\5" + GUID.bytes,
    "the frame of a schema registry by GUID, schema": b"\1" + GUID.bytes,
    "Avro's single-object encoding of the schema with fingerprint 0102030405060708": b"\xc3\1\1\2\3\4\5\6\7\10",
}


@pytest.mark.parametrize("words", OTHER_FRAMES)
@pytest.mark.parametrize("form", ["json", "framed json", "avro", "registry", "protobuf", "framed protobuf"])
def test_a_reason_names_a_frame_that_is_not_read(words: str, form: str, tmp_path: Path) -> None:
    every: dict[str, dict[str, Any]] = {
        "avro": {"format": "avro", "avro": AvroSource(LONG)},
        "registry": {"format": "avro", "avro": AvroSource(registry=str(tmp_path))},
        "json": {"format": "json"},
        "protobuf": {"format": "protobuf", "protobuf": protobuf("p.First")},
    }
    settings = every[form.removeprefix("framed ")]
    if form.startswith("framed"):
        settings["frame"] = "confluent"
    whole = OTHER_FRAMES[words] + (b'{"v":"x"}' if "json" in form else payload("p.First") if "proto" in form else b"\2")
    _, rejects, found = decode([Fake(0, whole)], {"v": "long" if "avro" in form else "String"}, **settings)
    assert (len(rejects.rows), found["v"]) == (1, [])
    said, expected = rejects.rows[0].explanation, rejects.rows[0].refusal.expected
    assert f"it looks like {words}" in said and (str(GUID) in said or "0102030405060708" in said)
    assert "No setting takes this one" in expected or "avro.schema" in expected
    assert rejects.rows[0].payload == whole


def test_single_objects_of_the_schema_are_records() -> None:
    """By the fingerprint of the schema's canonical form, as Avro's specification has it."""
    assert single_object_head('"int"') == b"\xc3\1" + (0x7275D51A3F395C8F).to_bytes(8, "little")  # of Avro's own tests
    record = single_object_head(LONG) + b"\6"
    messages = [Fake(n, record if n % 2 else b"\4") for n in range(6)]
    _, rejects, found = decode(messages, {"v": "long"}, format="avro", avro=AvroSource(LONG))
    assert (rejects.rows, found) == ([], {"v": [2, 3, 2, 3, 2, 3]})


@pytest.mark.parametrize("whole", [b"\0", b"\0\0\0\0\1", b'\0{"v":"x"}', b"x", b""])
def test_other_payloads_are_not_taken_for_frames(whole: bytes) -> None:
    _, rejects, _ = decode([Fake(0, whole)], {"v": "String"})
    assert "frame" not in rejects.rows[0].explanation


@pytest.fixture
def registry() -> Iterator[str]:
    """A schema registry that has one schema of each type."""
    record = {"type": "record", "name": "R", "fields": [{"name": "v", "type": {"type": "int", "logicalType": "date"}}]}
    known = {
        1: {"schema": json.dumps(record)},
        2: {"schema": PROTO, "schemaType": "PROTOBUF"},
        3: {"schema": '{"type":"object"}', "schemaType": "JSON"},
    }

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = known.get(int(self.path.rpartition("/")[2]))
            self.send_response(404 if found is None else 200)
            self.end_headers()
            self.wfile.write(json.dumps(found or {"error_code": 40403}).encode())

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.mark.slow
def test_avro_asks_the_registry_and_reads_logical_types(registry: str) -> None:
    date = b"\xd2\xc4\x02"  # 20777
    specs = [ColumnSpec("v", form=TextForm(as_text=True))]
    _, rejects, found = decode(
        [Fake(n, frame(number) + date) for n, number in enumerate((1, 2, 3, 4))],
        {"v": "String"},
        specs,
        format="avro",
        avro=AvroSource(registry=registry),
    )
    assert found == {"v": ["2026-11-20"]}
    assert ["PROTOBUF" in rejects.rows[0].explanation, "JSON" in rejects.rows[1].explanation] == [True, True]
    assert "there is no schema" in rejects.rows[2].explanation


def test_samples_are_taken_from_behind_the_frame() -> None:
    messages = [Fake(n, frame(7) + payload).message for n, payload in enumerate((b'{"v":1}', b'{"v":2}'))]
    sample = sample_of({"t/0": messages}, KafkaOptions("h", ("t",), frame="confluent"), whole=True)
    assert sample.fields == {"v": [1, 2]}
    with pytest.raises(Exception, match="schema id 7") as caught:
        sample_of({"t/0": messages}, KafkaOptions("h", ("t",)), whole=True)
    assert 'frame = "confluent"' in str(caught.value)


SETTINGS = """name = "s"
table = "N.T"
schema = "t.schema"
[feed]
type = "kafka"
bootstrap = "h:1"
topics = ["t"]
{feed}
[partition]
internal = {{ fixed = "0" }}
value = {{ fixed = "2026-11-20" }}
"""


@pytest.mark.parametrize(
    ("feed", "fault"),
    [
        ('frame = "confluent"', None),
        ('frame = "other"', "frame"),
        ('frame = "confluent"\nformat = "raw"', "frame is set beside format"),
        ('frame = "confluent"\nformat = "avro"\navro = { schema = "x" }', "For Avro set avro = { registry"),
        ('key = { format = "raw", frame = "confluent" }', "frame is set beside key.format"),
        ('format = "protobuf"\nprotobuf = { registry = "http://r" }', "which protoc makes of the .proto"),
        ("binary_as_text = true", "binary_as_text is set"),
    ],
)
def test_settings(tmp_path: Path, feed: str, fault: str | None) -> None:
    text = SETTINGS.format(feed=feed)
    if fault is None:
        found = parse_stream(tomllib.loads(text), tmp_path / "s.toml", {})
        assert found.spec.feed.frame == "confluent"  # type: ignore[attr-defined]
        return
    with pytest.raises(SettingsError) as caught:
        parse_stream(tomllib.loads(text), tmp_path / "s.toml", {})
    assert fault in str(caught.value)
