"""What ``schema infer`` and ``schema new`` refuse: what is wrong, where, and what to do; nothing is overwritten."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.commands import run, run_json
from tests.support.ingest.inferring import json_file

ROWS = [{"v": 1, "name": "x"}]
COLUMNS = '<Column name="v" dataType="int"/><Column name="name" dataType="String"/>'


def schema(base: Path, columns: str = COLUMNS) -> Path:
    file = base / "Test.Rows.schema"
    file.write_text(
        '<Table namespace="Test" name="Rows" storageType="NestedPartitionedOnDisk">'
        f'<Column name="Date" dataType="String" columnType="Partitioning"/>{columns}</Table>'
    )
    return file


def error(base: Path, *words: str) -> dict[str, Any]:
    code, found = run_json(base, "schema", *words)
    assert code == found["error"]["exit_code"] != 0 and found["error"]["hint"]
    return dict(found["error"])


@pytest.mark.parametrize(
    ("name", "content", "code", "what"),
    [
        ("a.json", b"", 1, "the sample has no rows to infer from"),
        ("a.json", b"\n\n", 1, "the sample has no rows to infer from"),
        ("a.csv", b"", 1, "the sample has no rows to infer from"),
        ("a.csv", b"a,b\n", 1, "the sample has no rows to infer from"),
        ("a.json", b'[\n{"a":1}\n]\n[]\n', 0, ""),
        ("a.json", b"[1]\n[2]\n", 1, "no record of the sample can be read"),
        ("a.json", b"\xff\xfe\n", 1, "no record of the sample can be read"),
        ("a.csv", b'a,b\n1\n"x\n', 1, "no record of the sample can be read"),
        ("a.parquet", b"PAR1 and no more", 1, "feed file is damaged, or not a Parquet file"),
        ("a.json.gz", b'{"a":1}', 1, "feed file is not packed as its name says"),
        ("a.json", b"{}\n", 1, "the rows of the sample have no field that can be stored"),
        ("a.xml", b"<a/>", 2, "the format of the file cannot be recognized by its name"),
    ],
)
def test_samples_that_say_nothing(tmp_path: Path, name: str, content: bytes, code: int, what: str) -> None:
    (tmp_path / name).write_bytes(content)
    found = run(tmp_path, "schema", "infer", str(tmp_path / name), "--table", "A.B")
    assert found.exit_code == code and (what in found.stderr if what else "4 records" not in found.stderr)


def test_sources_that_are_not_there(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert error(tmp_path, "infer", str(tmp_path / "no.json"))["what"] == "no such file to infer a schema from"
    assert "no file" in error(tmp_path, "infer", str(tmp_path / "empty"))["what"]
    assert error(tmp_path, "infer", str(tmp_path / "no.toml"))["what"] == "no such stream file"
    (tmp_path / "bad.toml").write_text('[feed]\ntype = "files"\npaht = "x"\n')
    assert error(tmp_path, "infer", str(tmp_path / "bad.toml"))["what"] == "unknown key 'paht'"
    (tmp_path / "avro.toml").write_text(
        '[feed]\ntype = "kafka"\nbootstrap = "127.0.0.1:1"\ntopics = ["t"]\nformat = "raw"\n'
    )
    assert "messages of format raw" in error(tmp_path, "infer", str(tmp_path / "avro.toml"))["what"]


def test_a_feed_that_gives_no_samples(tmp_path: Path) -> None:
    (tmp_path / "own.toml").write_text('[feed]\ntype = "examples.sqlite_feed:SqliteFeed"\npath = "x.db"\ntable = "t"\n')
    assert error(tmp_path, "infer", str(tmp_path / "own.toml"))["what"] == "a schema cannot be inferred from this feed"


def test_files_that_are_there_stay_unless_force_is_said(tmp_path: Path) -> None:
    source, out = json_file(tmp_path / "rows.json", ROWS), tmp_path / "out"
    out.write_text("mine")
    assert error(tmp_path, "infer", str(source), "--out", str(out))["what"] == "the file is there already"
    assert error(tmp_path, "new", str(schema(tmp_path)), str(source), "--out", str(out))["found"] == "a file"
    assert out.read_text() == "mine"
    assert run(tmp_path, "schema", "infer", str(source), "--out", str(out), "--force", "--dry-run").exit_code == 0
    assert out.read_text() == "mine"
    assert run(tmp_path, "schema", "infer", str(source), "--out", str(out), "--force").exit_code == 0
    assert out.read_text().startswith("<Table")


def test_new_stands_beside_the_schema_and_dry_run_writes_nothing(tmp_path: Path) -> None:
    source, file = json_file(tmp_path / "rows.json", ROWS), schema(tmp_path)
    found = run(tmp_path, "schema", "new", str(file), str(source), "--dry-run")
    assert found.exit_code == 0 and 'schema = "Test.Rows.schema"' in found.stdout
    assert not (tmp_path / "rows.toml").exists()
    assert run(tmp_path, "schema", "new", str(file), str(source)).exit_code == 0
    assert (tmp_path / "rows.toml").read_text() == found.stdout


def test_columns_that_the_sample_does_not_fill(tmp_path: Path) -> None:
    source = json_file(tmp_path / "rows.json", ROWS)
    found = error(tmp_path, "new", str(schema(tmp_path, COLUMNS + '<Column name="vv" dataType="int"/>')), str(source))
    assert found["what"] == "no field of the sample fills column vv" and 'vv = { from = "' in found["hint"]
    found = error(tmp_path, "new", str(schema(tmp_path, COLUMNS.replace('"String"', '"int"'))), str(source))
    assert found["what"] == "column name does not take the values of its field"
    assert (found["expected"], found["found"]) == ("int", "name: x, wrong JSON type (string)")


def test_options_are_checked(tmp_path: Path) -> None:
    source = str(json_file(tmp_path / "rows.json", ROWS))
    assert "no such column" in error(tmp_path, "infer", source, "--grouping", "nam")["what"]
    assert error(tmp_path, "infer", source, "--zone", "Mars/Phobos")["what"] == "unknown time zone"
    assert error(tmp_path, "infer", source, "--table", "NoDot")["exit_code"] == 2
    assert error(tmp_path, "infer", source, "--key-formula", "${nonsense}")["exit_code"] == 2
    assert error(tmp_path, "new", str(schema(tmp_path)), source, "--name", "../x")["exit_code"] == 2
