"""Log tables: what a stream and the commands write to them, read as any other table; and that they disturb nothing."""

from __future__ import annotations

import json
import time
from hashlib import sha256
from pathlib import Path
from threading import Barrier, Event

import pytest

from sparkhaven.jobs.cli.context import is_logged
from sparkhaven.jobs.monitor.doctor.checks import dates
from sparkhaven.jobs.monitor.doctor.finding import CheckContext
from sparkhaven.jobs.monitor.logs.command_rows import (
    FinishedCommand,
    admin_rows,
    log_command,
    merge_rows,
    storage_rows,
    table_of,
    validation_rows,
    writing,
)
from sparkhaven.jobs.monitor.logs.log_tables import (
    ADMIN,
    EPOCH,
    INGEST,
    LOG_TABLES,
    MERGE,
    STORAGE,
    VALIDATION,
    LogTable,
)
from sparkhaven.jobs.monitor.logs.log_writer import LogWriter
from sparkhaven.jobs.monitor.storage import disk_use
from sparkhaven.store.framing import frame, scan
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout, TableName
from sparkhaven.store.merges.merge_run import MergePhase
from sparkhaven.store.places import TablePlace
from sparkhaven.store.schema.deployed.deploy import deploy, load_deployed, user_tables
from tests.support.commands import run, run_json
from tests.support.streams.log_rows import NOW, add, rows_of
from tests.unit.jobs.streams.test_once_here import make, put


@pytest.fixture(autouse=True)
def logs_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARKHAVEN_LOGS", "on")
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)


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
    log = Layout(root).stream_log(TableName("Test", "Event"), "s").read_bytes()
    frames = [frame(found.payload) for found in scan(log).frames if b'"commit"' in found.payload]
    assert [row["Digest"] for row in epochs] == [sha256(data).hexdigest() for data in frames]
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
    assert [path.name for path in log.parent.iterdir()] == ["s.failure"]
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
    assert len(listed["tables"]) == 4
    assert [json.loads(line)["table"] for line in run(root, "stats", "--json").stdout.splitlines()] == ["Test.Event"]
    assert len(run(root, "stats", "--all", "--json").stdout.splitlines()) == 4
    assert run_json(root, "stats", "SparkhavenInternal.IngestLog")[1]["rows"] == 2
    assert "SparkhavenInternal" not in run(root, "merge", "--status").stdout
    assert run_json(root, "verify", "--deep")[1]["tables"] == 1
    assert run_json(root, "verify", "SparkhavenInternal.IngestLog")[1]["rows"] == 2
    log, context = INGEST.table, CheckContext(Fs(), Layout(root), NOW, "h", {})
    assert not any("SparkhavenInternal" in str(found) for found in dates(context))
    context.only = [log]
    assert any("SparkhavenInternal" in str(found) for found in dates(context))
    assert "SparkhavenInternal.IngestLog" in run(root, "merge", "SparkhavenInternal.IngestLog", "--status").stdout
    (data,) = Layout(root).intraday(INGEST.table).rglob("Rows.dat")
    data.unlink()
    assert "IngestLog" in run(root, "verify").stdout, "checked, though not counted"


