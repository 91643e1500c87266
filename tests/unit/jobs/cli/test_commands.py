"""Commands over a small database, from the outside: what they say, their exit codes, and what they leave alone."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from sparkhaven.jobs.cli import context, text_table
from sparkhaven.store.errors import CorruptFileError, as_ours
from sparkhaven.store.layout import LocationKey
from tests.support.commands import run, run_json
from tests.support.places import REPOSITORY
from tests.support.tables.intraday_rows import IntradayRows
from tests.support.tables.small_tables import SmallTable
from tests.support.writers.merge_cases import DAY, TABLE
from tests.support.writers.merge_runs import make, merge

NAME = str(TABLE)
LEFT_OUT = {"deltalake", "duckdb", "polars", "pyarrow.dataset", "pyarrow.parquet", "pyspark", "rich", "sqlite3"}


def tree(root: Path) -> dict[str, tuple[int, int]]:
    return {str(path.relative_to(root)): (path.stat().st_mtime_ns, path.stat().st_size) for path in root.rglob("*")}


@pytest.fixture
def db(tmp_path: Path) -> IntradayRows:
    made, _ = make(tmp_path, 40)
    made.log.close()
    return made


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> IntradayRows:
    """A database for commands that must leave it as it is."""
    made, _ = make(tmp_path_factory.mktemp("shared"), 40)
    made.log.close()
    return made


LOOKING = [
    ["read", NAME],
    ["read", NAME, "--epoch", "9"],
    ["sql", f"select count(*) from {NAME}"],
    ["tables"],
    ["stats"],
    ["verify", "--deep"],
    ["recover", "--dry-run"],
    ["epochs", "list", NAME, "rows"],
    ["epochs", "show", NAME, "nobody"],
    ["epochs", "rollback", NAME, "rows", "--to", "0", "--dry-run"],
    ["validate", NAME, "--date", DAY],
    ["merge", NAME, "--date", DAY, "--dry-run"],
    ["merge", NAME, "--date", "2013-12-24", "--dry-run"],
    ["truncate", NAME, "--date", DAY, "--dry-run"],
    ["delete", NAME, "--date", DAY, "--dry-run"],
    ["schema", "show", NAME],
    ["partitions", "list", TABLE.namespace],
    ["partitions", "add", TABLE.namespace, "7", "--dry-run"],
]


@pytest.mark.slow
@pytest.mark.parametrize("words", LOOKING, ids=" ".join)
def test_looking_changes_nothing(shared: IntradayRows, words: list[str]) -> None:
    before = tree(shared.root)
    found = run(shared.root, *words)
    assert found.exit_code in (0, 1, 2), found.stderr
    assert "Traceback" not in found.stderr and "unexpected error" not in found.stderr
    assert tree(shared.root) == before


@pytest.mark.parametrize("words", LOOKING, ids=" ".join)
def test_no_command_makes_a_root_by_looking(tmp_path: Path, words: list[str]) -> None:
    code, value = run_json(tmp_path / "typo", *words)
    if words[:2] == ["partitions", "add"]:
        assert code == 0
    else:
        assert (code, value["error"]["what"]) == (2, "no such database root")
    assert not (tmp_path / "typo").exists()


def test_a_root_that_is_a_file_is_reported(tmp_path: Path) -> None:
    root = tmp_path / "file"
    root.write_text("")
    for words in (["tables"], ["partitions", "add", "NS", "0"], ["ingest", "x.toml"]):
        code, value = run_json(root, *words)
        assert (code, value["error"]["what"]) == (2, "the database root is not a directory")


@pytest.mark.parametrize("name", ["../x", "a/b.c", "", "NS.", ".T", "NS.T.U", "NS.T/..", "NS.\n", "NS.é"])
@pytest.mark.parametrize("words", [["read"], ["stats"], ["verify"], ["recover"], ["merge", "--date", DAY, "--local"]])
def test_hostile_table_names_never_become_paths(shared: IntradayRows, words: list[str], name: str) -> None:
    before = tree(shared.root)
    code, value = run_json(shared.root, *words, name)
    assert (code, value["error"]["type"]) == (2, "InvalidNameError")
    assert tree(shared.root) == before


@pytest.mark.parametrize("words", [["stats"], ["verify"], ["recover"], ["read"], ["schema", "show"]], ids=" ".join)
def test_a_table_that_is_not_there_is_a_usage_error(shared: IntradayRows, words: list[str]) -> None:
    code, value = run_json(shared.root, *words, "Nobody.Here")
    assert (code, value["error"]["type"]) == (2, "TableNotFoundError")


def test_a_namespace_that_is_not_there_is_a_usage_error(shared: IntradayRows) -> None:
    assert run_json(shared.root, "partitions", "list", "Nobody")[1]["error"]["what"] == "no namespace Nobody"
    assert run_json(shared.root, "partitions", "list", TABLE.namespace)[0] == 0


def test_the_first_storage_partition_of_a_namespace_without_tables_is_told(db: IntradayRows) -> None:
    """A typing error makes a namespace, so it is seen at once."""
    typed = run(db.root, "partitions", "add", "Tset", "0", "--json")
    assert (
        json.loads(typed.stdout)["new_namespace"]
        and f"it has no table yet. There are {TABLE.namespace}" in typed.stderr
    )
    for words in ((TABLE.namespace, "0"), ("Tset", "1"), ("SparkhavenInternal", "0")):
        quiet = run(db.root, "partitions", "add", *words, "--json")
        assert not json.loads(quiet.stdout)["new_namespace"] and quiet.stderr == ""


@pytest.mark.parametrize("words", [["0.g2"], ["a/b"], ["9", "--volume", "/nowhere"]], ids=" ".join)
def test_a_dry_run_of_a_new_partition_refuses_what_the_command_refuses(db: IntradayRows, words: list[str]) -> None:
    done, dry = (run(db.root, "partitions", "add", "Test", *words, *more) for more in ([], ["--dry-run"]))
    assert (dry.exit_code, dry.stderr) == (done.exit_code, done.stderr) == (2, done.stderr)
    assert run(db.root, "partitions", "add", "Test", "9", "--dry-run").exit_code == 0


@pytest.mark.parametrize("command", ["list", "drop", "requeue"])
def test_an_unknown_reason_is_no_reason_without_rows(shared: IntradayRows, command: str) -> None:
    code, value = run_json(shared.root, "quarantine", command, NAME, "rows", "--reason", "overflwo")
    assert (code, value["error"]["what"]) == (2, "unknown reason of a rejected row")
    assert "overflow" in value["error"]["expected"]
    assert run(shared.root, "quarantine", command, NAME, "rows", "--reason", "overflow").exit_code == 0


# --- dates ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("words", [["read", NAME, "--date"], ["merge", NAME, "--local", "--dates"]], ids=" ".join)
@pytest.mark.parametrize(
    ("dates", "what"),
    [
        ("2024-03-06..2024-03-05", "ends before it begins"),
        ("2024-03-05..", "missing its start or end"),
        ("..2024-03-05", "missing its start or end"),
        ("../x", "cannot become a path"),
        ("a..b/c", "cannot become a path"),
    ],
)
def test_ranges_that_hold_nothing_are_refused(shared: IntradayRows, words: list[str], dates: str, what: str) -> None:
    code, value = run_json(shared.root, *words, dates)
    assert code == 2
    assert what in value["error"]["what"]


ASKING = [["read", NAME], ["export", NAME, "--out", "{out}"], ["merge", NAME, "--local"], ["validate", NAME]]
ASKING += [["truncate", NAME, "--dry-run"], ["delete", NAME, "--dry-run"]]
MALFORMED = ["2026-13-45", "yesterday", "2026-02-30", "20261345", "2026-11-2", "2026-11-20T25", "x..y", "now"]
MALFORMED += ["2026-13-45..2026-13-50", "2024-03-05..2026-13-01", "2024-03-05..yesterday", " 2024-03-05", "2024-13"]


@pytest.mark.slow
@pytest.mark.parametrize("option", ["--dates", "--date"])
@pytest.mark.parametrize("words", ASKING, ids=lambda words: words[0])
def test_what_is_no_date_is_refused_alike_by_every_command(
    shared: IntradayRows, tmp_path: Path, words: list[str], option: str
) -> None:
    asked = [word.format(out=tmp_path / "out") for word in words]
    for date in MALFORMED:
        found = run(shared.root, *asked, option, date, "--json")
        error = json.loads(found.stdout)["error"]
        assert (found.exit_code, error["what"], error["found"]) == (2, "malformed date", repr(date)), date
        assert error["expected"] == f"a date like {DAY}, or a range of dates A..B"
    for date in ("2024-03-05..2024-03-05", "2024-03..2024-03", "2023..2025"):
        assert run(shared.root, *asked, option, date, "--json").stdout.find("malformed") == -1, date


@pytest.mark.parametrize(
    "words", [["read"], ["export", "--out", "{out}"], ["delete-rows", "--where", "true"]], ids=" ".join
)
def test_a_date_without_the_dashes_of_the_table_is_refused(
    shared: IntradayRows, tmp_path: Path, words: list[str]
) -> None:
    """As a text it would name nothing, and a range of such dates no row."""
    asked = [word.format(out=tmp_path / "out") for word in words]
    for date in ("20240305", "20240301..20240331"):
        found = run(shared.root, asked[0], NAME, *asked[1:], "--dates", date, "--json")
        error = json.loads(found.stdout)["error"]
        assert (found.exit_code, error["what"], error["found"]) == (2, "malformed date", repr(date))


def test_an_import_makes_no_date_without_the_dashes_of_the_table(db: IntradayRows) -> None:
    assert run(db.root, "merge", NAME, "--dates", DAY, "--local").exit_code == 0
    words = "import", NAME, "--from", f"select * exclude (Date) from {NAME}", "--dates"
    found = run(db.root, *words, "20240305", "--dry-run")
    assert (found.exit_code, "malformed date" in found.stderr) == (2, True), found.output


@pytest.mark.slow
def test_dates_may_be_named_together(db: IntradayRows) -> None:
    log = db.log = db.open()
    db.commit({("a", "2024-03-04"): pa_rows(db), ("a", "2024-03-07"): pa_rows(db), ("a", "2024-03-08"): pa_rows(db)})
    log.close()
    words = "--dates", "2024-03-07..2024-03-09", "--date", "2024-03-04", "--dates", "2024-03-08", "--local"
    found = run(db.root, "merge", NAME, *words, "--json")
    assert [json.loads(line)["date"] for line in found.stdout.splitlines()] == [
        "2024-03-04",
        "2024-03-07",
        "2024-03-08",
    ]
    assert run_json(db.root, "merge", NAME, "--dates", DAY, "--closed")[0] == 2
    assert run_json(db.root, "merge", NAME)[1]["error"]["expected"] == "--dates D|A..B or --closed"
    assert run_json(db.root, "validate", NAME)[1]["error"]["expected"] == "--dates D|A..B"


@pytest.mark.parametrize("date", ["../x", "", ".hidden", "a/b", "x\0y"])
@pytest.mark.parametrize("command", ["merge", "validate", "truncate", "delete"])
def test_hostile_dates_never_become_paths(shared: IntradayRows, command: str, date: str) -> None:
    before = tree(shared.root)
    code, value = run_json(shared.root, command, NAME, "--date", date)
    assert (code, value["error"]["type"]) == (2, "InvalidNameError")
    assert tree(shared.root) == before


def test_a_merge_tells_its_errors_whole(db: IntradayRows) -> None:
    code, value = run_json(db.root, "merge", NAME, "--date", "2013-12-24", "--local")
    assert code == 2, "as `validate` of a date that the table does not have"
    assert (value["date"], value["outcome"]) == ("2013-12-24", "failed")
    assert {"type", "what", "where", "expected", "found", "hint", "exit_code", "retryable"} <= value["error"].keys()
    assert run_json(db.root, "merge", NAME, "--date", "2013-12-24", "--local", "--allow-empty")[0] == 0


def test_a_merge_says_what_it_would_do_and_that_nothing_is_left_to_do(db: IntradayRows) -> None:
    planned = run_json(db.root, "merge", NAME, "--date", DAY, "--local", "--dry-run")[1]
    assert (planned["outcome"], planned["rows_in"], planned["dry_run"]) == ("planned", 40, True)
    done = run_json(db.root, "merge", NAME, "--date", DAY, "--local", "--memory", "1000000000")[1]
    assert (done["outcome"], done["rows_out"], done["dry_run"]) == ("merged", 40, False)
    assert "nothing new" in run(db.root, "merge", NAME, "--date", DAY, "--local").stdout


def test_a_date_without_proof_keeps_no_other_from_being_truncated(db: IntradayRows) -> None:
    log = db.log = db.open()
    db.commit({("a", "2024-03-04"): pa_rows(db), ("a", "2024-03-06"): pa_rows(db)})
    log.close()
    merge(db.layout, DAY)
    found = run(db.root, "truncate", NAME, "--dates", "2024-03-04..2024-03-06", "--json")
    lines = [json.loads(line) for line in found.stdout.splitlines()]
    assert [(line["date"], "error" in line) for line in lines] == [
        ("2024-03-04", True),
        (DAY, False),
        ("2024-03-06", True),
    ]
    assert found.exit_code == lines[0]["error"]["exit_code"] == 2
    assert lines[1]["rows"] == 40


def pa_rows(db: IntradayRows) -> Any:
    from sparkhaven.readers import open_table

    return open_table(db.root, NAME).to_arrow(dates=DAY).slice(0, 3).drop_columns(["Date"])


def test_a_delete_before_its_time_is_worth_retrying(db: IntradayRows) -> None:
    merge(db.layout)
    assert run_json(db.root, "truncate", NAME, "--date", DAY)[0] == 0
    code, value = run_json(db.root, "delete", NAME, "--date", DAY)
    assert (code, value["error"]["type"], value["error"]["retryable"]) == (3, "TooEarlyError", True)
    assert run_json(db.root, "delete", NAME, "--date", DAY, "--grace", "0")[0] == 0


# --- damage --------------------------------------------------------------------------------------------------------


def add_damaged_table(root: Path) -> Path:
    """A second table, whose commit log is cut inside its header."""
    xml = b'<Table namespace="AA" name="Bad" storageType="NestedPartitionedOnDisk">'
    xml += b'<Partitions keyFormula="${autobalance_single}"/><Column name="Date" dataType="String"'
    xml += b' columnType="Partitioning"/><Column name="x" dataType="int"/></Table>'
    other = IntradayRows(root, xml)
    other.log.close()
    log = other.layout.stream_log(other.table, "rows")
    log.write_bytes(log.read_bytes()[:7])
    return log


def test_a_table_that_cannot_be_read_is_bad_data_and_hides_no_other(db: IntradayRows) -> None:
    add_damaged_table(db.root)
    code, value = run_json(db.root, "tables")
    assert code == 1
    assert [("error" in line, line.get("rows")) for line in value["tables"]] == [(True, None), (False, 40)]
    found = run(db.root, "stats", "--json")
    lines = [json.loads(line) for line in found.stdout.splitlines()]
    assert found.exit_code == 1
    assert [line.get("rows") for line in lines] == [None, 40]
    assert lines[0]["table"] == "AA.Bad"


def test_a_stream_that_cannot_be_recovered_keeps_no_other_from_it(db: IntradayRows) -> None:
    add_damaged_table(db.root)
    torn = db.layout.intraday_location(TABLE, LocationKey("a", DAY)) / "table.size"
    torn.write_bytes(b"torn")
    for words, published in ((["recover", "--dry-run"], False), (["recover"], True)):
        code, value = run_json(db.root, *words)
        assert code == 1
        assert [("error" in line, line.get("republished")) for line in value["streams"]] == [(True, None), (False, 1)]
        assert [line["table"] for line in value["findings"]] == ["AA.Bad"]
        assert (torn.read_bytes() != b"torn") == published


def test_a_dry_recovery_tells_what_the_real_one_then_does(db: IntradayRows) -> None:
    path = db.layout.intraday_location(TABLE, LocationKey("a", DAY))
    column = next(path.glob("*.dat"))
    column.write_bytes(column.read_bytes() + b"x" * 24)
    before = tree(db.root)
    planned = run_json(db.root, "recover", "--dry-run")[1]["findings"][0]
    assert tree(db.root) == before
    done = run_json(db.root, "recover")[1]["findings"][0]
    assert planned["cut_bytes"] == done["cut_bytes"] == 24
    assert {**planned, "generation": 0} == {**done, "generation": 0}
    assert run_json(db.root, "recover")[1]["findings"] == []


def test_recovery_is_refused_while_the_stream_runs(db: IntradayRows) -> None:
    with db.open():
        for words in (["recover"], ["recover", "--dry-run"]):
            code, value = run_json(db.root, *words)
            assert (code, value["streams"][0]["error"]["type"]) == (3, "LockLostError")
            assert "process 41 on here" in value["streams"][0]["error"]["found"]


# --- the form of results -------------------------------------------------------------------------------------------


def test_json_has_no_numbers_that_are_none() -> None:
    text = context.json_text({"a": [1.5, float("nan")], "b": {"c": float("inf"), "d": (-float("inf"), "x")}})
    assert json.loads(text, parse_constant=lambda name: pytest.fail(name)) == {
        "a": [1.5, "NaN"],
        "b": {"c": "Infinity", "d": ["-Infinity", "x"]},
    }


def test_values_of_a_table_stand_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    text_table.table(["n", "x", "s"], [[2013, 1234567.5, "tab\there \x1b[31mé"]], data=True)
    out = capsys.readouterr().out
    assert "2013" in out and "1234567.5" in out and "tab\\there \\x1b[31mé" in out


def test_what_the_system_refuses_is_an_error_with_its_exit_code() -> None:
    full = as_ours(OSError(28, "No space left on device", "/db/x"))
    assert (full.exit_code, full.retryable, full.where) == (3, True, "/db/x")
    assert as_ours(PermissionError(13, "Permission denied", "/db")).exit_code == 2
    ours = CorruptFileError("x")
    assert as_ours(ours) is ours


@pytest.mark.slow
@pytest.mark.parametrize(
    "code",
    [
        "import sys; import sparkhaven.jobs.cli.main as cli; sys.argv = ['sparkhaven', '--version']; cli.main()",
        "from sparkhaven.jobs.cli.main import OnUse; OnUse()['stats']",
    ],
    ids=["at its end", "once a command is imported"],
)
def test_a_process_searches_nothing_that_was_imported_for_cycles(code: str) -> None:
    code = f"import atexit, gc; atexit.register(lambda: print('left:', len(gc.get_objects()))); {code}"
    done = subprocess.run([sys.executable, "-c", code], cwd=REPOSITORY, capture_output=True, text=True, check=True)
    assert int(done.stdout.rpartition("left:")[2]) < 1000


@pytest.mark.slow
def test_a_short_read_imports_no_large_library_that_it_does_not_need(tmp_path: Path) -> None:
    small = SmallTable(tmp_path)
    small.add("a", "2026-11-20", {"Size": [1, None, 3]})
    small.log().close()
    code = (
        "import atexit, sys; sys.argv[1:] = sys.argv[1].split(); from sparkhaven.jobs.cli.main import main\n"
        "atexit.register(lambda: print(*sorted(sys.modules), file=sys.stderr)); main()"
    )
    line = [sys.executable, "-c", code, f"--root {tmp_path} read NS.T --columns Size --limit 2"]
    done = subprocess.run(line, cwd=REPOSITORY, capture_output=True, text=True, check=True)
    assert done.stdout.split()[:3] == ["Size", "1", "-"], done.stdout
    assert LEFT_OUT & set(done.stderr.split()) == set()


def test_a_directory_that_is_no_database_has_no_tables(tmp_path: Path) -> None:
    (tmp_path / "some.file").write_text("")
    code, value = run_json(tmp_path, "tables")
    assert (code, value["error"]["what"]) == (2, "the directory is no database")
    (tmp_path / "Schemas").mkdir()
    assert run_json(tmp_path, "tables") == (0, {"tables": []})
