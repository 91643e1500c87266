"""Samples of the feeds that a stream file names: files by their own settings, messages, versions of a Delta table."""

from __future__ import annotations

import json
import time
import tomllib
from pathlib import Path
from typing import Any

import pytest

from sparkhaven.ingest.bad_rows import Rejects
from sparkhaven.ingest.feeds.base import SILENT, route
from sparkhaven.ingest.feeds.kafka.messages import MessageDecoder
from sparkhaven.ingest.feeds.kafka.options import KafkaOptions
from sparkhaven.ingest.feeds.kafka.source import sample_of
from sparkhaven.ingest.inference.fitting import fit_schema
from sparkhaven.ingest.inference.proposal import propose
from sparkhaven.ingest.inference.texts import SchemaWishes, StreamWishes, schema_text, stream_text
from sparkhaven.ingest.spec import CsvOptions
from sparkhaven.ingest.targets import resolve_targets
from sparkhaven.jobs.settings.stream_file import load_stream_file, parse_stream
from sparkhaven.jobs.settings.stream_schema import checked_schema
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import TableName
from sparkhaven.store.schema.document.schema_file import parse_schema
from sparkhaven.testing.planned_contract import Planner
from tests.support.commands import run
from tests.support.ingest.delta.tables import unpack
from tests.support.ingest.inferring import NOW, infer_and_new, json_file, ok, plain, with_schema
from tests.support.ingest.messages import Fake, block_of

FEED_CSV = CsvOptions(header=False, names=("a", "b"))
MESSAGES = [
    Fake(5, b'{"trade":{"price":268.5,"size":100},"sym":"AAPL"}', b"k", 1_357_016_400_000),
    Fake(6, None),
    Fake(7, b'{"trade":{"price":1,"size":null},"sym":"MSFT","tags":["x"]}', None, 1_357_016_401_000),
]


def test_messages_with_their_position() -> None:
    options = KafkaOptions("127.0.0.1:1", ("ticks",))
    sample = sample_of({"ticks/3": [fake.message for fake in MESSAGES]}, options, whole=True)
    xml = schema_text(TableName("E", "T"), propose(sample), SchemaWishes())
    schema = parse_schema(xml.encode(), "E.T.schema").schema
    raw = {"feed": {"type": "kafka", "bootstrap": "127.0.0.1:1", "topics": ["ticks"]}}
    wishes = StreamWishes("ticks", "E.T.schema", "UTC", round(NOW * 1e9))
    text = stream_text(schema, raw, fit_schema(schema, sample, {}, "UTC"), wishes)
    settings = parse_stream(tomllib.loads(text), Path("/x/ticks.toml"), {})
    assert 'internal = { meta = "partition" }' in text and 'value = { column = "KafkaTimestamp", zone = "UTC" }' in text
    targets = resolve_targets(settings.spec, schema)
    rejects = Rejects(SILENT)
    found = MessageDecoder(targets, settings.spec).decode(block_of(MESSAGES), "ticks/3", 77, rejects)
    assert rejects.bad == 0
    values = {t.column.name: plain(array) for t, array in zip(targets, found.columns, strict=True)}
    assert values["trade__price"] == [268.5, None, 1.0] and values["trade__size"] == [100, None, None]
    assert values["tags"] == [None, None, ["x"]] and values["KafkaOffset"] == [5, 6, 7]
    assert values["KafkaPartition"] == [3, 3, 3] and values["KafkaTimestamp"][0] == 1_357_016_400 * 10**9


def test_messages_in_csv() -> None:
    options = KafkaOptions("h", ("t",), format="csv", csv=FEED_CSV)
    messages = [Fake(at, value).message for at, value in enumerate((b"1,x", b"2,y,z", b'3,"a,b"'), 1)]
    sample = sample_of({"t/0": messages}, options, whole=False)
    assert {name: list(sample.values(name)) for name in sample.fields} == {"a": ["1", "3"], "b": ["x", "a,b"]}
    assert [bad.position for bad in sample.unreadable] == ["t/0 offset 2"]


def test_rows_of_a_delta_table(tmp_path: Path) -> None:
    unpack(tmp_path)
    (tmp_path / "feed.toml").write_text('[feed]\ntype = "delta"\npath = "table"\n')
    file = tmp_path / "D.T.schema"
    file.write_text(ok("schema", "infer", str(tmp_path / "feed.toml"), "--table", "D.T"))
    ok("schema", "new", str(file), str(tmp_path / "feed.toml"), "--name", "delta")
    settings = load_stream_file(Fs(), tmp_path / "delta.toml", {})
    schema = checked_schema(Fs(), settings)
    planner = Planner(settings.feed, tmp_path / "db")
    rejects = Rejects(SILENT)
    rows = 0
    for split in (split for batch in planner.rest() for split in batch):
        rows += sum(
            routed.batch.num_rows
            for routed in route(settings.feed.decode(Fs(), split, schema, rejects, time.time), rejects)
        )
    assert (rejects.bad, rows) == (0, 20)