@pytest.mark.slow
def test_commands_that_change_a_table_are_logged_and_dry_runs_as_such(tmp_path: Path) -> None:
    root, file = tmp_path / "db", make(tmp_path)
    for number in (1, 2):
        put(tmp_path, number)
    run(root, "--no-logs", "ingest", file, "--once")
    words = ["epochs", "rollback", "Test.Event", "s", "--to", "1"]
    assert run(root, *words[:4], "--to", "99").exit_code == 2
    assert not (root / "Intraday/SparkhavenInternal").exists()
    assert run(root, *words, "--dry-run").exit_code == 0
    assert not (root / "Intraday/SparkhavenInternal/EpochLog").exists(), "it has made no epoch"
    assert run(root, *words).exit_code == 0
    trial, row = rows_of(root, ADMIN)
    assert (trial["DryRun"], trial["Affected"], row["DryRun"]) == (True, 1, False)
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
    assert (epoch["Locations"], epoch["Generation"], epoch["QueryId"]) == (1, 2, None)
    log = Layout(root).stream_log(TableName("Test", "Event"), "s").read_bytes()
    (payload,) = [found.payload for found in scan(log).frames if b'"rollback"' in found.payload]
    assert epoch["Digest"] == sha256(frame(payload)).hexdigest()
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
    *phases, merged = tables["MergeLog"]
    assert [row["Phase"] for row in phases] == [*MergePhase]
    assert all(row["Outcome"] == "phase" and row["DurationMs"] >= 0 and row["RowsIn"] == 1 for row in phases)
    assert sum(row["DurationMs"] for row in phases) <= merged["DurationMs"] + len(phases)
    figures = [merged[name] for name in ("Partition", "Outcome", "RowsIn", "RowsOut", "RowsDropped", "Destinations")]
    assert figures == ["2026-11-22", "merged", 1, 1, 0, 1]
    rules = {row["Rule"]: row for row in tables["ValidationLog"]}
    assert "DigestEqual" in rules and all(row["Passed"] is True for row in rules.values())
    assert {row["Epochs"] for row in rules.values()} == {"s@1"}
    volumes = {row["Volume"]: row for row in tables["StorageLog"] if row["Partition"] is None}
    dates = {row["Volume"]: row for row in tables["StorageLog"] if row["Partition"] == "2026-11-22"}
    assert dates.keys() == {"intraday", "0"} and len(tables["StorageLog"]) == 4
    assert dates["0"]["Files"] == 1 and 0 < dates["0"]["Bytes"] <= volumes["0"]["Bytes"]
    assert volumes["intraday"]["Files"] > 0 < volumes["0"]["Bytes"]
    assert [(row["Command"], row["Affected"]) for row in tables["AdminLog"]] == [
        ("partitions add", None),
        ("truncate", 1),
    ]
    place = TablePlace(Fs(), Layout(root), TableName("Test", "Event"))
    short = {row["Volume"]: row for row in storage_rows(place, listed=1)}  # there are two locations
    assert short["intraday"].keys() == short["0"].keys() == {"Namespace", "TableName", "Volume", "Bytes"}
    committed = disk_use(place, most=0).volumes
    assert {volume: row["Bytes"] for volume, row in short.items()} == {
        name: use.bytes for name, use in committed.items()
    }


@pytest.mark.parametrize("table", LOG_TABLES, ids=lambda table: table.name)
def test_the_columns_of_each_table(tmp_path: Path, table: LogTable) -> None:
    schema = deploy(Fs(), Layout(tmp_path), table.schema())
    assert [column.name for column in schema.stored] == [name for name, _ in table.all_columns]
    add(tmp_path, table, {})
    (row,) = rows_of(tmp_path, table)
    assert {name for name, value in row.items() if value is not None} == {"Date", "Timestamp", "RunId", "Host"}


FORMER = {
    "EpochLog": ("Digest",),
    "StorageLog": ("Partition",),
}


@pytest.mark.parametrize("table", [EPOCH, STORAGE], ids=lambda table: table.name)
def test_a_table_of_an_earlier_release_gets_the_new_columns(tmp_path: Path, table: LogTable) -> None:
    former = LogTable(table.name, table.about, tuple(c for c in table.columns if c[0] not in FORMER[table.name]))
    assert len(former.columns) == len(table.columns) - 1
    add(tmp_path, former, {"TableName": "Old"})
    before = deploy(Fs(), Layout(tmp_path), former.schema())
    add(tmp_path, table, {"TableName": "New", FORMER[table.name][0]: "x"})
    rows = {row["TableName"]: row for row in rows_of(tmp_path, table)}
    assert [rows[name][FORMER[table.name][0]] for name in ("Old", "New")] == [None, "x"]
    after = load_deployed(TablePlace(Fs(), Layout(tmp_path), table.table))
    assert after.stored[: len(before.stored)] == before.stored, "columns keep their ids"
    add(tmp_path, former, {"TableName": "Older release"})
    assert len(rows_of(tmp_path, table)) == 3


@pytest.mark.slow
def test_a_removal_after_a_validation_and_dry_runs_are_rows_of_the_admin_log(tmp_path: Path) -> None:
    root, file = tmp_path / "db", make(tmp_path)
    put(tmp_path, 1)
    run(root, "--no-logs", "ingest", file, "--once")
    date = ["Test.Event", "--date", "2026-11-22"]
    assert run(root, "merge", *date, "--local", "--dry-run").exit_code == 0
    assert not (root / "Intraday/SparkhavenInternal/MergeLog").exists()
    assert run(root, "--no-logs", "merge", *date, "--local").exit_code == 0
    for words in (["--dry-run"], ["--delete-after"], ["--delete-after", "--grace", "0"]):
        assert run(root, "validate", *date, *words).exit_code == 0
    rows = [(row["Command"], row["DryRun"], row["Affected"]) for row in rows_of(root, ADMIN)]
    assert rows == [
        ("merge", True, 0),
        ("validate", True, None),
        ("validate", False, 1),
        ("validate", False, 1),
    ]
    rules = rows_of(root, VALIDATION)
    assert len({row["RunId"] for row in rules}) == 2 and all(row["Rule"] for row in rules)


