"""The note of a removed stream, sound or damaged: what checks and repairs say of it, and that each damage is mended."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sparkhaven.store.epochs.files.stream_notes import RemovedStream, encode_removed
from sparkhaven.store.layout import Layout, TableName
from tests.support.commands import run, run_json
from tests.support.streams.schema_site import DAY, TABLE, Site

NAME = TableName.parse(TABLE)
MISSING = "the commit log of stream 's' is missing"
DAMAGED = "the note of a removed stream is damaged"
SEVERE = "error", "warning"


def removed_twice(base: Path) -> tuple[Site, Path, bytes]:
    """A table whose stream ``s`` was removed twice, beside a stream ``t``; the note, and that of the first time."""
    site = Site(base)
    for name in ("s", "t"):
        site.stream(name)
        site.put({"A": 1, "B": "b", "C": 0.5}, name)
    site.ingest(name="t")
    notes = []
    for words in ([], ["--rewrite"]):
        site.ingest()
        site.merge(*words)
        site.do("validate", TABLE, "--date", DAY)
        site.do("truncate", TABLE, "--date", DAY, "--source", "s")
        site.do("delete", TABLE, "--date", DAY, "--source", "s", "--grace", "0")
        site.do("streams", "remove", TABLE, "s")
        notes.append((note := Layout(site.root).stream_removed(NAME, "s")).read_bytes())
    return site, note, notes[0]


def flipped(data: bytes) -> bytes:
    return data.replace(b'"epoch": ', b'"epoch": 9')


def others(data: bytes) -> bytes:
    """The note of another stream, whose checksum is right."""
    value = json.loads(data)
    return encode_removed(RemovedStream(value["epoch"], value["generation"], value["time"]), NAME, "u")


def tree(root: Path) -> dict[str, bytes | None]:
    """What is there, but for the log tables."""
    paths = [path for path in root.rglob("*") if "SparkhavenInternal" not in str(path)]
    return {str(path.relative_to(root)): path.read_bytes() if path.is_file() else None for path in paths}


def findings(site: Site, code: int) -> list[dict[str, Any]]:
    found = site.do("verify", "--deep", code=code)["findings"]
    return [each for each in found if each["severity"] in SEVERE]


@pytest.mark.slow
def test_a_sound_note_is_shown_and_nothing_is_recovered(tmp_path: Path) -> None:
    site, note, _ = removed_twice(tmp_path)
    assert findings(site, 0) == []
    shown = site.do("inspect", str(note))
    assert (shown["kind"], shown["sound"]) == ("note of a removed stream", True)
    assert shown["facts"]["stream"] == "s" and shown["facts"]["epoch"] == json.loads(note.read_bytes())["epoch"]
    before = tree(site.root)
    for stream in ("s", "typo"):
        for words in ([], ["--dry-run"], ["--accept-positions"]):
            error = site.do("recover", TABLE, stream, "--from-locations", *words, code=2)["error"]
            assert error["type"] == "TableNotFoundError", error
        assert site.do("recover", TABLE, stream, code=2)["error"]["type"] == "TableNotFoundError"
    assert tree(site.root) == before
    site.do("recover")
    assert note.read_bytes() == before[str(note.relative_to(site.root))]


@pytest.mark.slow
def test_the_quarantine_of_a_removed_stream_is_listed_copied_and_dropped(tmp_path: Path) -> None:
    site = Site(tmp_path)
    site.stream("s")
    site.put({"A": 1, "B": "b", "C": 0.5})
    site.put({"A": "bad", "B": "b"})
    site.ingest()
    site.night()
    site.do("streams", "remove", TABLE, "s")
    site.do("snapshot", "--out", str(tmp_path / "copy"))
    run(site.root, "mirror", site.root, tmp_path / "mirror")
    assert run(tmp_path / "restored", "restore", tmp_path / "copy").exit_code == 0
    for root in (site.root, *(tmp_path / name for name in ("copy", "mirror", "restored"))):
        (row,) = run(root, "quarantine", "list", TABLE, "s", "--json").stdout.splitlines()
        assert json.loads(row)["value"] == '"bad"'
        assert run(root, "verify", "--deep").exit_code == 0
    assert site.do("quarantine", "drop", TABLE, "s", "--all", "--dry-run")["dropped"] == 1
    assert site.do("quarantine", "drop", TABLE, "s", "--all")["dropped"] == 1
    assert run(site.root, "quarantine", "list", TABLE, "s", "--json").stdout == ""
    assert site.do("quarantine", "requeue", TABLE, "s", code=2)["error"]["type"] == "TableNotFoundError"
    assert site.do("quarantine", "list", TABLE, "typo", code=2)["error"]["type"] == "TableNotFoundError"


@pytest.mark.slow
@pytest.mark.parametrize("damage", ["lost", "older", "flipped", "cut", "empty", "another stream's"])
def test_a_damaged_note_is_named_everywhere_and_can_be_written_again(tmp_path: Path, damage: str) -> None:
    site, note, older = removed_twice(tmp_path)
    data, rows = note.read_bytes(), site.rows()
    change: dict[str, bytes] = {
        "older": older,
        "flipped": flipped(data),
        "cut": data[:40],
        "empty": b"",
        "another stream's": others(data),
    }
    note.unlink()
    if damage != "lost":
        note.write_bytes(change[damage])
    what = MISSING if damage in ("lost", "older") else DAMAGED
    where = Layout(site.root).stream_log(NAME, "s") if what == MISSING else note

    (found,) = findings(site, 1)
    assert what in found["what"] and found["path"] == str(where), found
    assert f"recover {TABLE} s --from-locations" in found["hint"]
    assert what in run(site.root, "doctor").stdout
    if damage != "lost":
        shown = run_json(site.root, "inspect", str(note))[1]
        assert shown["sound"] == (damage == "older"), shown
    before = tree(site.root)
    assert what in site.ingest(code=1)
    assert {path: data for path, data in tree(site.root).items() if not path.endswith(".failure")} == before
    code, value = run_json(site.root, "recover")
    assert code == 1 and what in json.dumps(value)
    assert [each["stream"] for each in value["streams"] if each["clean"]] == ["t"], value
    before = tree(site.root)
    assert site.do("recover", TABLE, "s", "--from-locations", "--dry-run")["rebuilt"]["rows"] == 0
    assert tree(site.root) == before
    site.do("recover", TABLE, "s", "--from-locations")
    site.do("streams", "remove", TABLE, "s")
    assert findings(site, 0) == []
    assert json.loads(note.read_bytes())["epoch"] > json.loads(data)["epoch"]
    assert site.rows() == rows
    site.ingest()
    assert len(site.rows()) == len(rows) + 1
    assert findings(site, 0) == []


@pytest.mark.slow
def test_files_that_a_removal_left_are_listed_beside_a_damaged_note(tmp_path: Path) -> None:
    site, note, _ = removed_twice(tmp_path)
    note.write_bytes(b"")
    note.with_suffix(".lock").write_bytes(b"")
    left = {each["stream"]: each["left"] for each in site.do("streams", "list", TABLE)["streams"]}
    assert left == {"s": "unfinished removal", "t": "rows"}
    error = site.do("streams", "remove", TABLE, "s", code=1)["error"]
    assert error["what"] == DAMAGED and f"recover {TABLE} s --from-locations" in error["hint"]
    site.do("recover", TABLE, "s", "--from-locations")
    site.do("streams", "remove", TABLE, "s")
    assert findings(site, 0) == []
