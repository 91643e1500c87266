"""`sparkhaven ingest --once` without Spark: when, what it says, and that it ends as with Spark."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sparkhaven.ingest.feeds.base import Waiting
from sparkhaven.ingest.feeds.files.feed import FilesFeed
from sparkhaven.jobs.session.spark_or_local import LocalLimits, RunChoice, choose, choose_by_input
from sparkhaven.jobs.streams import process
from sparkhaven.readers.arrow.opening import open_table
from sparkhaven.store.epochs.reading.stream_state import load_stream
from sparkhaven.store.errors import RetryableFeedError, SettingsError
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout, TableName
from sparkhaven.store.places import StreamPlace
from tests.support.commands import run, run_json
from tests.support.places import REPOSITORY

SCHEMA = """<Table namespace="Test" name="Event" storageType="NestedPartitionedOnDisk">
  <Partitions keyFormula="${autobalance_single}"/>
  <Column name="Date" dataType="String" columnType="Partitioning"/>
  <Column name="Id" dataType="long"/>
</Table>"""
STREAM = """name = "{name}"
table = "Test.Event"
schema = "Test.Event.schema"
[feed]
type = "files"
path = "{name}"
format = "json"
max_per_trigger = {{ files = 1 }}
[partition]
internal = {{ fixed = "{name}" }}
value = {{ fixed = "2026-11-22" }}
[bad_rows]
max_rows = {bad}
"""


@pytest.fixture(autouse=True)
def no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "build_session", lambda *_, **__: pytest.fail("Spark was started"))
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)


def make(base: Path, name: str = "s", *, bad: int = 0) -> str:
    """A stream file with an empty feed."""
    (base / "Test.Event.schema").write_text(SCHEMA)
    (base / name).mkdir()
    (base / f"{name}.toml").write_text(STREAM.format(name=name, bad=bad))
    return str(base / f"{name}.toml")


def put(base: Path, number: int, text: str | None = None, name: str = "s") -> None:
    path = base / name / f"{number}.json"
    path.write_text(f'{{"Id": {number}}}\n' if text is None else text)
    os.utime(path, ns=(10**18 * 17 // 10 + number, 10**18 * 17 // 10 + number))


def ids(base: Path) -> list[int]:
    return sorted(open_table(base / "db", "Test.Event").to_arrow(columns=["Id"])["Id"].to_pylist())


def test_few_files_are_ingested_in_this_process(tmp_path: Path) -> None:
    file = make(tmp_path)
    for number in (1, 2):
        put(tmp_path, number)
    found = run(tmp_path / "db", "ingest", file, "--once", "--json")
    value = json.loads(found.stdout)
    assert (found.exit_code, value["rows"], value["epochs"], value["files"], value["positions"]["files"]) == (
        0,
        2,
        2,
        2,
        2,
    )
    said = [line.partition(" ")[2] for line in found.stderr.splitlines()]
    assert said[0] == (
        "s runs in this process, without Spark: 2 files, 20 bytes to ingest. Spark starts above 64 MiB or 500,000 rows"
    )
    assert said[1].startswith("s epoch 1: 1 row from 1 file into 1 location in ") and said[1].endswith("lag 1 file")
    assert said[2].startswith("s epoch 2: ") and said[2].endswith("lag 0 files")
    assert said[3].startswith("s ended at epoch 2: 2 rows in 2 epochs")
    put(tmp_path, 3)
    code, value = run_json(tmp_path / "db", "ingest", file, "--once")
    assert (code, value["rows"], value["epoch"]) == (0, 1, 3) and ids(tmp_path) == [1, 2, 3]
    code, value = run_json(tmp_path / "db", "ingest", file, "--once")
    assert (code, value["rows"], value["epochs"], value["epoch"]) == (0, 0, 0, 3)


@pytest.mark.parametrize("words", [(), ("--once", "--spark")])
def test_spark_is_started_where_it_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    file = make(tmp_path)
    put(tmp_path, 1)

    def start(*_: object, **__: object) -> Any:
        raise SettingsError("Spark would start here")

    monkeypatch.setattr(process, "build_session", start)
    assert "Spark would start here" in run(tmp_path / "db", "ingest", file, *words).stderr
    found = run(tmp_path / "db", "ingest", file, "--once", limits=LocalLimits(9))
    assert "s runs in Spark: 1 file, 10 bytes to ingest, more than" in found.stderr
    assert "Spark would start here" in found.stderr
    code, value = run_json(tmp_path / "db", "ingest", file, "--once", "--local")
    assert (code, value["rows"]) == (0, 1)


def test_streams_of_one_command_are_counted_together(tmp_path: Path) -> None:
    files = [make(tmp_path, name) for name in "ab"]
    for number, name in enumerate("ab"):
        put(tmp_path, number, name=name)
    found = run(tmp_path / "db", "ingest", *files, "--once", "--json", limits=LocalLimits(20))
    assert [json.loads(line)["rows"] for line in found.stdout.splitlines()] == [1, 1] and ids(tmp_path) == [0, 1]
    assert "b runs in this process, without Spark: 1 file, 10 bytes and 1 file, 10 bytes to ingest" in found.stderr


def test_what_the_choice_depends_on() -> None:
    few, many = Waiting({}, "few", bytes=1 << 20), Waiting({}, "many", rows=500_001)
    assert choose_by_input([few]).local and choose_by_input([]).local
    assert choose_by_input([Waiting({}, "just", bytes=64 << 20)]).local
    assert not choose_by_input([many]).local and not choose_by_input([few, replace(few, bytes=64 << 20)]).local
    assert not choose_by_input([Waiting({}, "half", bytes=33 << 20), Waiting({}, "half", rows=250_000)]).local
    assert choose_by_input([few, Waiting({}, "who knows")]) == RunChoice(False, "a feed does not tell how much waits")
    assert choose("auto", submitted=False) is None
    assert choose("auto", submitted=True) == RunChoice(False, "spark-submit has started it")
    assert choose("local", submitted=True) == RunChoice(True, "as --local says")
    assert choose("spark", submitted=False) == RunChoice(False, "as --spark says")


def test_options_that_exclude_each_other(tmp_path: Path) -> None:
    file = make(tmp_path)
    for words, what in (
        (("--once", "--local", "--spark"), "--local and --spark exclude each other"),
        (("--once", "--local", "--workers", "2"), "--local is given with several workers"),
    ):
        code, value = run_json(tmp_path / "db", "ingest", file, *words)
        assert (code, value["error"]["what"]) == (2, what)
    assert not (tmp_path / "db").exists()


def test_a_run_here_needs_no_jdk_and_a_run_in_spark_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    for name, bad in (("s", 0), ("q", 1)):
        file = make(tmp_path, name, bad=bad)
        for number, words in enumerate((("--once", "--local"), ("--once",))):
            put(tmp_path, number, name=name)
            assert run_json(tmp_path / "db", "ingest", file, *words)[0] == 0
        put(tmp_path, 3, name=name)
        epoch = epochs(tmp_path, name)
        for words in (("--once", "--spark"), ()):
            code, value = run_json(tmp_path / "db", "ingest", file, *words)
            assert (code, value["error"]["what"]) == (2, "JAVA_HOME has no bin/java")
        code, value = run_json(tmp_path / "db", "ingest", file, "--once", limits=LocalLimits(1))
        assert (code, value["error"]["what"]) == (2, "JAVA_HOME has no bin/java")
        assert epochs(tmp_path, name) == epoch


def epochs(base: Path, stream: str) -> int:
    return load_stream(StreamPlace(Fs(), Layout(base / "db"), TableName("Test", "Event"), stream)).epoch


def test_a_bad_row_that_is_not_allowed_ends_as_with_spark(tmp_path: Path) -> None:
    file = make(tmp_path)
    put(tmp_path, 1)
    put(tmp_path, 2, '{"Id": "x"}\n')
    found = run(tmp_path / "db", "ingest", file, "--once", "--json")
    value = json.loads(found.stdout)
    assert (found.exit_code, value["stream"], value["error"]["type"]) == (1, "s", "ErrorBudgetExceeded")
    assert "s stopped: " in found.stderr and ids(tmp_path) == [1]


def test_bad_rows_start_no_spark(tmp_path: Path) -> None:
    """Neither their quarantine does, nor the commands that list, requeue and drop them."""
    file = make(tmp_path, bad=5)
    put(tmp_path, 1)
    put(tmp_path, 2, '{"Id": 2}\n{"Id": "x"}\n{"Id": "y"}\n')
    found = run(tmp_path / "db", "ingest", file, "--once", "--json")
    assert (found.exit_code, json.loads(found.stdout)["rejected"]) == (0, 2) and ids(tmp_path) == [1, 2]
    assert "Spark starts," not in found.stderr

    def quarantine(*words: str, code: int = 0) -> list[dict[str, Any]]:
        found = run(tmp_path / "db", "quarantine", words[0], "Test.Event", "s", *words[1:], "--json")
        assert found.exit_code == code, found.output
        return [json.loads(line) for line in found.stdout.splitlines()]

    rows = quarantine("list")
    assert [(row["position"], row["payload"], row["epoch"]) for row in rows] == [
        (2, '{"Id": "x"}', 2),
        (3, '{"Id": "y"}', 2),
    ]
    mended = tmp_path / "mended.jsonl"
    for name, value in (("value", "7"), ("column", "Other"), ("source", "elsewhere")):
        mended.write_text(json.dumps({**rows[0], name: value}))
        (refused,) = quarantine("requeue", "--from", str(mended), code=1 if name == "source" else 2)
        if name == "source":
            assert (refused["sent"], refused["not_pending"]) == (0, 1)
        else:
            told = refused["error"]
            assert (told["what"], told["found"]) == (f"an edit of {name} is not taken", json.dumps(value))
            assert told["where"] == f"{mended} line 1" and "edit payload" in told["hint"]
    mended.write_text(json.dumps({**rows[0], "payload": '{"Id": 7}'}))
    (sent,) = quarantine("requeue", "--from", str(mended))
    assert (sent["sent"], sent["epoch"]) == (1, 3) and ids(tmp_path) == [1, 2, 7]
    (again,) = quarantine("requeue", "--from", str(mended))
    assert (again["sent"], again["ingested_before"], again["not_pending"]) == (0, 1, 0) and ids(tmp_path) == [1, 2, 7]
    assert [row["requeued_epoch"] for row in quarantine("list")] == [3, None]
    (sent,) = quarantine("requeue", code=1)
    assert (sent["sent"], sent["refused"]) == (0, 1)
    (dropped,) = quarantine("drop", "--state", "pending")
    assert dropped["dropped"] == 1 and [row["position"] for row in quarantine("list")] == [2]


def test_a_feed_that_cannot_be_asked_is_an_error_of_its_stream(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = [make(tmp_path, name) for name in "ab"]
    put(tmp_path, 1, name="b")
    waiting = FilesFeed.waiting

    def away(self: FilesFeed, *words: Any) -> Waiting:
        if self.spec.stream == "a":
            raise RetryableFeedError("the directory is away")
        return waiting(self, *words)

    monkeypatch.setattr(FilesFeed, "waiting", away)
    found = run(tmp_path / "db", "ingest", *files, "--once")
    assert found.exit_code == 3 and ids(tmp_path) == [1]
    assert "a stopped: the directory is away" in found.stderr and "b ended at epoch 1" in found.stderr
    assert "a runs" not in found.stderr
    found = run(tmp_path / "db", "ingest", files[0], "--once")
    assert found.exit_code == 3 and "runs in" not in found.stderr


def start(base: Path, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [
            sys.executable,
            "-m",
            "sparkhaven.jobs.cli.main",
            "--root",
            str(base / "db"),
            "ingest",
            *words,
            "--once",
            "--json",
        ],
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        cwd=base,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.slow
def test_sigterm_ends_a_run_that_waits_and_keeps_what_is_committed(tmp_path: Path) -> None:
    file = make(tmp_path)
    path = Path(file)
    path.write_text(path.read_text().replace('format = "json"', 'format = "json"\nsettle = "10 min"'))
    put(tmp_path, 1)
    (tmp_path / "s" / "2.json").write_text('{"Id": 2}')  # its last line may grow
    job = start(tmp_path, file)
    try:
        assert job.stderr is not None
        assert any("epoch 1:" in line for line in job.stderr)
        code, value = run_json(tmp_path / "db", "ingest", file, "--once")
        assert (code, value["error"]["type"]) == (3, "LockLostError")
        job.send_signal(signal.SIGTERM)
        out, _ = job.communicate(timeout=60)
    finally:
        job.kill()
    assert (job.returncode, json.loads(out)["rows"]) == (0, 1) and ids(tmp_path) == [1]


@pytest.mark.slow
def test_sigterm_of_a_first_run_that_only_waits_leaves_nothing(tmp_path: Path) -> None:
    path = Path(make(tmp_path))
    path.write_text(path.read_text().replace('format = "json"', 'format = "json"\nsettle = "10 min"'))
    (tmp_path / "s" / "1.json").write_text('{"Id": 1}')  # its last line may grow
    job = start(tmp_path, str(path))
    try:
        assert job.stderr is not None
        assert any("s runs in this process" in line for line in job.stderr)
        job.send_signal(signal.SIGTERM)
        job.communicate(timeout=60)
    finally:
        job.kill()
    assert job.returncode == 0
    assert [path.name for path in (tmp_path / "db").glob("*")] in ([], ["Schemas"])
