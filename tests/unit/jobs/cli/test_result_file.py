"""``--result FILE``: the results alone, whatever is printed, and also where the command line itself is wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sparkhaven.jobs.cli.context import open_result_file
from tests.support.commands import run
from tests.support.tables.small_tables import SmallTable


def written(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.parametrize("form", [("--result", "{}"), ("--result={}",)])
def test_the_file_has_what_json_prints(tmp_path: Path, form: tuple[str, ...]) -> None:
    SmallTable(tmp_path / "db").add("a", "2026-11-20", {"Size": [1]})
    path = tmp_path / "result.json"
    path.write_text("of another run\n")
    named = tuple(word.format(path) for word in form)
    as_text = run(tmp_path / "db", "tables", *named)
    results = written(path)
    as_json = run(tmp_path / "db", "tables", "--json")
    assert (as_text.exit_code, as_json.exit_code) == (0, 0)
    assert results == [json.loads(as_json.stdout)] and "{" not in as_text.stdout
    assert sorted(tmp_path.iterdir()) == [tmp_path / "db", path]


@pytest.mark.parametrize(
    ("words", "kind"), [(("tables", "--no-such"), "NoSuchOption"), (("verify", "NS.T"), "TableNotFoundError")]
)
def test_an_error_is_a_result_too(tmp_path: Path, words: tuple[str, ...], kind: str) -> None:
    done = run(tmp_path, *words, "--result", str(tmp_path / "result.json"))
    (result,) = written(tmp_path / "result.json")
    assert (done.exit_code, result["error"]["exit_code"], result["error"]["type"]) == (2, 2, kind)


def test_a_file_that_cannot_be_written_ends_the_command_before_it_begins(tmp_path: Path) -> None:
    done = run(tmp_path, "tables", "--result", str(tmp_path / "none" / "result.json"))
    assert done.exit_code == 2 and f"make {tmp_path / 'none'}" in done.stderr and not done.stdout


def test_the_file_is_empty_until_the_command_has_ended(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    path.write_text("of another run\n")
    opened = open_result_file(["merge", "--result", str(path)])
    assert opened is not None and path.read_bytes() == b""
    opened.write(['{"a": 1}', '{"b": 2}'])
    assert path.read_bytes() == b'{"a": 1}\n{"b": 2}\n'


@pytest.mark.parametrize("words", [(), ("merge", "--results", "x"), ("merge", "--result")])
def test_without_a_name_there_is_no_file(words: tuple[str, ...]) -> None:
    assert open_result_file(words) is None
