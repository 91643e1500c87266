"""The last failure of a stream is seen by whoever looks later, and gone with its next success."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sparkhaven.jobs.monitor.page.collect import FactCollector, PageScope
from sparkhaven.store.epochs.files.lock import take_lock
from sparkhaven.store.epochs.files.stream_notes import StreamFailure, encode_failure, read_failure
from sparkhaven.store.errors import CorruptFileError
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout, TableName
from sparkhaven.store.places import StreamPlace
from tests.support.commands import run, run_json
from tests.support.streams.schema_site import TABLE, Site, schema

GOOD = {"A": 1, "B": "b", "C": 1.5}
FILES = 'type = "files"\npath = "s"\n'
KAFKA = 'type = "kafka"\nbootstrap = "127.0.0.1:9"\ntopics = ["t"]\n'
NOBODY = 65534


@pytest.fixture
def site(tmp_path: Path) -> Site:
    """A stream with one epoch."""
    made = Site(tmp_path)
    made.stream()
    made.put(GOOD)
    made.ingest()
    return made


def place(site: Site, stream: str = "s") -> StreamPlace:
    return StreamPlace(Fs(), Layout(site.root), TableName.parse(TABLE), stream)


def findings(site: Site, check: str = "failures") -> list[dict[str, str]]:
    """What doctor says is wrong; its exit code says the same."""
    code, told = run_json(site.root, "doctor")
    assert code == (1 if told["wrong"] else 0)
    return [finding for finding in told["findings"] if finding["check"] == check and finding["state"] == "wrong"]


def listed(site: Site) -> dict[str, Any]:
    return {each["stream"]: each["failure"] for each in site.do("streams", "list", TABLE)["streams"]}


def bad_rows(site: Site) -> None:
    with (site.base / "s.toml").open("a") as file:
        file.write("[bad_rows]\nmax_rows = 0\n")
    (site.base / "s" / "bad.json").write_text('{"A": "secret \\u001b[31m"}\n')


def changed_file(site: Site) -> None:
    path = site.base / "s" / "001.json"
    path.write_text(path.read_text() * 2)


def other_type(site: Site) -> None:
    site.write(schema({"A": "int", "B": "String", "C": "double"}))


FAILURES: dict[str, tuple[Callable[[Site], None], int, str, str]] = {
    "budget": (bad_rows, 1, "ErrorBudgetExceeded", "more bad rows than the budget allows"),
    "changed file": (changed_file, 1, "PositionGapError", "changed"),
    "another type": (other_type, 2, "Schema", "schema"),
}


@pytest.mark.parametrize("kind", FAILURES)
def test_a_failed_stream_is_seen_until_it_succeeds(site: Site, kind: str) -> None:
    before = {path.name for path in (site.base / "s").iterdir()}
    texts = [(path, path.read_text()) for path in (site.file, site.base / "s.toml")]
    assert findings(site) == [] and listed(site) == {"s": None}
    change, code, error, what = FAILURES[kind]
    change(site)
    site.put(GOOD)
    site.ingest(code=code)
    (found,) = findings(site)
    assert f"{TABLE} s failed" in found["what"] and what in found["what"] and found["next"]
    failure = listed(site)["s"]
    assert failure["error"].startswith(error) and failure["exit_code"] == code and what in failure["what"]
    assert failure["file"] == str(site.base / "s.toml")
    shown = run(site.root, "streams", "list", TABLE).stdout
    assert failure["error"] in shown and "\x1b[31m" not in shown
    for path, text in texts:
        path.write_text(text)
    for path in (site.base / "s").iterdir():
        if path.name not in before or kind == "changed file":
            path.unlink()
    site.ingest()
    assert findings(site) == [] and listed(site) == {"s": None} and not place(site).stream_failure.exists()


def test_a_start_that_another_writer_keeps_out_is_seen(site: Site) -> None:
    with take_lock(Fs(), place(site).stream_lock):
        site.ingest(code=3)
    (found,) = findings(site)
    assert "another process" in found["what"]


def test_a_stream_that_never_had_an_epoch_is_seen_too(site: Site) -> None:
    site.stream("new")
    (site.base / "new" / "one.json").write_text('{"A": "x"}\n' * 2000)
    site.ingest(name="new", code=1)
    (found,) = findings(site)
    assert f"{TABLE} new failed" in found["what"]
    assert listed(site).keys() == {"new", "s"} and run(site.root, "verify").exit_code == 0
    assert "file of no stream" not in run(site.root, "verify").output
    site.do("streams", "remove", TABLE, "new")
    assert findings(site) == [] and listed(site).keys() == {"s"}


def test_the_page_shows_it_without_values(site: Site) -> None:
    bad_rows(site)
    site.ingest(code=1)
    facts = FactCollector(Fs(), Layout(site.root), PageScope(), lambda: 2e9, "here", {}).collect()
    (table,) = facts.tables
    (error,) = table.errors
    assert error.where == f"{TABLE} s" and "more bad rows" in error.what and "secret" not in repr(facts)


def test_doctor_asks_the_broker_of_a_stream_file(site: Site) -> None:
    file = site.base / "away.toml"
    file.write_text((site.base / "s.toml").read_text().replace(FILES, KAFKA))
    code, told = run_json(site.root, "doctor", str(file))
    (found,) = [finding for finding in told["findings"] if finding["state"] == "wrong"]
    assert (code, found["check"]) == (1, "lag") and "127.0.0.1:9" in found["what"]


def test_doctor_says_what_its_user_may_not_write() -> None:
    with tempfile.TemporaryDirectory() as directory:  # not pytest's, which no other user may enter
        base = Path(directory)
        base.chmod(0o755)
        site = Site(base)
        site.stream()
        site.put(GOOD)
        site.ingest()
        assert findings(site, "permissions") == []
        site.root.chmod(0o555)
        user = os.geteuid()
        os.seteuid(NOBODY if user == 0 else user)  # root may write everything
        try:
            asked, (found,) = os.geteuid(), findings(site, "permissions")
        finally:
            os.seteuid(user)
            site.root.chmod(0o755)
        assert f"user {asked} may not write {site.root}" in found["what"] and "as the owner" in found["next"]


@pytest.mark.parametrize("data", [b"", b"{}", b"\xff" * 100, b"[" * 50_000, b"x" * 70_000, b'{"time": 1e999}'])
def test_a_damaged_note_is_a_note(site: Site, data: bytes) -> None:
    place(site).stream_failure.write_bytes(data)
    with pytest.raises(CorruptFileError, match="last failure is damaged"):
        read_failure(place(site))
    code, told = run_json(site.root, "doctor")
    (found,) = [finding for finding in told["findings"] if "last failure is damaged" in finding["what"]]
    assert (code, found["state"]) == (0, "note") and run(site.root, "verify").exit_code == 0
    inspected = run(site.root, "inspect", str(place(site).stream_failure))
    assert inspected.exit_code == 0 and "last failure is damaged" in inspected.stdout + inspected.stderr
    site.put(GOOD)
    site.ingest()
    assert not place(site).stream_failure.exists()


def test_texts_of_a_note_are_short_and_plain(site: Site) -> None:
    error = CorruptFileError("a\x1b[31m\nb\u202ec", where="x" * 5000, found="\ud800\0")
    failure = StreamFailure.of(error, 7)
    assert failure.what == "a\\x1b[31m / b\\u202ec" and failure.found == "\\ud800\\x00"
    assert failure.where is not None and len(failure.where) == 1000
    data = encode_failure(failure, TABLE, "s")
    place(site).stream_failure.write_bytes(data)
    assert read_failure(place(site)) == failure and len(data) < 4000
    other = json.loads(data) | {"stream": "t"}
    place(site).stream_failure.write_text(json.dumps(other))
    with pytest.raises(CorruptFileError, match="damaged"):
        read_failure(place(site))
