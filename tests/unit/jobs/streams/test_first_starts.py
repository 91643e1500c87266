"""A stream that never committed leaves nothing behind but a note, whatever kept it from its first epoch."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from sparkhaven.ingest.feeds.base import Waiting
from sparkhaven.ingest.feeds.files.feed import FilesFeed
from sparkhaven.store.epochs.files.lock import take_lock
from sparkhaven.store.epochs.files.stream_notes import RemovedStream, read_removed, write_removed
from sparkhaven.store.errors import RetryableFeedError
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout, TableName
from sparkhaven.store.places import StreamPlace
from tests.support.commands import run
from tests.support.places import REPOSITORY
from tests.support.streams.schema_site import TABLE, Site, schema

NAME = TableName.parse(TABLE)
Change = Callable[[Site, Path], None]


def put(text: str, name: str = "one.json") -> Change:
    def change(site: Site, file: Path) -> None:
        (site.base / "new" / name).write_text(text)

    return change


def replaced(old: str, new: str, text: str = '{"A": 1}\n') -> Change:
    def change(site: Site, file: Path) -> None:
        assert old in file.read_text()
        file.write_text(file.read_text().replace(old, new))
        put(text)(site, file)

    return change


def other_columns(site: Site, file: Path) -> None:
    path = site.base / "older.schema"
    path.write_text(schema({"A": "long"}))
    file.write_text(file.read_text().replace(str(site.file), str(path)))


def feed_of_no_rows(site: Site, file: Path) -> None:
    """A feed of one's own, which does not tell that nothing waits: the stream is opened, and ends without an epoch."""
    sqlite3.connect(site.base / "feed.db").executescript("CREATE TABLE events (id INTEGER PRIMARY KEY, A INTEGER)")
    head, _, tail = file.read_text().partition("[feed]")
    _, _, tail = tail.partition("[partition]")
    feed = f'type = "examples.sqlite_feed:SqliteFeed"\npath = "{site.base}/feed.db"\ntable = "events"\n'
    file.write_text(f"{head}[feed]\n{feed}[partition]{tail}")


KAFKA = 'type = "kafka"\nbootstrap = "127.0.0.1:9"\ntopics = ["t"]\nformat = "json"\n'
PATH = 'type = "files"\npath = "new"\nformat = "json"\n'
NONE = "[partition]", "[bad_rows]\nmax_rows = 0\n[partition]"
BEFORE: dict[str, tuple[Change, int]] = {  # what comes to light before a stream is created, and its exit code
    "no TOML": (replaced("[feed]", "[feed"), 2),
    "unknown key": (replaced("[feed]", "[feed]\nformatt = 1"), 2),
    "unknown feed": (replaced('"files"', '"flies"'), 2),
    "no such directory": (replaced('path = "new"', 'path = "nowhere"'), 2),
    "no such schema": (replaced("Test.Event.schema", "No.schema"), 2),
    "wrong partition": (replaced('fixed = "2026-11-22"', 'meta = "nothing"'), 2),
    "Kafka is away": (replaced(PATH, KAFKA), 3),
    "no files": (lambda site, file: None, 0),
    "only files that are passed over": (put('{"A": 1}\n', "_hidden.json"), 0),
}
UNSAID: dict[str, tuple[Change, int]] = {"a feed of one's own that is empty": (feed_of_no_rows, 0)}
IN_BATCH: dict[str, tuple[Change, int]] = {  # what only the first batch shows
    "too many bad rows": (put('{"A": "x"}\n' * 2000), 1),
    "no bad row is allowed": (replaced(*NONE, '{"A": "x"}\n'), 1),
    "a torn file": (replaced('format = "json"', 'format = "parquet"', "PAR1"), 1),
    "good rows before a bad one": (replaced(*NONE, '{"A": 1}\n{"A": "x"}\n'), 1),
    "a location of another stream": (replaced('fixed = "new"', 'fixed = "s"'), 2),
}


def tree(root: Path) -> dict[str, bytes | None]:
    """All files and directories, without notes of failures, and directories that have nothing else."""
    return {
        str(path.relative_to(root)): path.read_bytes() if path.is_file() else None
        for path in root.rglob("*")
        if path.suffix != ".failure"
        and (not noted(path) or any(below.is_file() and below.suffix != ".failure" for below in path.rglob("*")))
    }


def noted(root: Path) -> list[str]:
    """The streams with a note of a failure."""
    return sorted(path.stem for path in root.rglob("*.failure"))


def start(site: Site, change: Change, *words: str) -> int:
    file = Path(site.stream("new"))
    change(site, file)
    return run(site.root, "ingest", str(file), "--once", "--local", "--wait", "0.3 s", *words).exit_code


@pytest.mark.slow
@pytest.mark.parametrize("kind", [*BEFORE, *UNSAID, *IN_BATCH])
def test_a_first_start_that_fails_or_ingests_nothing_leaves_the_root_as_it_was(tmp_path: Path, kind: str) -> None:
    change, code = (BEFORE | UNSAID | IN_BATCH)[kind]
    (tmp_path / "fresh").mkdir()
    fresh = Site(tmp_path / "fresh")
    if kind != "a location of another stream":
        assert start(fresh, change) == code
        assert {path.split("/")[0] for path in tree(fresh.root)} <= {"Schemas"}
        assert kind not in BEFORE or not fresh.root.exists()
        assert noted(fresh.root) == (["new"] if kind in IN_BATCH else [])
    (tmp_path / "used").mkdir()
    used = Site(tmp_path / "used")
    used.stream()
    used.put({"A": 1, "B": "b", "C": 1.5})
    used.ingest()
    before = tree(used.root)
    assert start(used, change) == code
    assert tree(used.root) == before
    assert noted(used.root) == (["new"] if code not in (0, 2) else [])  # a wrong file is of no stream yet
    assert [each["stream"] for each in used.do("streams", "list")["streams"]] == [*noted(used.root), "s"]


