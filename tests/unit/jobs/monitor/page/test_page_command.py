"""The command that writes the page, and what it refuses."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.support.commands import run, run_json
from tests.support.html_tree import parse
from tests.support.tables.small_tables import SmallTable


@pytest.mark.slow
def test_the_command_writes_a_file(small: SmallTable, tmp_path: Path) -> None:
    for log in small.logs.values():
        log.close()
    out = tmp_path / "page.html"
    code, value = run_json(small.root, "page", "NS.T", "--hours", "48", "--out", str(out))
    assert (code, value["out"], value["bytes"], value["tables"]) == (0, str(out), out.stat().st_size, ["NS.T"])
    assert "Epochs of the last 48 hours. 1 table." in parse(out.read_bytes()).one("header").text
    assert sorted(path.name for path in tmp_path.iterdir()) == ["db", "page.html"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--out", "{}/page.html", "--port", "1"], "--out is given with an option of the server"),
        (["--out", "{}/none/page.html"], "no such directory"),
        (["--out", "{}"], "--out names a directory"),
        (["NS.Other", "--out", "{}/page.html"], "NS.Other"),
        (["{}/none.toml", "--out", "{}/page.html"], "no such stream file"),
        (["--hours", "0"], "--hours"),
    ],
)
def test_what_the_command_refuses(small: SmallTable, tmp_path: Path, words: list[str], said: str) -> None:
    found = run(small.root, "page", *(word.format(tmp_path) for word in words), "--json")
    assert found.exit_code == 2 and said in json.loads(found.stdout)["error"]["what"]
    assert not (tmp_path / "page.html").exists()


def test_without_the_library_the_way_to_get_it_is_said(small: SmallTable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    code, value = run_json(small.root, "page", "--port", "0")
    assert code == 2 and "pip install 'sparkhaven[page]'" in value["error"]["hint"]
