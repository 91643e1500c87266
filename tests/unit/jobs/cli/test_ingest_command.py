"""`sparkhaven ingest` before Spark starts, how it ends, and what it says."""

from __future__ import annotations

import io
import json
import math
import os
import signal
import threading
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from sparkhaven.ingest.feeds.files.feed import FilesFeed
from sparkhaven.ingest.feeds.files.options import FilesOptions
from sparkhaven.jobs.settings.stream_file import load_stream_file
from sparkhaven.jobs.streams import process, runners
from sparkhaven.jobs.streams import stream as ingest_run
from sparkhaven.jobs.streams.progress import Progress
from sparkhaven.jobs.streams.stream_run import StreamGroup, StreamRun
from sparkhaven.store.errors import EXIT_RETRY, CommitError, FeedError
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout
from sparkhaven.writers.batch.stream_batches import FeedTables, StreamTotals
from sparkhaven.writers.task import StreamTarget
from tests.support.commands import run, run_json
from tests.support.ingest.stream_files import write_stream
from tests.support.kafka.ticks import stream_file
from tests.support.streams.schema_site import Site as SchemaSite
from tests.support.writers.merge_cases import TABLE

NAME = str(TABLE)


def test_a_missing_jdk_is_reported_before_anything_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    file = str(write_stream(tmp_path))
    for words in (("--once", "--spark"), ()):
        code, value = run_json(tmp_path / "db", "ingest", file, *words)
        assert (code, value["error"]["what"]) == (2, "JAVA_HOME has no bin/java")
    assert not (tmp_path / "db").exists()


def test_a_dry_ingest_counts_and_makes_nothing(tmp_path: Path) -> None:
    code, value = run_json(tmp_path / "db", "ingest", str(write_stream(tmp_path)), "--dry-run")
    assert (code, value["waiting_files"], value["waiting_bytes"], value["epoch"]) == (0, 1, 3, 0)
    assert not (tmp_path / "db").exists()


def wrong_streams(base: Path) -> tuple[Path, Path, Path]:
    """One stream that can run, one whose settings do not fit its schema, one that is no stream file."""
    right = write_stream(base)
    (base / "wrong.toml").write_text(
        right.read_text().replace('"flights"', '"others"', 1).replace('column = "origin"', 'column = "time_hour"')
    )
    (base / "broken.toml").write_text("name = ")
    return right, base / "wrong.toml", base / "broken.toml"


def test_what_is_wrong_before_spark_starts_is_reported_before_anything_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "require_jdk", lambda fs, environ: None)
    right, wrong, broken = wrong_streams(tmp_path)
    code, value = run_json(tmp_path / "db", "ingest", str(wrong), "--once")
    assert (code, value["error"]["what"]) == (2, "column time_hour cannot name internal partitions")
    code, value = run_json(tmp_path / "db", "ingest", str(broken), "--once")
    assert (code, value["error"]["what"], value["file"]) == (2, "stream file is not TOML", str(broken))
    code, value = run_json(tmp_path / "db", "ingest", str(right), "--once", "--memory", "1x")
    assert (code, value["error"]["what"]) == (2, "--memory is not an amount of memory")
    assert not (tmp_path / "db").exists()


@pytest.mark.slow
def test_a_misspelt_setting_of_the_client_is_reported_before_spark_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "require_jdk", lambda fs, environ: None)
    monkeypatch.setattr(process, "build_session", lambda *words, **more: pytest.fail("Spark was started"))
    file = stream_file(tmp_path, "127.0.0.1:1", 'topics = ["t"]\nclient = { "sasl.pasword" = "tiger" }')
    result = run(tmp_path / "db", "ingest", str(file), "--metrics-port", "0")
    assert result.exit_code == 2 and "sasl.pasword" in result.stderr and "tiger" not in result.stderr
    assert "sasl.pasword is not a setting of the Kafka client" in result.stderr.replace("\n", " ")


def test_a_stream_that_cannot_start_keeps_no_other_from_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[str] = []

    def keep(app: object, group: StreamGroup) -> None:
        ran.append(group.name)
        group.first.totals = StreamTotals()

    session = SimpleNamespace(sparkContext=SimpleNamespace(master="local[1]"))
    monkeypatch.setattr(process, "require_jdk", lambda fs, environ: None)
    monkeypatch.setattr(process, "build_session", lambda *_, **__: session)
    monkeypatch.setattr(process, "end_session", lambda spark: None)
    monkeypatch.setattr(process, "keep_one", keep)
    files = list(map(str, wrong_streams(tmp_path)))
    found = run(tmp_path / "db", "ingest", files[1], files[0], files[2], "--once", "--spark", "--json")
    values = [json.loads(line) for line in found.stdout.splitlines()]
    assert (found.exit_code, ran) == (2, ["flights"])
    assert [value.get("error", {}).get("what") for value in values] == [
        None,
        "stream file is not TOML",
        "column time_hour cannot name internal partitions",
    ]
    assert "others stopped: column time_hour" in found.stderr
    found = run(tmp_path / "db", "ingest", *files, "--dry-run")
    assert (found.exit_code, "flights: would ingest 1 file" in found.stdout) == (2, True)


