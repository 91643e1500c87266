"""Log tables: what a stream and the commands write to them, read as any other table; and that they disturb nothing."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from jobs.doctor.dates import dates
from jobs.doctor.finding import CheckContext
from jobs.logs import append, writer
from jobs.logs.append import append_rows, stream_name
from jobs.logs.command_rows import admin_rows, merge_rows, table_of, validation_rows
from jobs.logs.logged import LOGGED, logged_command
from jobs.logs.tables import ADMIN, EPOCH, INGEST, LOG_TABLES, LogTable
from jobs.logs.writer import LogWriter
from jobs.streams.reports.metrics import Metrics
from readers.arrow.opening import open_table
from store.epochs.log import StreamLog
from store.errors import RetryableStorageError
from store.io.fs import Fs
from store.layout import Layout, TableName
from store.schema.deployed.deploy import deploy, user_tables
from tests.support.commands import run, run_json
from tests.unit.jobs.streams.test_once_here import make, put

NOW = 1_700_000_000.0  # 2023-11-14
DAY = "2023-11-14"


@pytest.fixture(autouse=True)
def logs_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARKHAVEN_LOGS", "on")
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)


def rows_of(root: Path, table: LogTable) -> list[dict[str, Any]]:
    """All rows, by time."""
    found = open_table(root, str(table.table)).to_arrow().to_pylist()
    return sorted(found, key=lambda row: row["Timestamp"])


def add(root: Path, table: LogTable, *rows: dict[str, object], fs: Fs | None = None) -> int:
    whole = [{"Timestamp": int(NOW) * 10**9, "RunId": "r", "Host": "h", **row} for row in rows]
    return append_rows(fs or Fs(), Layout(root), table, whole, run_id="r", clock=lambda: NOW, warn=pytest.fail)


@pytest.mark.slow
def test_a_run_is_in_the_log_tables(tmp_path: Path) -> None:
    root, file = tmp_path / "db", make(tmp_path)
    for number in (1, 2):
        put(tmp_path, number)
    found = run(root, "ingest", file, "--once", "--json")
    assert found.exit_code == 0, found.stderr
    batches = rows_of(root, INGEST)
    assert [(row["Outcome"], row["Epoch"], row["Rows"]) for row in batches] == [
        ("committed", 1, 1),
        ("committed", 2, 1),
        ("ended", 2, None),
    ]
    first = batches[0]
    assert (first["Namespace"], first["TableName"], first["Stream"], first["Mode"]) == ("Test", "Event", "s", "fsync")
    assert first["Bytes"] == len('{"Id": 1}\n') and first["Rejected"] == 0 and first["DurationMs"] >= 0
    assert first["Date"] == f"{first['Timestamp']:%Y-%m-%d}" and first["Host"] and first["Message"] is None
    assert len({row["RunId"] for row in batches}) == 1
    epochs = rows_of(root, EPOCH)
    assert [(row["Epoch"], row["Kind"], row["Rows"], row["Locations"], row["Generation"]) for row in epochs] == [
        (1, "commit", 1, 1, 1),
        (2, "commit", 1, 1, 1),
    ]
    assert len({row["QueryId"] for row in epochs}) == 1 and {row["SchemaId"] for row in epochs} == {1}
    code, value = run_json(root, "sql", "SELECT sum(Rows) AS n FROM SparkhavenInternal.EpochLog")
    assert (code, value["first"]) == (0, [{"n": 2}])
    assert run(root, "verify", "--deep").exit_code == 0


@pytest.mark.slow
def test_a_stream_file_the_environment_or_an_option_switch_them_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, file = tmp_path / "db", make(tmp_path)
    put(tmp_path, 1)
    assert run(root, "--no-logs", "ingest", file, "--once").exit_code == 0
    with monkeypatch.context() as off:
        off.setenv("SPARKHAVEN_LOGS", "off")
        assert run(root, "ingest", file, "--once").exit_code == 0
    Path(file).write_text(Path(file).read_text() + "[logs]\nenabled = false\n")
    assert run(root, "ingest", file, "--once").exit_code == 0
    assert not (root / "Intraday/SparkhavenInternal").exists()


@pytest.mark.slow
def test_a_failed_stream_is_logged_and_so_is_one_that_cannot_be_opened(tmp_path: Path) -> None:
    root, file = tmp_path / "db", make(tmp_path)
    put(tmp_path, 1, '{"Id": "x"}\n')
    assert run(root, "ingest", file, "--once").exit_code == 1
    log = Layout(root).stream_log(TableName("Test", "Event"), "s")
    log.write_bytes(b"x" * 100)
    assert run(root, "ingest", file, "--once").exit_code == 1
    failed = rows_of(root, INGEST)
    assert [row["Outcome"] for row in failed] == ["failed", "failed"]
    assert failed[0]["Message"].startswith("ErrorBudgetExceeded: more bad rows than the budget allows")
    assert failed[1]["Message"].startswith("CorruptFileError: ")


@pytest.mark.slow
def test_listings_leave_log_tables_out(tmp_path: Path) -> None:
    root, file = tmp_path / "db", make(tmp_path)
    put(tmp_path, 1)
    run(root, "ingest", file, "--once")
    assert [str(name) for name in user_tables(Fs(), Layout(root))] == ["Test.Event"]
    _, listed = run_json(root, "tables")
    assert [line["table"] for line in listed["tables"]] == ["Test.Event"]
    _, listed = run_json(root, "tables", "--all")
    assert len(listed["tables"]) == 3
    assert [json.loads(line)["table"] for line in run(root, "stats", "--json").stdout.splitlines()] == ["Test.Event"]
    assert len(run(root, "stats", "--all", "--json").stdout.splitlines()) == 3
    assert run_json(root, "stats", "SparkhavenInternal.IngestLog")[1]["rows"] == 2
    assert "SparkhavenInternal" not in run(root, "merge", "--status").stdout
    assert run_json(root, "verify", "--deep")[1]["tables"] == 1
    assert run_json(root, "verify", "SparkhavenInternal.IngestLog")[1]["rows"] == 2
    log, context = INGEST.table, CheckContext(Fs(), Layout(root), NOW, "h", {})
    assert not any("SparkhavenInternal" in what for _, what, _ in dates(context))
    context.only = [log]
    assert any("SparkhavenInternal" in what for _, what, _ in dates(context))
    assert "SparkhavenInternal.IngestLog" in run(root, "merge", "SparkhavenInternal.IngestLog", "--status").stdout
    (data,) = Layout(root).intraday(INGEST.table).rglob("Rows.dat")
    data.unlink()
    assert "IngestLog" in run(root, "verify").stdout, "checked, though not counted"


@pytest.mark.slow
def test_commands_that_change_a_table_are_logged_and_dry_runs_are_not(tmp_path: Path) -> None:
    root, file = tmp_path / "db", make(tmp_path)
    for number in (1, 2):
        put(tmp_path, number)
    run(root, "--no-logs", "ingest", file, "--once")
    words = ["epochs", "rollback", "Test.Event", "s", "--to", "1"]
    assert run(root, *words, "--dry-run").exit_code == 0
    assert run(root, *words[:4], "--to", "99").exit_code == 2
    assert not (root / "Intraday/SparkhavenInternal").exists()
    assert run(root, *words).exit_code == 0
    (row,) = rows_of(root, ADMIN)
    told = {name: row[name] for name in ("Namespace", "TableName", "Command", "Arguments", "Affected", "Outcome")}
    assert told == {
        "Namespace": "Test",
        "TableName": "Event",
        "Command": "epochs rollback",
        "Arguments": "Test.Event s --to 1",
        "Affected": 1,
        "Outcome": "done",
    }
    (epoch,) = rows_of(root, EPOCH)
    assert (epoch["Stream"], epoch["Epoch"], epoch["Kind"], epoch["Rows"]) == ("s", 3, "rollback", -1)
    own = "SparkhavenInternal.AdminLog"
    assert run(root, "epochs", "rollback", own, "log-0", "--to", "0").exit_code == 0
    assert rows_of(root, ADMIN) == []  # the log tables do not log themselves


@pytest.mark.slow
def test_a_merge_and_its_validation_are_logged(tmp_path: Path) -> None:
    root, file = tmp_path / "db", make(tmp_path)
    put(tmp_path, 1)
    run(root, "--no-logs", "ingest", file, "--once")
    date = ["Test.Event", "--date", "2026-11-22"]
    for words in (
        ["partitions", "add", "Test", "0"],
        ["merge", *date, "--local"],
        ["validate", *date],
        ["truncate", *date],
    ):
        found = run(root, *words)
        assert found.exit_code == 0, found.stderr
    tables = {table.name: rows_of(root, table) for table in LOG_TABLES if table not in (INGEST, EPOCH)}
    (merged,) = tables["MergeLog"]
    figures = [merged[name] for name in ("Partition", "Outcome", "RowsIn", "RowsOut", "RowsDropped", "Destinations")]
    assert figures == ["2026-11-22", "merged", 1, 1, 0, 1]
    rules = {row["Rule"]: row for row in tables["ValidationLog"]}
    assert "DigestEqual" in rules and all(row["Passed"] is True for row in rules.values())
    assert {row["Epochs"] for row in rules.values()} == {"s@1"}
    volumes = {row["Volume"]: row for row in tables["StorageLog"]}
    assert volumes["intraday"]["Files"] > 0 < volumes["0"]["Bytes"]
    assert [(row["Command"], row["Affected"]) for row in tables["AdminLog"]] == [
        ("partitions add", None),
        ("truncate", 1),
    ]


def test_two_processes_at_once_have_a_stream_each_and_a_later_one_takes_the_first(tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    assert add(tmp_path, ADMIN, {"Command": "a"}) == 1
    schema = deploy(Fs(), layout, ADMIN.schema())
    args: dict[str, Any] = {"schema": schema, "query_id": "q", "clock": lambda: NOW, "pid": 1, "host": "h"}
    with StreamLog.open(Fs(), layout, ADMIN.table, stream_name(0), **args):  # another process writes
        assert add(tmp_path, ADMIN, {"Command": "b"}, {"Command": "c"}) == 1
    assert add(tmp_path, ADMIN, {"Command": "d"}) == 2
    table = open_table(tmp_path, str(ADMIN.table))
    assert table.epochs == {"log-0": 2, "log-1": 1}
    assert sorted(table.to_arrow(columns=["Command"])["Command"].to_pylist()) == ["a", "b", "c", "d"]


@pytest.mark.slow
def test_many_writers_at_once_lose_no_row(tmp_path: Path) -> None:
    barrier = threading.Barrier(4)

    def write(number: int) -> None:
        for turn in range(3):
            barrier.wait(60)
            add(tmp_path, ADMIN, {"Affected": 10 * number + turn})

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, range(4)))
    table = open_table(tmp_path, str(ADMIN.table))
    found = sorted(table.to_arrow(columns=["Affected"])["Affected"].to_pylist())
    assert found == [10 * number + turn for number in range(4) for turn in range(3)]
    assert 1 <= len(table.epochs) <= 4  # a stream for each that wrote at the same time


def test_all_streams_locked_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(append, "STREAMS", 1)
    schema = deploy(Fs(), Layout(tmp_path), ADMIN.schema())
    args: dict[str, Any] = {"schema": schema, "query_id": "q", "clock": lambda: NOW, "pid": 1, "host": "h"}
    said: list[str] = []
    log = LogWriter(Fs(), Layout(tmp_path), warn=said.append)
    log.add(ADMIN, {"Command": "a"})
    with StreamLog.open(Fs(), Layout(tmp_path), ADMIN.table, stream_name(0), **args):
        assert not log.flush() and not log.flush()
        assert len(said) == 1 and "cannot be written, the job goes on: " in said[0]  # said once
    assert log.flush()  # the row was kept
    assert [row["Command"] for row in rows_of(tmp_path, ADMIN)] == ["a"]


class FullDisk(Fs):
    """A disk on which nothing can be appended to a log."""

    def during(self, name: str) -> Any:
        if name == "commit-record":
            raise RetryableStorageError("no space left on the disk", hint="free space")
        return super().during(name)


def test_a_full_disk_is_a_warning_and_counted(tmp_path: Path) -> None:
    said: list[str] = []
    metrics = Metrics()
    log = LogWriter(FullDisk(), Layout(tmp_path), warn=said.append, on_failure=metrics.log_failed)
    log.add(ADMIN, {"Command": "a"})
    with log:
        pass
    assert "no space left" in said[0] and said[1] == "1 rows of log tables are lost: they could not be written"
    value = metrics.registry.get_sample_value("sparkhaven_log_failures_total", {"table": "SparkhavenInternal.AdminLog"})
    assert value == 1


def test_a_root_that_does_not_exist_is_not_made(tmp_path: Path) -> None:
    log = LogWriter(Fs(), Layout(tmp_path / "db"), warn=pytest.fail)
    log.add(ADMIN, {"Affected": 1})
    assert log.flush() and not (tmp_path / "db").exists()


def test_more_rows_than_may_wait_lose_the_oldest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "MAX_ROWS", 3)
    said: list[str] = []
    lost: list[tuple[str, int]] = []
    log = LogWriter(Fs(), Layout(tmp_path), warn=said.append, on_failure=lambda *what: lost.append(what))
    for number in range(5):
        log.add(ADMIN, {"Affected": number})
    assert log.flush()
    assert sorted(row["Affected"] for row in rows_of(tmp_path, ADMIN)) == [2, 3, 4]
    assert lost == [("SparkhavenInternal.AdminLog", 2)] and "2 rows" in said[0]


def test_rows_are_written_now_and_then_without_holding_up_who_adds_them(tmp_path: Path) -> None:
    began, may = threading.Event(), threading.Event()

    class Slow(Fs):
        def during(self, name: str) -> Any:
            if name == "commit-record":
                began.set()
                assert may.wait(60)
            return super().during(name)

    said: list[str] = []
    with LogWriter(Slow(), Layout(tmp_path), warn=said.append, every_s=0.01, end_s=60) as log:
        log.add(ADMIN, {"Affected": 1})
        assert began.wait(60)
        log.add(ADMIN, {"Affected": 2})  # at once, while the first is written
        may.set()
    assert [row["Affected"] for row in rows_of(tmp_path, ADMIN)] == [1, 2] and said == []


def test_the_end_does_not_wait_for_a_disk_that_hangs(tmp_path: Path) -> None:
    may = threading.Event()

    class Hangs(Fs):
        def during(self, name: str) -> Any:
            assert may.wait(60)
            return super().during(name)

    said: list[str] = []
    with LogWriter(Hangs(), Layout(tmp_path), warn=said.append, end_s=0.0) as log:
        log.add(ADMIN, {"Affected": 1})
    assert said == ["the log tables are not written within 0 s; rows of the last minute may be lost"]
    may.set()
    assert log._thread is not None
    log._thread.join(60)


def test_rows_of_two_days_are_two_locations(tmp_path: Path) -> None:
    add(tmp_path, ADMIN, {"Affected": 1}, {"Affected": 2, "Timestamp": (int(NOW) + 86_400) * 10**9})
    assert [row["Date"] for row in rows_of(tmp_path, ADMIN)] == [DAY, "2023-11-15"]


@pytest.mark.parametrize("table", LOG_TABLES, ids=lambda table: table.name)
def test_the_columns_of_each_table(tmp_path: Path, table: LogTable) -> None:
    schema = deploy(Fs(), Layout(tmp_path), table.schema())
    assert [column.name for column in schema.stored] == [name for name, _ in table.all_columns]
    add(tmp_path, table, {})
    (row,) = rows_of(tmp_path, table)
    assert {name for name, value in row.items() if value is not None} == {"Date", "Timestamp", "RunId", "Host"}


def test_what_is_logged_of_the_command_line() -> None:
    assert logged_command(("truncate", "A.B", "--date", "2026-01-01")) == "truncate"
    assert logged_command(("quarantine", "drop", "A.B", "s")) == "quarantine drop"
    for words in (
        ("read", "A.B"),
        ("epochs", "list", "A.B", "s"),
        ("merge", "--status"),
        ("truncate", "A.B", "--dry-run"),
        ("merge", "SparkhavenInternal.IngestLog", "--closed"),
        (),
    ):
        assert logged_command(words) is None
    assert table_of(("merge", "x.toml", "A.B")) == TableName("A", "B") and table_of(("recover",)) is None


def test_logged_commands_exist() -> None:
    from docs.generate.commands import commands

    known = {words.removeprefix("sparkhaven ") for words, _ in commands()}
    assert {" ".join(path) for path in LOGGED} <= known


def test_errors_of_commands_become_rows() -> None:
    error = {"type": "CommitError", "what": "no space", "exit_code": 3}
    table = TableName("A", "B")
    (row,) = merge_rows(table, [{"table": "A.B", "date": "d", "rows_in": 5, "rows_out": 0, "error": error}], 7)
    assert (row["Outcome"], row["Message"], row["RowsDropped"]) == ("failed", "CommitError: no space", None)
    (row,) = validation_rows(table, [{"date": "d", "error": error}])
    assert (row["Passed"], row["TableName"], row["Message"]) == (False, "B", "CommitError: no space")
    ((_, row),) = admin_rows(table, "truncate", ["truncate", "A.B"], [{"error": error}], 3)
    assert (row["Outcome"], row["ExitCode"], row["Affected"], row["Arguments"]) == ("failed", 3, None, "A.B")
    found = admin_rows(table, "quarantine requeue", ["quarantine"], [{"stream": "s", "sent": 4, "epochs": [9]}], 0)
    assert [(each.name, row.get("Epoch"), row.get("Kind"), row.get("Affected")) for each, row in found] == [
        ("AdminLog", None, None, 4),
        ("EpochLog", 9, "requeue", None),
    ]
