"""Options that every command has are taken before it, after it and between its words."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.command_tree import commands, run
from tests.support.tables.small_tables import SmallTable


def spread(words: tuple[str, ...], asked: tuple[str, ...]) -> list[tuple[str, ...]]:
    """The words of a command with options before, between and after them."""
    return [(*words[:count], *asked, *words[count:]) for count in range(len(words) + 1)]


@pytest.mark.parametrize("words", commands(), ids=" ".join)
def test_json_is_taken_before_and_after_every_command(words: tuple[str, ...]) -> None:
    for line in spread(words, ("--json",)):
        found = run(*line, "--no-such-option")
        assert found.exit_code == 2, line
        assert json.loads(found.stdout)["error"]["what"] == "No such option: --no-such-option", line


@pytest.mark.slow
@pytest.mark.parametrize(
    "asked", [("-v",), ("--verbose",), ("--json",), ("--root", "/no/such"), ("--root=/no/such",), ("--result", "r")]
)
def test_shared_options_are_taken_in_every_place(
    asked: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for words in commands():
        for line in spread(words, asked):
            assert run(*line, "--help").exit_code == 0, line
            assert run(*line, "-h").exit_code == 0, line


@pytest.mark.slow
def test_shared_options_mean_the_same_in_every_place(tmp_path: Path) -> None:
    SmallTable(tmp_path).add("a", "2026-11-20", {"Size": [1]})
    other = ("--root", str(tmp_path / "other"))
    for words in (("tables",), ("epochs", "list", "NS.T", "s"), ("schema", "show", "NS.T")):
        whole = run("--root", str(tmp_path), *words, "--json")
        assert whole.exit_code == 0
        for line in spread(words, ("--root", str(tmp_path), "--json", "-v")):
            found = run(*line)
            assert (found.exit_code, found.stdout) == (0, whole.stdout), line
        assert run(*other, *words, "--root", str(tmp_path), "--json").stdout == whole.stdout
    assert "SELECT" in run("sql", "-h").stdout and "sql" in run("-h").stdout


@pytest.mark.slow
def test_verbose_before_a_command_is_the_same_as_after_it(tmp_path: Path) -> None:
    small = SmallTable(tmp_path)
    for day in range(1, 26):
        small.add("a", f"2026-11-{day:02}", {"Size": [1]})
    plain, *asked = (run("--root", str(tmp_path), *line).stdout for line in (("stats",), *spread(("stats",), ("-v",))))
    assert "2026-11-07" not in plain
    assert all("2026-11-07" in found for found in asked)


@pytest.mark.slow
def test_a_command_below_a_group_is_logged_with_options_between(tmp_path: Path) -> None:
    small = SmallTable(tmp_path)
    small.add("a", "2026-11-20", {"Size": [1]})
    small.log().close()
    words = ("--logs", "epochs", "--root", str(tmp_path), "--json", "rollback", "NS.T", "s", "--to", "0")
    assert run(*words).exit_code == 0
    assert json.loads(run("--root", str(tmp_path), "tables", "--all", "--json").stdout)["tables"][1:] != []
