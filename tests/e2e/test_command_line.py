"""The whole way by the command line: flights from feed files to history and back. Jobs are processes of their own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from demo.feed import json_line, rows
from sparkhaven.store.io.fs import Fs
from tests.support.commands import run
from tests.support.places import REPOSITORY
from tests.support.spark.one_session import one_session

pytestmark = pytest.mark.spark

TABLE = "Nyc13.Flight"
DAYS = 3
WAIT_SECONDS = 300


@dataclass
class Flights:
    """A feed of the first days of 2013, one file a day, and a database beside it."""

    base: Path
    lines: dict[str, list[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        january = takewhile(lambda row: int(row["day"]) <= DAYS, rows())
        for row in january:
            self.lines.setdefault(f"2013-01-{int(row['day']):02}", []).append(json_line(row))
        (self.base / "feed").mkdir()
        text = (REPOSITORY / "conf/streams/flights.toml").read_text()
        text = text.replace("../schemas", str(REPOSITORY / "conf/schemas")).replace("16MB", "200KB")
        self.stream.write_text(text)

    @property
    def stream(self) -> Path:
        return self.base / "flights.toml"

    @property
    def root(self) -> Path:
        return self.base / "db"

    def put(self, day: str) -> int:
        """Adds the file of a day to the feed."""
        Fs().replace(self.base / "feed" / f"{day}.json", "".join(self.lines[day]).encode(), sync=False)
        return len(self.lines[day])

    def start(self, *words: str) -> subprocess.Popen[str]:
        """Starts a command, from a directory that is not the repository."""
        environ = {**os.environ, "SPARKHAVEN_ROOT": str(self.root), "FLIGHTS_FEED": str(self.base / "feed")}
        environ["PYTHONPATH"] = str(REPOSITORY)
        return subprocess.Popen(
            [sys.executable, "-m", "sparkhaven.jobs.cli.main", *words],
            cwd=self.base,
            env=environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def run(self, *words: str) -> tuple[int, list[dict[str, Any]], str]:
        """Exit code, JSON lines of standard output, and standard error of a command with ``--json``."""
        done = self.start(*words, "--json")
        out, err = done.communicate(timeout=WAIT_SECONDS)
        return done.returncode, [json.loads(line) for line in out.splitlines()], err

    def call(self, *words: str) -> tuple[int, list[dict[str, Any]], str]:
        """The same of a command in this process."""
        done = run(self.root, *words, "--json")
        return done.exit_code, [json.loads(line) for line in done.stdout.splitlines()], done.stderr

    @contextmanager
    def running(self) -> Iterator[subprocess.Popen[str]]:
        """The stream, from its first epoch on; killed with its JVM if the test leaves it running."""
        job = self.start("ingest", str(self.stream), "--json")
        try:
            assert job.stderr is not None
            said = []
            for line in job.stderr:
                said.append(line)
                if "epoch 1:" in line:
                    break
            else:
                pytest.fail("the stream ended before its first epoch:\n" + "".join(said))
            yield job
        finally:
            if job.poll() is None:
                os.killpg(job.pid, signal.SIGKILL)
            job.wait()


@pytest.fixture
def flights(tmp_path: Path) -> Flights:
    return Flights(tmp_path)


def test_from_feed_to_history_and_back(flights: Flights) -> None:
    counts = {day: flights.put(day) for day in flights.lines}
    total = sum(counts.values())

    code, (taken,), err = flights.run("ingest", str(flights.stream), "--once")
    assert code == 0 and "runs in this process, without Spark: 3 files" in err, err
    assert {"rows", "rejected", "epochs", "epoch", "seconds", "positions"} <= taken.keys()
    assert (taken["rows"], taken["epochs"], taken["files"], taken["positions"]["files"]) == (total, DAYS, DAYS, DAYS)
    assert [line.rpartition("lag ")[2] for line in err.splitlines() if "rows/s, lag" in line] == [
        "2 files",
        "1 file",
        "0 files",
    ]

    chosen = ("--dates", "2013-01-01..2013-01-31")
    with one_session():
        code, merged, err = flights.call("merge", TABLE, *chosen, "--spark")
    assert code == 0 and "merges in Spark: as --spark says" in err, err
    assert {line["date"]: (line["outcome"], line["rows_in"], line["rows_out"]) for line in merged} == {
        day: ("merged", count, count) for day, count in counts.items()
    }
    assert all(line["phase"] == "clean" and sum(line["destinations"].values()) == line["rows_out"] for line in merged)

    code, validated, _ = flights.call("validate", TABLE, *chosen)
    assert code == 0
    assert all(line["passed"] for line in validated)
    assert all({"rule", "passed", "measured", "lower", "upper"} <= rule.keys() for rule in validated[0]["rules"])

    code, truncated, _ = flights.call("truncate", TABLE, *chosen)
    assert code == 0
    assert {line["date"]: line["rows"] for line in truncated} == counts

    assert flights.run("read", TABLE)[1][0]["rows"] == total
    for tier, count in (("history", total), ("intraday", 0)):
        assert flights.call("read", TABLE, "--tier", tier)[1][0]["rows"] == count
    out = flights.base / "out.parquet"
    code, (exported,), _ = flights.call("read", TABLE, "--date", "2013-01-02", "--out", str(out))
    assert (code, exported["rows"], exported["epoch"]) == (0, counts["2013-01-02"], {"flights": DAYS})
    wanted = sorted(json.loads(line)["dest"] for line in flights.lines["2013-01-02"])
    assert sorted(pq.read_table(out)["dest"].to_pylist()) == wanted
    code, (verified,), _ = flights.call("verify", "--deep")
    assert (code, verified["findings"]) == (0, [])


def test_a_running_stream_refuses_a_second_one_and_ends_after_its_batch_when_asked(flights: Flights) -> None:
    first, second, third = flights.lines
    counts = {first: flights.put(first)}
    with flights.running() as job:
        code, (refused,), err = flights.run("ingest", str(flights.stream), "--once")
        assert (code, refused["error"]["type"]) == (3, "LockLostError")
        assert str(job.pid) in err and os.uname().nodename in err
        counts[second] = flights.put(second)
        assert job.stderr is not None
        next(line for line in job.stderr if "epoch 2:" in line)
        old = flights.base / "feed" / "old.json"
        old.write_text("".join(flights.lines[third]))
        os.utime(old, (0, 0))
        warned = next(line for line in job.stderr if "not ingested" in line)
        assert "old.json" in warned and "max_file_age (7 d)" in warned
        job.send_signal(signal.SIGTERM)
        begun = time.monotonic()
        out, err = job.communicate(timeout=WAIT_SECONDS)
        assert job.returncode == 0, err
        assert time.monotonic() - begun < 300
    ended = json.loads(out)
    assert (ended["rows"], ended["epoch"], ended["older"]) == (sum(counts.values()), 2, 1)
    assert flights.call("read", TABLE)[1][0]["rows"] == sum(counts.values())


def test_a_first_run_without_input_that_is_asked_to_end_leaves_nothing(flights: Flights) -> None:
    job = flights.start("ingest", str(flights.stream), "--json")
    try:
        begun = flights.root / ".spark" / TABLE / "flights" / "metadata"
        while not begun.exists():
            assert job.poll() is None
            time.sleep(0.1)
        job.send_signal(signal.SIGTERM)
        out, err = job.communicate(timeout=WAIT_SECONDS)
    finally:
        if job.poll() is None:
            os.killpg(job.pid, signal.SIGKILL)
        job.wait()
    assert job.returncode == 0, err
    assert (json.loads(out)["epoch"], json.loads(out)["rows"]) == (0, 0)
    assert [path.name for path in flights.root.iterdir()] == ["Schemas"]
    assert flights.call("streams", "list")[1] == [{"streams": []}]


def test_a_bad_row_stops_with_one_error_and_no_trace_of_spark(flights: Flights) -> None:
    (flights.base / "feed" / "bad.json").write_text(flights.lines["2013-01-01"][0] + '{"year": "x"}\n')
    code, (reported,), err = flights.run("ingest", str(flights.stream), "--once", "--spark")
    assert (code, reported["stream"], reported["error"]["type"]) == (1, "flights", "ErrorBudgetExceeded")
    assert reported["error"]["where"].endswith("bad.json line 2")
    for noise in ("Traceback", "\tat ", "org.apache", "MicroBatchExecution"):
        assert noise not in err
    assert flights.call("read", TABLE)[1][0]["rows"] == 0
