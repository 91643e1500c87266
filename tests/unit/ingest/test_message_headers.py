"""Headers of messages as columns: the last of a name, null without one, and a bad row where one is not UTF-8."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sparkhaven.ingest.bad_rows import Rejects, as_batch
from sparkhaven.ingest.feeds.kafka.messages import MessageDecoder, header_texts, headers_of, requeue_messages
from sparkhaven.ingest.feeds.kafka.options import KafkaOptions
from sparkhaven.ingest.spec import (
    ColumnSpec,
    CsvOptions,
    InternalRule,
    PartitionSpec,
    StreamSpec,
    ValueRule,
)
from sparkhaven.ingest.targets import resolve_targets
from sparkhaven.jobs.settings.stream_file import parse_stream
from sparkhaven.store.errors import SettingsError
from tests.support.ingest.ingest_cases import PLENTY, schema
from tests.support.ingest.messages import Fake, decode

SPECS = [ColumnSpec("t", meta="header:trace"), ColumnSpec("u", meta="header:a:b")]
COLUMNS = {"v": "int", "t": "String", "u": "String"}
MESSAGES = [
    Fake(0, b'{"v":0}', named=[("trace", b"x"), ("other", b"\xff"), ("trace", "é".encode())]),
    Fake(1, b'{"v":1}'),
    Fake(2, b'{"v":2}', named=[("trace", None), ("a:b", b"")]),
    Fake(3, b'{"v":3}', named=[("trace", b"\xff"), ("a:b", b"y")]),
    Fake(4, None, named=[("trace", b"z")]),
    Fake(5, b"not json", named=[("trace", b"w"), ("a:b", b"\x01")]),
]


def test_values_by_name() -> None:
    _, rejects, found = decode(MESSAGES, COLUMNS, SPECS)
    assert found == {"v": [0, 1, 2, None], "t": ["é", None, None, "z"], "u": [None, None, "", None]}
    assert [(row.line, row.column, row.code) for row in rejects.rows] == [
        (3, "t", "header-not-utf-8"),
        (5, None, "not-json"),
    ]
    assert rejects.rows[0].payload == b'{"v":3}'


def test_a_bad_row_keeps_the_headers_that_columns_take() -> None:
    repaired = [Fake(m.at, m.payload if m.at != 5 else b'{"w":1}', named=m.named) for m in MESSAGES]
    _, rejects, _ = decode(repaired, COLUMNS | {"w": "byte"}, [*SPECS, ColumnSpec("v"), ColumnSpec("w")])
    rows = as_batch(rejects.rows).to_pylist()
    assert rows[0]["Header"] == '["trace:/w==", "a:b:eQ=="]'
    part = PartitionSpec(InternalRule("fixed", "0"), ValueRule(fixed="2026-11-20"))
    options = KafkaOptions("h", ("t",))
    spec = StreamSpec("s", "T.T", options, part, tuple(SPECS), bad_rows=PLENTY)
    targets = resolve_targets(spec, schema(**COLUMNS))
    again = Rejects(PLENTY)
    row = rows[0] | {"Header": '["trace:eA==", "a:b:eQ=="]'}
    done = requeue_messages("t/0", [row], MessageDecoder(targets, spec), 0, again)
    assert [column.to_pylist() for column in done.rows.columns] == [[3], ["x"], ["y"]]
    older = rows[0] | {"Header": '["price:usd", "v"]'}
    done = requeue_messages("t/0", [older], MessageDecoder(targets, spec), 0, again)
    assert [column.to_pylist() for column in done.rows.columns] == [[3], [None], [None]]


def test_texts_of_headers() -> None:
    message = Fake(0, b"", named=[("a:b", b"\0"), ("c", None), ("d", b"")])
    texts = header_texts(message.message, ["a:b", "c", "d", "e"])
    assert (texts, headers_of(texts)) == (("a:b:AA==", "d:"), {"a:b": b"\0", "d": b""})


def test_beside_csv_values() -> None:
    csv = CsvOptions(header=False, names=("v",))
    _, rejects, found = decode(
        [Fake(0, b"7", named=[("trace", b"x")]), Fake(1, b"x", named=[("trace", b"y")])],
        {"v": "int", "t": "String"},
        SPECS[:1],
        format="csv",
        csv=csv,
    )
    assert (found, rejects.rows[0].header) == ({"v": [7], "t": ["x"]}, ("trace:eQ==",))


@pytest.mark.parametrize(
    ("meta", "kind", "fault"),
    [
        ("header:trace", "String", None),
        ("header:", "String", "meta"),
        ("heder:x", "String", "meta"),
        ("header:x", "long", "cannot hold the header:x"),
    ],
)
def test_settings(tmp_path: Path, meta: str, kind: str, fault: str | None) -> None:
    raw: dict[str, Any] = {
        "name": "s",
        "table": "N.T",
        "schema": "t.schema",
        "feed": {"type": "kafka", "bootstrap": "h:1", "topics": ["t"]},
        "columns": {"t": {"meta": meta}},
        "partition": {"internal": {"fixed": "0"}, "value": {"fixed": "2026-11-20"}},
    }
    if fault is None:
        found = parse_stream(raw, tmp_path / "s.toml", {})
        assert resolve_targets(found.spec, schema(t=kind))[0].meta == meta
        return
    with pytest.raises(SettingsError) as caught:
        resolve_targets(parse_stream(raw, tmp_path / "s.toml", {}).spec, schema(t=kind))
    assert fault in str(caught.value)
