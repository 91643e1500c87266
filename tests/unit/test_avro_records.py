"""Avro payloads: every record whole or a bad row, times and numbers exact, schemas by file and by registry."""

from __future__ import annotations

import io
import json
import threading
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import fastavro
import numpy as np
import pytest

from ingest.avro_records import HEAD, AvroRecords, parse_avro
from ingest.bad_rows import Rejects
from ingest.kafka_feed import AvroSource
from ingest.lines import framed_block
from ingest.records import RecordRows
from ingest.rows import Rows
from ingest.spec import BadRowBudget, Target
from store.errors import FeedError, RetryableFeedError, SettingsError
from store.schema.model import Column, Kind, Storage
from store.schema.types import data_type

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


def decode(payloads: list[bytes], source: AvroSource) -> tuple[Rows, Rejects]:
    rejects = Rejects(BadRowBudget(max_rows=100))
    block = framed_block(payloads, np.arange(len(payloads), dtype=np.int64))
    return RecordRows(TARGETS, [], AvroRecords(TARGETS, source)).decode(block, "t/0", rejects), rejects


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
    with pytest.raises(FeedError, match="not there") as caught:
        decode([HEAD.pack(0, 8) + record(5)], source)
    assert str(caught.value.where).endswith("8.avsc")


@pytest.mark.slow
def test_a_registry_by_http() -> None:
    asked = []

    class Registry(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
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
        source = AvroSource(registry=f"http://127.0.0.1:{server.server_port}/")
        rows, _ = decode([HEAD.pack(0, 7) + record(n) for n in range(3)], source)
        assert rows.columns[0].to_pylist() == [0, 1, 2] and asked == ["/schemas/ids/7"]
        with pytest.raises(FeedError, match="no such schema"):
            decode([HEAD.pack(0, 9) + record(1)], source)
    finally:
        server.shutdown()
        server.server_close()
    with pytest.raises(RetryableFeedError, match="does not answer"):
        decode([HEAD.pack(0, 10) + record(1)], source)


def test_what_is_no_schema() -> None:
    for text in ("", "5", '{"type": "record"}', '{"type": "nothing"}'):
        with pytest.raises(SettingsError, match="no Avro schema"):
            parse_avro(text, "x.avsc")
        with pytest.raises(SettingsError, match="no Avro schema"):  # before anything is decoded
            AvroRecords(TARGETS, AvroSource(text))
