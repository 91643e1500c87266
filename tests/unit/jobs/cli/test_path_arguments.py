"""Every command takes ``file:`` URLs where it takes a path, and refuses other schemes before it does anything."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, get_args

import pytest
import typer
from typer.testing import CliRunner

import sparkhaven
from sparkhaven import testing
from sparkhaven.jobs.cli.main import app
from sparkhaven.jobs.settings.frame_options import frame_options
from sparkhaven.jobs.settings.source_options import write_options
from sparkhaven.readers.spark.options import read_options
from sparkhaven.store.errors import SettingsError
from sparkhaven.store.io.local_path import local_path
from tests.support.commands import run, run_json
from tests.support.ingest.stream_files import RIGHT, refused, write_stream

COMMANDS: Any = typer.main.get_command(app)
URL = "s3://bucket/db"
FRAME: dict[str, Any] = {
    "internal": {"fixed": "0"}, "value": {"fixed": "d"}, "schema": None, "positions": None, "durability": "none",
    "ignore": (), "bounds": None, "bad_rows": {}, "keep_epochs": 1, "allow_gap": False, "adopt": False,
}  # fmt: skip


def parameters(of: Any, before: str = "") -> list[tuple[str, Any]]:
    """Every parameter of every command, with its name."""
    found = [(f"{before} {each.name}", each) for each in of.params]
    for name, command in getattr(of, "commands", {}).items():
        found += parameters(command, f"{before} {name}".strip())
    return found


def takes_paths(annotation: Any) -> bool:
    return annotation is Path or any(takes_paths(part) for part in get_args(annotation))


def test_every_path_of_the_command_line_has_the_one_parser() -> None:
    paths = {name: each for name, each in parameters(COMMANDS) if takes_paths(each.type_descriptor.annotation)}
    assert len(paths) > 15
    assert [n for n, each in paths.items() if each.type_descriptor.parameter_info.parser is not local_path] == []


@pytest.mark.parametrize(
    "words",
    [
        ["read", "N.T", "--out", URL],
        ["sql", "select 1", "--out", URL],
        ["export", "N.T", "--layout", "flat", "--out", URL],
        ["import", "N.T", "--from", URL],
        ["partitions", "add", "N", "0", "--volume", URL],
        ["ingest", URL],
        ["inspect", URL],
        ["schema", "check", URL],
        ["schema", "show", f"{URL}/x.schema"],
        ["schema", "infer", f"{URL}/x.csv"],
        ["schema", "infer", f"{URL}/x.toml"],
        ["schema", "infer", "x.csv", "--out", URL],
        ["schema", "new", URL, "x.csv"],
        ["checkpoint", "repair", URL],
        ["quarantine", "requeue", "N.T", "s", URL],
        ["quarantine", "requeue", "N.T", "s", "--from", URL],
        ["page", "--out", URL],
        ["page", f"{URL}.toml"],
        ["stats", f"{URL}.toml"],
        ["doctor", f"{URL}.toml"],
    ],
    ids=" ".join,
)
def test_other_schemes_make_nothing(words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "db").mkdir()
    (tmp_path / "x.csv").write_text("a\n1\n")
    code, value = run_json(tmp_path / "db", *words)
    assert (code, value["error"]["what"]) == (2, "the path has the unsupported scheme s3")
    assert "mount it" in value["error"]["hint"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["db", "x.csv"]


def test_a_root_by_option_and_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    found = CliRunner().invoke(app, ["tables", "--json"], env={"SPARKHAVEN_ROOT": "hdfs://name/db"})
    assert (
        found.exit_code == 2 and json.loads(found.stdout)["error"]["what"] == "the path has the unsupported scheme hdfs"
    )
    found = CliRunner().invoke(app, ["tables", "--root", URL], env={"SPARKHAVEN_ROOT": ""})
    assert found.exit_code == 2 and "the path has the unsupported scheme s3" in found.stderr
    found = CliRunner().invoke(app, ["--root", URL, "tables"], env={"SPARKHAVEN_ROOT": ""})
    assert found.exit_code == 2 and "the path has the unsupported scheme s3" in found.stderr
    testing.make_table(f"file://{tmp_path}/a%20b", "N.T", {"X": [1]})
    assert (tmp_path / "a b" / "Schemas" / "N.T.schema").exists()
    code, value = run_json(Path(f"{tmp_path}/a b"), "tables")
    for root in (f"file://{tmp_path}/a%20b", f"file:{tmp_path}/a b"):
        found = CliRunner().invoke(app, ["--root", root, "tables", "--json"])
        assert (found.exit_code, json.loads(found.stdout)) == (code, value)
    assert run(tmp_path / "a b", "read", "N.T", "--out", f"file://{tmp_path}/o%25.csv").exit_code == 0
    assert (tmp_path / "o%.csv").exists()


def test_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    testing.make_table(tmp_path / "db", "N.T", {"X": [1]})
    assert sparkhaven.open_table(f"file://{tmp_path}/db", "N.T").to_arrow()["X"].to_pylist() == [1]
    assert sparkhaven.sql(f"file://{tmp_path}/db", "select X from N.T")["X"].to_pylist() == [1]
    options = {"path": "N.T", "stream": "s", "internal": "X", "value": "Y"}
    calls = [
        lambda: sparkhaven.open_table(URL, "N.T"),
        lambda: sparkhaven.open_table(Path(URL), "N.T"),
        lambda: sparkhaven.sql(URL, "select X from N.T"),
        lambda: testing.make_table(URL, "N.T", {"X": [1]}),
        lambda: testing.make_table(tmp_path / "db", "N.U", {"X": [1]}, schema=URL),
        lambda: read_options({"root": URL, "path": "N.T"}, {}),
        lambda: read_options({"path": "N.T"}, {"SPARKHAVEN_ROOT": URL}),
        lambda: write_options({"root": URL, **options}, {}, streaming=False),
        lambda: write_options({"root": "/db", "schema": URL, **options}, {}, streaming=False),
        lambda: frame_options(URL, "N.T", "s", **FRAME),
        lambda: frame_options("/db", "N.T", "s", **{**FRAME, "schema": Path(URL)}),
        lambda: frame_options("/db", "N.T", "s", **{**FRAME, "bad_rows": {"quarantine": URL}}),
    ]
    for call in calls:
        with pytest.raises(SettingsError) as caught:
            call()
        assert "s3" in str(caught.value) and "mount it" in str(caught.value)
    assert read_options({"root": "file:///db", "path": "N.T"}, {}).root == Path("/db")
    assert write_options({"root": "file:///db", **options}, {}, streaming=False).frame.root == Path("/db")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["db"]


@pytest.mark.parametrize(
    "change",
    [
        ('"feed/*.json"', f'"{URL}"'),
        ('"../schemas/Nyc13.Flight.schema"', f'"{URL}"'),
        ("max_rows = 0", f'max_rows = 0\nquarantine = "{URL}"'),
        ('type = "files"\npath = "feed/*.json"\nformat = "json"', f'type = "delta"\npath = "{URL}"'),
    ],
)
def test_stream_files(change: tuple[str, str]) -> None:
    error = refused(change)
    assert "expected a path of this machine, or file:///PATH, found scheme s3. To do: mount it" in error.what
    assert RIGHT.count("://") == 0


def test_a_feed_of_a_file_url(tmp_path: Path) -> None:
    file = write_stream(tmp_path)
    text = file.read_text()
    assert str(tmp_path / "feed") in text
    file.write_text(text.replace(str(tmp_path / "feed"), f"file://{tmp_path}/feed"))
    code, value = run_json(tmp_path / "db", "ingest", str(file), "--dry-run")
    assert (code, value["waiting_files"]) == (0, 1)