class Unanswered:
    """A server that has not been asked for anything yet."""

    def check(self) -> None:
        pass

    def ends(self, known: object) -> dict[str, int]:
        return {}


@pytest.mark.parametrize("words", [(), ("--local",), ("--wait", "0.4 s"), ("--wait", "1 min", "--local")])
@pytest.mark.parametrize("begun", [False, True])
def test_a_run_once_says_how_long_it_waited_for_its_source(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], begun: bool
) -> None:
    site, asked = Site(tmp_path), list[float]()
    file = site.stream()
    site.put({"A": 1, "B": "b", "C": 1.5})
    if begun:
        site.ingest()

    def unanswered(self: FilesFeed, fs: Fs, state: object, patience: float) -> Waiting:
        asked.append(patience)
        raise RetryableFeedError("the broker cannot be read", hint="check that it runs")

    monkeypatch.setattr(FilesFeed, "waiting", unanswered)
    monkeypatch.setattr(FilesFeed, "remote", lambda self: Unanswered())
    found = run(site.root, "ingest", str(file), "--once", *words)
    seconds = {"0.4 s": 0.4, "1 min": 60.0}.get(words[1] if len(words) > 1 else "", 5.0)
    assert (found.exit_code, asked) == (3, [seconds])
    assert f"check that it runs. It had {seconds:g} s to answer: `--wait` gives it more" in found.stderr


@pytest.mark.slow
def test_options_locks_and_schemas_that_are_refused_leave_the_root_as_it_was(tmp_path: Path) -> None:
    site = Site(tmp_path)
    site.stream()
    site.put({"A": 1, "B": "b", "C": 1.5})
    site.ingest()
    before = tree(site.root)
    good = put('{"A": 1}\n')
    assert start(site, good, "--memory", "1x") == 2
    assert start(site, good, "--wait", "soon") == 2
    assert run(site.root, "ingest", str(site.base / "s.toml"), "--wait", "1 s").exit_code == 2  # without --once
    assert start(site, good, "--workers", "3") == 2
    assert start(site, other_columns) == 2
    (site.base / "new" / "one.json").unlink()
    assert start(site, other_columns) == 2  # also without input
    with take_lock(Fs(), Layout(site.root).stream_lock(NAME, "s")):
        assert run(site.root, "ingest", str(site.base / "s.toml"), "--once", "--local").exit_code == 3
    assert tree(site.root) == before and noted(site.root) == ["s"]


@pytest.mark.slow
def test_a_start_continues_or_removes_only_what_it_has_created(tmp_path: Path) -> None:
    site = Site(tmp_path)
    bad = put('{"A": "x"}\n' * 2000)
    streams = Layout(site.root).streams(NAME)
    streams.mkdir(parents=True)
    (streams / "new.lock").write_bytes(b"")  # of a start that was killed
    assert start(site, bad) == 1
    names = sorted(path.name for path in streams.iterdir())
    assert names == ["new.failure", "new.lock", "new.log", "new.removals"]
    (one,) = site.do("streams", "list")["streams"]
    assert (one["stream"], one["epochs"], one["left"]) == ("new", 0, "log")
    site.do("streams", "remove", TABLE, "new")
    assert not (site.root / "Intraday").exists()
    (site.base / "new" / "one.json").write_text('{"A": 1}\n')
    assert start(site, lambda site, file: None) == 0
    assert [row["A"] for row in site.rows("A")] == [1]


@pytest.mark.slow
def test_a_lost_log_is_an_error_also_where_nothing_waits(tmp_path: Path) -> None:
    site = Site(tmp_path)
    site.stream()
    site.put({"A": 1, "B": "b", "C": 1.5})
    site.ingest()
    for path in Layout(site.root).streams(NAME).iterdir():
        path.unlink()
    (site.base / "s" / "001.json").unlink()
    before = tree(site.root)
    assert before.pop("Intraday/Test/Event/.streams", 0) is None  # it has the note then
    site.ingest(code=1)
    assert tree(site.root) == before and noted(site.root) == ["s"]


@pytest.mark.slow
def test_a_start_that_commits_imports_nothing_of_removals(tmp_path: Path) -> None:
    site = Site(tmp_path)
    words = ["--root", str(site.root), "ingest", site.stream(), "--once", "--local"]
    site.put({"A": 1, "B": "b", "C": 1.5})
    command = [sys.executable, "-X", "importtime", "-m", "sparkhaven.jobs.cli.main", *words]
    done = subprocess.run(command, capture_output=True, text=True, cwd=REPOSITORY, check=True)
    assert "sparkhaven.writers.batch.commit\n" in done.stderr
    for package in ("removal", "validation", "merge"):
        assert f"sparkhaven.writers.{package}\n" not in done.stderr
    assert len(site.rows()) == 1


@pytest.mark.slow
def test_a_first_start_under_the_name_of_a_removed_stream_leaves_its_note(tmp_path: Path) -> None:
    site = Site(tmp_path)
    streams = Layout(site.root).streams(NAME)
    Fs().mkdirs(streams)
    write_removed(StreamPlace(Fs(), Layout(site.root), NAME, "new"), RemovedStream(7, 3, 0))
    assert start(site, put('{"A": "x"}\n' * 2000)) == 1
    assert sorted(path.name for path in streams.iterdir()) == ["new.failure", "new.removed"]
    note = read_removed(StreamPlace(Fs(), Layout(site.root), NAME, "new"))
    assert note is not None and note.epoch > 7
