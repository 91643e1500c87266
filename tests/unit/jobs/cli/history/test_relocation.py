"""`sparkhaven dates move|detach|attach`: what they report, and copies of a root with such dates."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sparkhaven.readers.arrow.opening import open_table
from tests.support.commands import run
from tests.support.streams.dated_site import NEW, OLD, Dated, told
from tests.support.streams.schema_site import TABLE

pytestmark = pytest.mark.slow


def test_moved_dates_are_reported_and_copied_with_the_root(tmp_path: Path) -> None:
    site = Dated.of(tmp_path)
    (tmp_path / "volume").mkdir()
    site.do("partitions", "add", "Test", "archive", "--volume", str(tmp_path / "volume"))
    words = ("dates", "move", TABLE, "--dates", f"{OLD}..{NEW}", "--to", "archive")
    *planned, all_planned = told(site, *words, "--dry-run")
    one, other, all_ = told(site, *words)
    assert [line | {"dry_run": False} for line in planned] == [one, other]
    assert all_planned | {"dry_run": False} == all_
    size = one["bytes"]
    assert (one["rows"], one["from"], one["to"], one["generation"], size > 0) == (2, ["0"], "archive", 2, True)
    assert (all_["dates"], all_["rows"], all_["bytes"]) == (2, 3, size + other["bytes"])
    assert site.shown() == [0, 1, 2]
    assert told(site, *words)[-1]["dates"] == 0
    (status,) = {line["unvalidated"] for line in told(site, "merge", TABLE, "--status")}
    assert status == 0
    shown = run(site.root, "inspect", site.place.merges / OLD / "2.json")
    assert shown.exit_code == 0 and "staysIn" in shown.stdout and "archive" in shown.stdout
    site.do("snapshot", "--out", str(tmp_path / "copy"))
    site.do("mirror", str(site.root), str(tmp_path / "mirror"))
    assert run(tmp_path / "other", "restore", str(tmp_path / "copy")).exit_code == 0
    for root in (site.root, tmp_path / "mirror", tmp_path / "other"):
        assert sorted(open_table(root, TABLE).to_arrow(["A"])["A"].to_pylist()) == [0, 1, 2]
        assert run(root, "verify", "--deep").exit_code == 0
    assert site.do("metadata", "validate", TABLE)
    told(site, "dates", "drop", TABLE, "--dates", OLD)
    (failed, _) = told(site, *words[:4], OLD, *words[5:], code=1)
    assert failed["error"]["found"] == "history that was dropped or detached"
    (wrong,) = told(site, *words[:-1], "nowhere", code=2)
    assert "partitions add Test nowhere --volume DIR" in wrong["error"]["hint"]


def attached(root: Path, out: Path) -> list[dict[str, Any]]:
    found = run(root, "dates", "attach", TABLE, out, "--json")
    assert found.exit_code == 0, found.stdout + found.stderr
    return [json.loads(line) for line in found.stdout.splitlines()]


def test_detached_dates_are_reported_and_come_back_also_in_a_restored_root(tmp_path: Path) -> None:
    site, out = Dated.of(tmp_path), tmp_path / "out"
    out.mkdir()
    words = ("dates", "detach", TABLE, "--dates", f"{OLD}..{NEW}", "--out", out)
    (inside,) = told(site, *words[:-1], site.root / "out", code=2)
    assert inside["error"]["what"] == "the directory belongs to the database"
    *planned, _ = told(site, *words, "--dry-run")
    *done, all_ = told(site, *words)
    assert [line | {"dry_run": False} for line in planned] == done
    assert (all_["dates"], all_["rows"], site.shown()) == (2, 3, [])
    assert [line["rows"] for line in told(site, *words)] == [0, 0, 0]
    assert run(site.root, "verify", "--deep").exit_code == 0
    (status,) = told(site, "merge", TABLE, "--status")
    assert (status["unvalidated"], status["unfinished"]) == (0, 0)
    site.do("snapshot", "--out", str(tmp_path / "copy"))
    assert run(tmp_path / "other", "restore", str(tmp_path / "copy")).exit_code == 0
    for root in (tmp_path / "other", site.root):
        *back, all_ = attached(root, out)
        assert (all_["dates"], all_["rows"], [line["date"] for line in back]) == (2, 3, [OLD, NEW])
        assert sorted(open_table(root, TABLE).to_arrow(["A"])["A"].to_pylist()) == [0, 1, 2]
        assert run(root, "verify", "--deep").exit_code == 0
        assert attached(root, out)[-1]["dates"] == 0
    (none,) = told(site, "dates", "attach", TABLE, tmp_path / "copy", code=2)
    assert none["error"]["what"] == "the directory has no detached date"