def test_what_is_logged_of_the_command_line() -> None:
    assert is_logged("truncate", ("truncate", "A.B", "--dry-run"))
    assert is_logged("quarantine drop", ("quarantine", "drop", "A.B", "s"))
    assert is_logged("some new command", ())
    for command, words in (
        ("read", ("A.B",)),
        ("epochs list", ("A.B", "s")),
        ("merge", ("--status",)),
        ("truncate", ("A.B", "--help")),
        ("merge", ("SparkhavenInternal.IngestLog", "--closed")),
        ("", ()),
    ):
        assert not is_logged(command, words)
    assert table_of(("merge", "x.toml", "A.B")) == TableName("A", "B") and table_of(("recover",)) is None


def test_errors_of_commands_become_rows() -> None:
    error = {"type": "CommitError", "what": "no space", "exit_code": 3}
    table = TableName("A", "B")
    (row,) = merge_rows(table, [{"table": "A.B", "date": "d", "rows_in": 5, "rows_out": 0, "error": error}], 7)
    assert (row["Outcome"], row["Message"], row["RowsDropped"]) == ("failed", "CommitError: no space", None)
    (row,) = validation_rows(table, [{"date": "d", "error": error}])
    assert (row["Passed"], row["TableName"], row["Message"]) == (False, "B", "CommitError: no space")
    failed = FinishedCommand("truncate", ["truncate", "A.B"], [{"error": error}], 3, 0.0)
    ((_, row),) = admin_rows(table, failed)
    assert (row["Outcome"], row["ExitCode"], row["Affected"], row["Arguments"]) == ("failed", 3, None, "A.B")
    sent = {"stream": "s", "sent": 4, "epochs": [9]}
    found = admin_rows(table, FinishedCommand("quarantine requeue", ["quarantine"], [sent], 0, 0.0))
    assert [(each.name, row.get("Epoch"), row.get("Kind"), row.get("Affected")) for each, row in found] == [
        ("AdminLog", None, None, 4),
        ("EpochLog", 9, "requeue", None),
    ]


def test_rows_are_written_while_files_are_looked_at(tmp_path: Path) -> None:
    begun, looked, ended = Event(), Event(), Event()

    class Writer(LogWriter):
        def flush(self, only: LogTable | None = None) -> bool:
            begun.set()
            assert looked.wait(60)
            time.sleep(0.2)  # whoever does not wait is well ahead of it
            done = super().flush(only)
            ended.set()
            return done

    with pytest.raises(KeyError), writing(Writer(Fs(), Layout(tmp_path), warn=pytest.fail)):
        assert begun.wait(60)
        looked.set()
        raise KeyError
    assert ended.is_set(), "nobody writes on when the rest is added"


def test_both_tables_of_a_merge_are_written_at_once_and_told_of_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    both, tried, told = Barrier(2), list[LogTable](), list[str]()

    def fail(place: TablePlace, table: LogTable, rows: object, **_: object) -> None:
        tried.append(table)
        if tried.count(table) == 1:  # later each is tried again
            both.wait(20)
            time.sleep(0.2 if table is MERGE else 0)  # the other one fails first
        raise OSError(28, "No space left on device", str(table.table))

    monkeypatch.setattr("sparkhaven.jobs.monitor.logs.log_writer.append_rows", fail)
    monkeypatch.setattr("sparkhaven.jobs.monitor.logs.command_rows.storage_rows", lambda *_, **__: iter([{"Bytes": 1}]))
    result = {"table": "A.B", "date": "d", "rows_in": 1, "rows_out": 1}
    log_command(Layout(tmp_path), FinishedCommand("merge", ["merge", "A.B"], [result], 0, 1.0), told.append)
    assert [text.partition(" ")[0] for text in told] == [str(table.table) for table in (MERGE, STORAGE)]
    assert all("No space left on device" in text for text in told)