def test_a_missing_feed_directory_is_a_matter_of_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "require_jdk", lambda fs, environ: None)
    file = write_stream(tmp_path)
    text = file.read_text()
    file.write_text(text.replace(str(tmp_path / "feed"), str(tmp_path / "nowhere")))
    for option in ("--once", "--dry-run"):
        code, value = run_json(tmp_path / "db", "ingest", str(file), option)
        assert (code, value["error"]["what"]) == (2, "the feed's directory does not exist")
        assert value["error"]["where"] == str(tmp_path / "nowhere")
    file.write_text(file.read_text().replace("[feed]", '[feed]\nmissing_directory = "wait"'))
    code, value = run_json(tmp_path / "db", "ingest", str(file), "--dry-run")
    assert (code, value["waiting_files"]) == (0, 0)


def test_a_dry_run_and_stats_name_what_is_not_taken(tmp_path: Path) -> None:
    file = write_stream(tmp_path)
    (tmp_path / "feed" / "two.json.tmp").write_text("{}\n")
    found = run(tmp_path / "db", "ingest", str(file), "--dry-run")
    assert f"not ingested: 1 file, unfinished: {tmp_path / 'feed' / 'two.json.tmp'}" in found.stdout


@pytest.mark.parametrize("command", ["list", "drop"])
def test_a_state_that_is_none_is_reported_whatever_is_quarantined(tmp_path: Path, command: str) -> None:
    code, value = run_json(tmp_path, "quarantine", command, "NS.T", "s", "--state", "foo")
    assert (code, value["error"]["what"]) == (2, "unknown state")