def test_a_stream_file_keeps_what_it_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    feed = tmp_path / "in"
    feed.mkdir()
    json_file(feed / "a.json", [{"px": "1.234,5", "at": "2013-01-01T05:00:00Z", "more": 1, "src": "x"}])
    monkeypatch.setenv("IN", str(feed))
    other = tmp_path / "sub"
    other.mkdir()
    (other / "feed.toml").write_text(
        'name = "mine"\ntable = "E.Q"\n[feed]\ntype = "files"\npath = "${IN}/*.json"\nsettle = "0 s"\n'
        '[columns]\nPrice = { from = "px", quoted = true, thousands = ".", decimal = "," }\nignore = ["more"]\n'
        '[partition]\ninternal = { column = "src" }\nvalue = { column = "at", zone = "UTC" }\nmax_past = "9999 d"\n'
        "[bad_rows]\nmax_rows = 0\n[commit]\nkeep_epochs = 7\n"
    )
    (tmp_path / "E.Q.schema").write_text(
        '<Table namespace="E" name="Q" storageType="NestedPartitionedOnDisk">'
        '<Column name="Date" dataType="String" columnType="Partitioning"/>'
        '<Column name="Price" dataType="double"/><Column name="At" dataType="Instant"/></Table>'
    )
    ok("schema", "new", str(tmp_path / "E.Q.schema"), str(other / "feed.toml"))
    written = tomllib.loads((tmp_path / "mine.toml").read_text())
    assert written["feed"] == {"type": "files", "path": "${IN}/*.json", "settle": "0 s"}
    assert written["columns"]["Price"]["thousands"] == "." and written["columns"]["At"] == {"from": "at"}
    assert written["columns"]["ignore"] == ["more", "src"]
    assert written["partition"]["max_past"] == "9999 d" and written["commit"] == {"keep_epochs": 7}
    found = run(tmp_path, "schema", "infer", str(other / "feed.toml"))
    assert found.exit_code == 0 and 'namespace="E" name="Q"' in found.stdout


def test_relative_paths_lead_to_the_same_files(tmp_path: Path) -> None:
    (tmp_path / "a" / "in").mkdir(parents=True)
    (tmp_path / "b").mkdir()
    json_file(tmp_path / "a" / "in" / "x.json", [{"v": 1}])
    (tmp_path / "a" / "feed.toml").write_text('[feed]\ntype = "files"\npath = "in/*.json"\n')
    found = infer_and_new(tmp_path / "b", tmp_path / "a" / "feed.toml")
    assert found.columns == {"v": [1]} and 'path = "../a/in/*.json"' in found.stream


def test_names_of_files_with_signs_of_globs_and_of_the_environment(tmp_path: Path) -> None:
    for name in ("a[1].json", "${HOME}.json", "what?.json"):
        found = infer_and_new(tmp_path, json_file(tmp_path / name, [{"v": name}]))
        assert found.columns == {"v": [name]}
    (tmp_path / "b[2]").mkdir()
    json_file(tmp_path / "b[2]" / "c.json", [{"v": 1}])
    assert infer_and_new(tmp_path, tmp_path / "b[2]").columns == {"v": [1]}


def test_settings_of_a_column_lead_to_the_date(tmp_path: Path) -> None:
    json_file(tmp_path / "a.json", [{"t": "01/02/2013 05:00:00"}])
    feed = '[feed]\ntype = "files"\npath = "a.json"\n[columns]\n'
    (tmp_path / "feed.toml").write_text(feed + 'At = { from = "t", format = "%d/%m/%Y %H:%M:%S", zone = "UTC" }\n')
    file = tmp_path / "T.T.schema"
    file.write_text(
        '<Table namespace="T" name="T" storageType="NestedPartitionedOnDisk">'
        '<Column name="Date" dataType="String" columnType="Partitioning"/>'
        '<Column name="At" dataType="Instant"/></Table>'
    )
    found = with_schema(tmp_path, tmp_path / "feed.toml", file)
    assert found.bad == [] and [key.value for key in found.keys] == ["2013-02-01"]


def test_a_schema_that_was_corrected(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [
        {
            "id": 7,
            "flag": "Y",
            "price": "5",
            "when": 1_357_016_400,
            "o": {"a": 1, "b": {"c": 2}},
            "gone": {"x": 1, "y": 2},
        }
    ]
    file = tmp_path / "T.T.schema"
    columns = {"id": "String", "flag": "Boolean", "price": "double", "when": "long", "a": "short", "c": "long"}
    file.write_text(
        '<Table namespace="T" name="T" storageType="NestedPartitionedOnDisk">'
        '<Column name="Date" dataType="String" columnType="Partitioning"/>'
        + "".join(f'<Column name="{name}" dataType="{kind}"/>' for name, kind in columns.items())
        + "</Table>"
    )
    found = with_schema(tmp_path, json_file(tmp_path / "a.json", rows), file)
    assert found.bad == [] and found.columns == {
        "id": ["7"], "flag": [True], "price": [5.0], "when": [1_357_016_400], "a": [1], "c": [2]
    }  # fmt: skip
    assert 'ignore = ["gone"]' in found.stream


@pytest.mark.slow
def test_json_that_nobody_can_cut_short_is_text(tmp_path: Path) -> None:
    deep: Any = 1
    for _ in range(400):
        deep = [deep]
    lines = [json.dumps({"v": deep}), '{"v": 1.50}', '{"v": -0}', '{"v": {"é": [1e5, null, "\\u0001"]}}']
    found = infer_and_new(tmp_path, json_file(tmp_path / "a.json", lines * 100))
    assert found.bad == []
    assert found.columns["v"][:4] == [
        "[" * 400 + "1" + "]" * 400, "1.50", "-0", '{"é": [1e5, null, "\\u0001"]}',
    ]  # fmt: skip
    assert json.loads(found.columns["v"][3]) == {"é": [1e5, None, "\x01"]}
