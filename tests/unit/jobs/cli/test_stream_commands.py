"""`sparkhaven streams list|remove`: what they show, remove and refuse, and that a name can be used anew."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from sparkhaven.readers import open_table
from sparkhaven.store.epochs.files.lock import take_lock
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout, LocationKey, TableName
from tests.support.commands import run, run_json
from tests.support.streams.schema_site import DAY, TABLE, Site

NAME = TableName.parse(TABLE)


def site_with_rows(base: Path, rows: int = 3) -> Site:
    site = Site(base)
    site.stream()
    for number in range(rows):
        site.put({"A": number, "B": "b", "C": 0.5})
    site.ingest()
    return site


def tree(root: Path) -> dict[str, bytes | None]:
    """Every path below a directory, with the content of files."""
    return {str(path.relative_to(root)): path.read_bytes() if path.is_file() else None for path in root.rglob("*")}


def files_of(root: Path) -> list[str]:
    return sorted(path.name for path in (Layout(root).streams(NAME)).glob("*"))


def listed(site: Site) -> dict[str, dict[str, Any]]:
    return {each["stream"]: each for each in site.do("streams", "list", TABLE)["streams"]}


def intact(site: Site) -> None:
    assert [each for each in site.do("verify", "--deep")["findings"] if each["severity"] != "note"] == []


@pytest.mark.slow
def test_a_list_shows_source_epochs_rows_and_last_commit(tmp_path: Path) -> None:
    site = site_with_rows(tmp_path)
    (one,) = site.do("streams", "list")["streams"]
    shown = {key: one[key] for key in ("table", "stream", "feed", "epochs", "rows", "locations", "running", "left")}
    assert shown == {
        "table": TABLE,
        "stream": "s",
        "feed": f"files of {tmp_path / 's'}",
        "epochs": 1,
        "rows": 3,
        "locations": 1,
        "running": None,
        "left": "rows",
    }
    assert one["last_commit"].startswith("20")
    with take_lock(Fs(), Layout(site.root).stream_lock(NAME, "s")):
        assert listed(site)["s"]["running"] == os.getpid()
        text = run(site.root, "streams", "list", TABLE).stdout
    assert f"process {os.getpid()}" in text
    assert " s ago" in text


@pytest.mark.slow
def test_a_stream_with_rows_is_refused_and_nothing_changes(tmp_path: Path) -> None:
    site = site_with_rows(tmp_path)
    refusals = {"rows": ("3 rows of 2026-11-22", "merge"), "merged": ("3 rows of 2026-11-22", "merge")}
    refusals["truncated"] = ("a truncated location", "delete")
    for state, (found, command) in refusals.items():
        if state == "merged":
            site.merge()
        if state == "truncated":
            site.do("validate", TABLE, "--date", DAY)
            site.do("truncate", TABLE, "--date", DAY)
        before = tree(Layout(site.root).intraday(NAME))
        for words in ([], ["--dry-run"]):
            error = site.do("streams", "remove", TABLE, "s", *words, code=2)["error"]
            assert (error["found"], error["expected"][:24]) == (found, "no location of the strea")
            assert error["where"] == str(Layout(site.root).intraday_location(NAME, LocationKey("s", DAY)))
            assert f"sparkhaven {command} {TABLE} --dates {DAY}" in error["hint"]
        assert tree(Layout(site.root).intraday(NAME)) == before
    assert listed(site)["s"]["left"] == "truncated locations"


@pytest.mark.slow
def test_a_running_stream_and_an_unknown_one_are_refused(tmp_path: Path) -> None:
    site = site_with_rows(tmp_path)
    site.night()
    with take_lock(Fs(), Layout(site.root).stream_lock(NAME, "s")):
        for words in ([], ["--dry-run"]):
            error = site.do("streams", "remove", TABLE, "s", *words, code=2)["error"]
            assert error["what"] == f"stream 's' of {TABLE} is running. Nothing was changed"
            assert f"sparkhaven streams remove {TABLE} s" in error["hint"]
    assert site.do("streams", "remove", TABLE, "other", code=2)["error"]["type"] == "TableNotFoundError"
    assert site.do("streams", "remove", "No.Table", "s", code=2)["error"]["type"] == "TableNotFoundError"
    assert site.do("streams", "list", "No.Table", code=2)["error"]["type"] == "TableNotFoundError"
    assert listed(site)["s"]["left"] == "log"


@pytest.mark.slow
def test_the_name_of_a_removed_stream_is_used_anew(tmp_path: Path) -> None:
    site = site_with_rows(tmp_path)
    site.night()
    before = site.rows()
    dry = site.do("streams", "remove", TABLE, "s", "--dry-run")
    assert [Path(path).name for path in dry["files"]] == ["s", "planned.json", "s.log", "s.removals", "s.lock"]
    assert files_of(site.root) == ["s.lock", "s.log", "s.removals"]
    done = site.do("streams", "remove", TABLE, "s")
    assert done == {**dry, "dry_run": False}
    assert files_of(site.root) == ["s.removed"]
    assert listed(site) == {}
    assert site.rows() == before
    intact(site)
    assert site.do("streams", "remove", TABLE, "s", code=2)["error"]["type"] == "TableNotFoundError"
    site.put({"A": 9, "B": "new", "C": 1.0})
    site.ingest()  # from the beginning of its source
    assert [row["A"] for row in site.rows("A")] == [0, 0, 1, 1, 2, 2, 9]
    assert files_of(site.root) == ["s.lock", "s.log", "s.removals"]
    shown = listed(site)["s"]
    assert (shown["epochs"], shown["epoch"], shown["rows"]) == (1, done["epoch"] + 2, 4)
    intact(site)
    site.ingest()
    assert len(site.rows()) == 7
    site.merge("--rewrite")
    site.do("validate", TABLE, "--date", DAY)
    for words in (["truncate"], ["delete", "--grace", "0"]):
        site.do(words[0], TABLE, "--date", DAY, *words[1:])
    site.do("streams", "remove", TABLE, "s")
    assert len(site.rows()) == 7
    intact(site)


@pytest.mark.slow
def test_a_removal_is_a_row_of_the_admin_log_and_keeps_the_quarantine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARKHAVEN_LOGS", "on")
    site = Site(tmp_path)
    path = Path(site.stream())
    path.write_text(path.read_text() + "[bad_rows]\nmax_rows = 5\n")
    site.put({"A": "no number", "B": "b", "C": 1})
    site.ingest()
    assert listed(site)["s"]["epochs"] == 1
    kept = run(site.root, "quarantine", "list", TABLE, "s", "--json").stdout
    assert json.loads(kept.splitlines()[0])
    site.do("streams", "remove", TABLE, "s")
    assert files_of(site.root) == ["s.quarantine", "s.removed"]
    logged = open_table(site.root, "SparkhavenInternal.AdminLog").to_arrow(["Command", "Outcome"]).to_pylist()
    assert logged[-1] == {"Command": "streams remove", "Outcome": "done"}
    site.ingest()
    again = run(site.root, "quarantine", "list", TABLE, "s", "--json").stdout.splitlines()
    assert kept.splitlines()[0] in again
    intact(site)


def test_what_a_killed_start_leaves_is_listed_and_removed(tmp_path: Path) -> None:
    site = Site(tmp_path)
    site.deploy()
    streams = Layout(site.root).streams(NAME)
    before = tree(site.root)
    streams.mkdir(parents=True)
    (streams / "s.lock").write_bytes(b"")
    assert listed(site)["s"]["left"] == "files without a log"
    dry = site.do("streams", "remove", TABLE, "s", "--dry-run")
    assert dry["files"] == [str(streams / "s.lock")]
    site.do("streams", "remove", TABLE, "s")
    assert tree(site.root) == before
    code, value = run_json(site.root, "streams", "list", TABLE)
    assert (code, value) == (0, {"streams": []})