def test_stats_ask_the_source_of_a_stream(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, root = write_stream(tmp_path), tmp_path / "db"
    root.mkdir()
    code, value = run_json(root, "stats", str(file))
    assert (code, value["error"]["found"]) == (2, "flights of Nyc13.Flight")
    with ExitStack() as opened:
        settings = load_stream_file(Fs(), file, {})
        ingest_run.open_stream(Fs(), Layout(root), settings, opened, Progress(console=Console(quiet=True)))
    code, value = run_json(root, "stats", str(file))
    assert (code, value["streams"][0]["waiting_files"], value["streams"][0]["waiting_bytes"]) == (0, 1, 3)
    assert "waiting_files" not in run_json(root, "stats")[1]["streams"][0]
    assert run(root, "stats", "Nyc13.Flight", str(file)).exit_code == 0


def test_progress_names_newcomers_that_are_too_old() -> None:
    out = io.StringIO()
    progress = Progress(console=Console(file=out, width=200))
    spec: Any = SimpleNamespace(stream="s", feed=FilesOptions("/feed"))
    run = StreamRun(SimpleNamespace(spec=spec, feed=FilesFeed(spec)), None, None, None)  # type: ignore[arg-type]
    listen = run.listener(progress)
    listen({"waiting_files": 3})
    assert out.getvalue() == ""
    listen({"older_files": 7, "older": [f"/feed/{n}" for n in range(2, 7)]})
    assert "7 new files are older than max_file_age (7 d) and are not ingested" in out.getvalue()
    assert "/feed/6 and 2 more" in out.getvalue()
    listen({"older_files": 8, "older": [f"/feed/{n}" for n in range(3, 8)]})
    assert out.getvalue().count("not ingested") == 2 and "1 new files are older than" in out.getvalue()
    assert run.older == 8


@pytest.mark.parametrize(
    ("durability", "window"),
    [
        ("fsync", None),
        ("periodic", "durability periodic: a power failure may lose the commits of the last 2.5 s"),
        ("none", "durability none: a power failure may lose all commits since the stream last ended well"),
    ],
)
def test_a_stream_syncs_as_its_file_says_and_tells_what_a_power_cut_may_take(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, durability: str, window: str | None
) -> None:
    file = write_stream(tmp_path)
    interval = 'sync_interval = "2500 ms"' if durability == "periodic" else ""
    text = file.read_text()
    assert 'durability  = "fsync"' in text
    file.write_text(text.replace('durability  = "fsync"', f'durability = "{durability}"\n{interval}'))
    settings = load_stream_file(Fs(), file, {})
    targets: list[StreamTarget] = []

    def stream(spark: object, source: object, fs: Fs, fed: FeedTables, *, stop: object) -> list[StreamTotals]:
        targets.append(fed.first.target)
        return [StreamTotals()]

    monkeypatch.setattr(runners, "run_stream_of_tables", stream)
    monkeypatch.setattr(
        runners, "open_feed", lambda *_, **__: SimpleNamespace(source=None, split_of=None, allow_gap=False)
    )
    out = io.StringIO()
    with ExitStack() as opened:
        fs, layout = Fs(), Layout(tmp_path / "db")
        run = ingest_run.open_stream(fs, layout, settings, opened, Progress(console=Console(quiet=True)))
        progress = Progress(console=Console(file=out, width=200))
        stop = threading.Event()
        runner = runners.SparkRunner(None)  # type: ignore[arg-type]
        app = ingest_run.Application(fs, layout, runner, ingest_run.RunOptions(), progress, stop)
        ingest_run.run_one(app, StreamGroup([run]))
    assert run.error is None
    assert targets[0].policy.loss_window_s == {"fsync": 0.0, "periodic": 2.5, "none": math.inf}[durability]
    said = out.getvalue()
    assert (
        ("power failure" not in said) if window is None else (window in said and "if the source still has them" in said)
    )


def test_texts_of_errors_are_no_markup() -> None:
    out = io.StringIO()
    progress = Progress(console=Console(file=out, width=200))
    progress.warn("s", FeedError("no [columns] at [/x]"))
    progress.stopped("s", FeedError("cut [bold] here", hint="reported later"))
    lines = out.getvalue().splitlines()
    assert lines[0].endswith("s no [columns] at [/x]")
    assert lines[1].endswith("s stopped: cut [bold] here")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_while_spark_starts_ends_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    def gone() -> None:
        raise ConnectionRefusedError(111, "Connection refused")

    def start(*_: object, **__: object) -> object:
        assert threading.current_thread() is not threading.main_thread(), "Spark would take SIGINT for itself"
        os.kill(os.getpid(), number)
        return SimpleNamespace(
            stop=gone, sparkContext=SimpleNamespace(master="local[1]", setLocalProperty=lambda name, value: None)
        )

    def stream(*_: object, stop: threading.Event) -> list[StreamTotals]:
        assert stop.is_set()
        return [StreamTotals()]

    monkeypatch.setattr(process, "build_session", start)
    monkeypatch.setattr(process, "require_jdk", lambda fs, environ: None)
    monkeypatch.setattr(runners, "run_stream_of_tables", stream)
    monkeypatch.setattr(
        runners, "open_feed", lambda *_, **__: SimpleNamespace(source=None, split_of=None, allow_gap=False)
    )
    before = signal.getsignal(number)
    settings = load_stream_file(Fs(), write_stream(tmp_path), {})
    quiet = Progress(console=Console(quiet=True))
    (ended,) = process.run_streams(Fs(), Layout(tmp_path / "db"), [settings], ingest_run.RunOptions(), quiet)
    assert isinstance(ended, StreamRun) and (ended.error, ended.totals) == (None, StreamTotals())
    assert signal.getsignal(number) is before
    assert {path.name for path in (tmp_path / "db").iterdir()} == {"Schemas"}  # nothing was ingested


def test_a_jvm_that_is_gone_is_reported_by_its_name_wherever_it_is_missed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(*_: object, **__: object) -> object:
        raise ConnectionRefusedError(111, "Connection refused")

    fs, layout, progress = Fs(), Layout(tmp_path), Progress(console=Console(quiet=True))
    (tmp_path / "s").mkdir()
    settings = load_stream_file(fs, stream_file(tmp_path / "s", "127.0.0.1:1", 'topics = ["t"]'), {})
    for place in ("open_feed", "run_stream_of_tables"):
        monkeypatch.setattr(
            runners, "open_feed", lambda *_, **__: SimpleNamespace(source=0, split_of=0, allow_gap=False)
        )
        monkeypatch.setattr(runners, place, gone)
        with ExitStack() as opened:
            run = ingest_run.open_stream(fs, layout, settings, opened, progress)
            spark: Any = None
            runner = runners.SparkRunner(spark)
            app = ingest_run.Application(fs, layout, runner, ingest_run.RunOptions(), progress, threading.Event())
            ingest_run.run_one(app, StreamGroup([run]))
        assert isinstance(run.error, CommitError) and "JVM has ended" in str(run.error)
        assert run.error.exit_code == EXIT_RETRY


@pytest.mark.slow
def test_a_file_that_is_too_old_is_reported_by_every_command_that_looks_at_the_feed(tmp_path: Path) -> None:
    rows = SchemaSite(tmp_path)
    stream = rows.stream()
    rows.put({"A": 1, "B": "x", "C": 0.5})
    rows.ingest()
    late = tmp_path / "s" / "late.json"
    late.write_text('{"A": 2, "B": "y", "C": 0.5}\n')
    os.utime(late, (0, 0))
    line = (
        f"1 new files are older than max_file_age (7 d) and are not ingested: {late}. Touch a file to have it ingested"
    )
    assert line in rows.ingest()
    for words in (("ingest", stream, "--dry-run"), ("stats", "Test.Event", stream)):
        code, value = run_json(rows.root, *words)
        counts = value["streams"][0] if "streams" in value else value
        assert (code, counts["older_files"], counts["older"]) == (0, 1, [str(late)])
        assert counts["remarks"] == [line]
        assert line in run(rows.root, *words).stdout
    assert line in run(rows.root, "doctor", stream).stdout.replace("\n", " ")
    page = tmp_path / "page.html"
    assert run(rows.root, "page", "--out", page, stream).exit_code == 0
    assert f"<p>{line}.</p>" in page.read_text()
    late.touch()
    assert run_json(rows.root, "stats", "Test.Event", stream)[1]["streams"][0]["remarks"] == []
    rows.ingest()
    assert len(rows.rows()) == 2
