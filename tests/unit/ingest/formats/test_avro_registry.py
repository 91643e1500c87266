"""Schemas of a registry: those of Avro with their references, others as bad rows, and how often is asked."""

from __future__ import annotations

import io
import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import fastavro
import numpy as np
import pytest

from sparkhaven.ingest.bad_rows import Rejects
from sparkhaven.ingest.content.lines import framed_block
from sparkhaven.ingest.formats.avro.avro_records import AvroRecords, Schemas
from sparkhaven.ingest.formats.avro.registry import FORGET_SECONDS, Registry, definitions_in, whole
from sparkhaven.ingest.formats.binary_records import HEAD, NotARecordError, RecordDecoder
from sparkhaven.ingest.spec import AvroSource, BadRowBudget, MissingColumns
from sparkhaven.store.errors import RetryableFeedError, SettingsError
from tests.support.ingest.ingest_cases import target

PLAIN = {"type": "record", "name": "R", "fields": [{"name": "id", "type": "long"}]}
SIDE = {"type": "enum", "name": "Side", "namespace": "io.b", "symbols": ["B", "S"]}
DESK = {
    "type": "record",
    "name": "io.b.Desk",
    "fields": [{"name": "name", "type": "string"}, {"name": "side", "type": ["null", "Side"]}],
}
TRADE = {
    "type": "record",
    "name": "Trade",
    "namespace": "io.a",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "desk", "type": "io.b.Desk"},
        {"name": "desks", "type": {"type": "array", "items": "io.b.Desk"}},
        {"name": "side", "type": {"type": "map", "values": "io.b.Side"}},
        {"name": "before", "type": ["null", "Trade"]},
    ],
}


def entry(schema: object, kind: str | None = None, *references: tuple[str, str, int]) -> dict[str, Any]:
    text = schema if isinstance(schema, str) else json.dumps(schema)
    found: dict[str, Any] = {"schema": text}
    found |= {"schemaType": kind} if kind else {}
    given = [{"name": name, "subject": subject, "version": version} for name, subject, version in references]
    return found | ({"references": given} if given else {})


ENTRIES = {
    "/schemas/ids/1": entry(PLAIN),
    "/schemas/ids/2": entry({"type": "object"}, "JSON"),
    "/schemas/ids/3": entry('syntax = "proto3";', "PROTOBUF"),
    "/schemas/ids/4": entry(TRADE, "AVRO", ("io.b.Desk", "desks/of b", 3)),
    "/subjects/desks%2Fof%20b/versions/3": entry(DESK, None, ("io.b.Side", "side", 1)),
    "/subjects/side/versions/1": entry(SIDE),
    "/schemas/ids/5": entry(["io.b.Desk", "io.b.Side"], None, ("io.b.Desk", "desks/of b", 3)),
    "/schemas/ids/6": entry(TRADE, None, ("io.b.Desk", "nowhere", 3)),
    "/schemas/ids/7": entry(TRADE, None, ("io.b.Desk", "json", 1)),
    "/subjects/json/versions/1": entry({}, "JSON"),
    "/schemas/ids/8": entry(TRADE),
    "/schemas/ids/9": entry("not JSON"),
    "/schemas/ids/10": entry("[" * 100_000),
    "/schemas/ids/11": entry(PLAIN, None, ("a.A", "a", 1)),
    "/subjects/a/versions/1": entry({"type": "record", "name": "a.A", "fields": []}, None, ("a.B", "b", 1)),
    "/subjects/b/versions/1": entry({"type": "record", "name": "a.B", "fields": []}, None, ("a.A", "a", 1)),
}


class Place:
    """A registry that counts; ``status`` of all answers where it is set."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.status: int | None = None
        self.entries: dict[str, Any] = dict(ENTRIES)
        self.address = ""


@contextmanager
def serving() -> Iterator[Place]:
    place = Place()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            place.asked.append(self.path)
            found = place.entries.get(self.path)
            self.send_response(place.status or (404 if found is None else 200))
            self.end_headers()
            self.wfile.write(json.dumps(found or {"error_code": 40403}).encode())

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=lambda: server.serve_forever(0.01), daemon=True)
    thread.start()
    place.address = f"http://127.0.0.1:{server.server_port}"
    try:
        yield place
    finally:
        server.shutdown()
        server.server_close()


@pytest.fixture(scope="module")
def served() -> Iterator[Place]:
    with serving() as place:
        yield place


@pytest.fixture
def place(served: Place) -> Iterator[Place]:
    served.asked.clear()
    served.status, served.entries = None, dict(ENTRIES)
    yield served


def written(schema: Any, record: object, number: int) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), record)
    return HEAD.pack(0, number) + out.getvalue()


def test_messages_whose_schema_is_not_for_us_are_bad_rows(place: Place) -> None:
    good = written(PLAIN, {"id": 5}, 1)
    payloads = [good, *(HEAD.pack(0, number) + b"\x0a" for number in (2, 3, 6, 7, 8, 9, 10, 99)), good]
    targets, rejects = [target("long", "id")], Rejects(BadRowBudget(max_rows=100))
    source = AvroSource(registry=place.address)
    block = framed_block(payloads, np.arange(len(payloads), dtype=np.int64))
    rows = RecordDecoder(targets, [], AvroRecords(targets, source)).decode(block, "t/0", rejects)
    assert rows.columns[0].to_pylist() == [5, 5]
    at = place.address
    reasons = {row.line: row.explanation for row in rejects.rows}
    assert reasons[1] == "not Avro (schema 2 of the registry is of type JSON, not Avro)"
    assert reasons[2] == "not Avro (schema 3 of the registry is of type PROTOBUF, not Avro)"
    assert reasons[3] == (
        f"not Avro (schema 6 of the registry refers to io.b.Desk: there is no schema {at}/subjects/nowhere/versions/3)"
    )
    assert reasons[4] == "not Avro (version 1 of subject json is of type JSON, not Avro)"
    assert reasons[5].startswith("not Avro (schema 8 of the registry is no Avro schema: ") and "io.b.Desk" in reasons[5]
    assert reasons[6].startswith("not Avro (schema 9 of the registry is no Avro schema: ")
    assert reasons[7].startswith("not Avro (schema 10 of the registry is no Avro schema: ")
    assert reasons[8] == f"not Avro (there is no schema {at}/schemas/ids/99)"


def test_references_are_followed(place: Place) -> None:
    schema, _ = Registry(place.address).schema(4, 0.0)
    desk = {"name": "d", "side": "S"}
    inner = {"id": 1, "desk": {"name": "e", "side": None}, "desks": [], "side": {}, "before": None}
    record = {"id": 2, "desk": desk, "desks": [desk, desk], "side": {"k": "B"}, "before": inner}
    together = [SIDE, DESK, TRADE]  # the same types, in one document
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(together), ("io.a.Trade", record))
    payload = out.getvalue()[1:]  # without the number of the branch
    schemas = Schemas(AvroSource(registry=place.address))
    assert schemas.record(HEAD.pack(0, 4) + payload) == record
    assert fastavro.schemaless_reader(io.BytesIO(payload), schema, None) == record
    with pytest.raises(NotARecordError, match="too early"):
        schemas.record(HEAD.pack(0, 4) + payload[:-1])


def test_a_union_of_references_and_references_in_a_circle(place: Place) -> None:
    schemas = Schemas(AvroSource(registry=place.address))
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema([SIDE, DESK]), ("io.b.Desk", {"name": "d", "side": "B"}))
    assert schemas.record(HEAD.pack(0, 5) + b"\x00" + out.getvalue()[1:]) == {"name": "d", "side": "B"}
    assert schemas.record(written(PLAIN, {"id": 3}, 11)) == {"id": 3}


def test_each_id_is_asked_for_once_and_a_missing_one_again_after_a_while(place: Place) -> None:
    now = [100.0]
    registry = Registry(place.address)
    schemas = Schemas(AvroSource(registry=place.address), registry, lambda: now[0])
    for _ in range(1000):
        schemas.record(written(PLAIN, {"id": 5}, 1))
        for number in (2, 77):
            with pytest.raises(NotARecordError):
                schemas.record(HEAD.pack(0, number) + b"\x0a")
    assert sorted(place.asked) == ["/schemas/ids/1", "/schemas/ids/2", "/schemas/ids/77"]
    place.entries["/schemas/ids/77"] = entry(PLAIN)
    now[0] += FORGET_SECONDS - 1
    with pytest.raises(NotARecordError):
        schemas.record(written(PLAIN, {"id": 7}, 77))
    now[0] += 1
    assert schemas.record(written(PLAIN, {"id": 7}, 77)) == {"id": 7}
    assert place.asked.count("/schemas/ids/77") == 2 and place.asked.count("/schemas/ids/1") == 1


def test_a_registry_that_fails_is_tried_again(place: Place) -> None:
    registry = Registry(place.address)
    for status in (500, 503, 429):
        place.status = status
        with pytest.raises(RetryableFeedError, match="does not give a schema") as caught:
            registry.schema(1, 0.0)
        assert caught.value.where == f"{place.address}/schemas/ids/1" and str(status) in str(caught.value.found)
    place.status = 403
    with pytest.raises(SettingsError, match="refuses access"):
        registry.schema(1, 0.0)
    place.status = None
    place.entries["/schemas/ids/1"] = {"schema": 5}
    with pytest.raises(RetryableFeedError, match="does not answer with a schema"):
        registry.schema(1, 0.0)
    place.entries["/schemas/ids/1"] = entry(PLAIN)
    assert registry.schema(1, 0.0)[0]["name"] == "R"  # nothing of it was remembered


def test_what_is_remembered_is_bounded() -> None:
    asked: list[str] = []

    def ask(place: str, path: str) -> Mapping[str, Any] | None:
        asked.append(path)
        return None

    registry = Registry("http://nowhere", ask=ask)
    for number in [*range(1001), 1000, 0]:
        with pytest.raises(NotARecordError):
            registry.schema(number, 0.0)
    assert len(asked) == 1002 and asked[-1] == "schemas/ids/0"


@pytest.mark.parametrize("text", ["{}", '{"type": "record"}', "[[5]]"])
def test_a_reference_that_is_no_schema_is_told(text: str) -> None:
    main = {"schema": '"x.Y"', "references": [{"name": "x.Y", "subject": "s", "version": 1}]}
    registry = Registry("http://nowhere", ask=lambda _, path: main if path.startswith("schemas") else {"schema": text})
    with pytest.raises(NotARecordError, match="schema 7 of the registry is no Avro schema"):
        registry.schema(7, 0.0)


def test_a_damaged_file_of_a_directory(tmp_path: Path) -> None:
    registry = Registry(str(tmp_path))
    for damaged in (b"", b"{", b"\xff", b'{"type": "record"}', b"5"):
        (tmp_path / "1.avsc").write_bytes(damaged)
        with pytest.raises(NotARecordError, match="no Avro schema"):
            registry.schema(1, 0.0)
    (tmp_path / "1.avsc").write_text(json.dumps(PLAIN))
    assert registry.schema(1, 0.0)[0]["name"] == "R"


def test_names_are_those_of_the_specification() -> None:
    inner = {
        "type": "record",
        "name": "B",
        "namespace": "x.y",
        "fields": [{"name": "e", "type": {**SIDE, "name": "E"}}],
    }
    definitions = definitions_in({"type": "record", "name": "A", "fields": [{"name": "b", "type": inner}]})
    assert sorted(definitions) == ["A", "io.b.E", "x.y.B"]
    using = {
        "type": "record",
        "name": "x.y.U",
        "fields": [{"name": n, "type": t} for n, t in (("e", "io.b.E"), ("b", "B"))],
    }
    made = fastavro.parse_schema(whole(using, definitions))
    assert made["fields"][0]["type"]["symbols"] == ["B", "S"] and made["fields"][1]["type"]["name"] == "x.y.B"
    assert made["fields"][1]["type"]["fields"][0]["type"] == "io.b.E"  # defined once, at its first use
    plain = whole({"type": "array", "items": {"type": "long", "logicalType": "timestamp-millis"}}, definitions)
    assert plain == {"type": "array", "items": {"type": "long", "logicalType": "timestamp-millis"}}


@pytest.mark.parametrize(("missing", "read"), [("fail", False), ("null", True)])
def test_a_schema_of_a_registry_that_lacks_a_column_is_refused(
    tmp_path: Path, missing: MissingColumns, read: bool
) -> None:
    for number, name in ((1, "id"), (2, "ID")):
        schema = {"type": "record", "name": "R", "fields": [{"name": name, "type": "long"}]}
        (tmp_path / f"{number}.avsc").write_text(json.dumps(schema))
    records = AvroRecords([target("long", "id")], AvroSource(registry=str(tmp_path)), missing=missing)
    assert records.value(records.read(HEAD.pack(0, 1) + b"\x02"), 0) == 1
    for _ in range(2):
        if read:
            assert records.value(records.read(HEAD.pack(0, 2) + b"\x02"), 0) is None
        else:
            with pytest.raises(NotARecordError, match="its schema lacks id"):
                records.read(HEAD.pack(0, 2) + b"\x02")
