"""The DAGs in a real Airflow: their import and structure, nights of real flights, and what ends a night."""

from __future__ import annotations

import itertools
import json
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from demo.feed import rows
from sparkhaven.jobs.session.submit_zip import write_zip
from sparkhaven.readers.arrow.opening import open_table
from sparkhaven.store.layout import Layout, TableName
from tests.support.airflow_home import PYTHON, AirflowHome
from tests.support.commands import run
from tests.support.places import REPOSITORY
from tests.support.spark.forked_python import PROGRAM as FORKED
from tests.support.spark.forked_python import start_server
from tests.support.tables.flight_table import ORIGINS, SCHEMA, STREAM, WRITTEN_S, column_values, write_flights
from tests.support.tables.small_tables import SmallTable

RUNS = ("dry", "night", "backfill", "ingest_health", "scrub", "beside_writes")
ALL = "2013-01-01", "2013-01-02", "2013-01-03"
ROWS = {"2013-01-01": 842, "2013-01-03": 914}
FEW = 321  # flights of JFK on the second date: fewer than the schema's rule allows
STEPS = ("wait", "merge", "validate", "publish", "truncate", "grace", "delete")
PATIENCE = 600
OLD = "2010-01-01"  # beyond the retention until 2026 and for years
LATE = """
from pathlib import Path
from tests.support.tables.flight_table import write_flights
write_flights(Path("{root}"), {{"2013-01-01": ("JFK",)}}, name="Copy", batches=200)
"""

pytestmark = [pytest.mark.airflow, pytest.mark.spark]


@dataclass(frozen=True, slots=True)
class Found:
    """What the runs have left."""

    home: AirflowHome
    results: dict[str, Any]

    def states(self, run: dict[str, Any], label: str, number: int = 0) -> dict[str, str]:
        """The states of the steps of a night, by its number in the run."""
        return {step: run["tasks"].get(f"{label}.night.{step}[{number}]", ["-"])[0] for step in STEPS}

    def rows(self, table: str, date: str, tier: str) -> int:
        return open_table(self.home.root, table).count(dates=[f"{date}..{date}"], tier=tier)


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Found:
    assert PYTHON.exists(), "Airflow's environment is missing: make setup-airflow"
    start_server()
    # it runs a hundred commands; those of `test_server` are the real program
    home = AirflowHome(tmp_path_factory.mktemp("airflow"), FORKED)
    write_flights(home.root, {"2013-01-01": ORIGINS})
    write_flights(home.root, dict.fromkeys(ALL, ORIGINS) | {"2013-01-02": ("JFK",)}, name="Copy", twice="2013-01-03")
    merge_old_date(home.root)
    write_zip(home.base / "sparkhaven.zip")
    lock = Layout(home.root).merges(TableName.parse("Nyc13.Copy")) / ".lock"
    lock.parent.mkdir(parents=True, exist_ok=True)
    target = home.base / "found.json"
    script = REPOSITORY / "tests" / "dags" / "night_runs.py"
    with (home.base / "log.txt").open("w") as log:
        late = shlex.join([sys.executable, "-c", LATE.format(root=home.root)])
        environ = home.environ(NIGHT_LOCK=str(lock), NIGHT_LATE=f"cd {REPOSITORY} && PYTHONPATH={REPOSITORY} {late}")
        line = [str(PYTHON), str(script), str(target), *RUNS]
        done = subprocess.run(line, env=environ, stdout=log, stderr=log, cwd=home.base, timeout=PATIENCE, check=False)
    end = "\n".join((home.base / "log.txt").read_text(errors="replace").splitlines()[-40:])
    assert done.returncode == 0, end
    return Found(home, json.loads(target.read_text(encoding="utf-8")))


def test_every_dag_is_imported_with_tags_owners_pools_and_its_page(found: Found) -> None:
    structure = found.results["structure"]
    assert structure["errors"] == {}
    assert structure["hidden"] == [], "a module beside the DAGs hides a package of Airflow's environment"
    assert set(structure["dags"]) == {"end_of_day", "ingest_health", "scrub", "catch_up"}
    for dag in structure["dags"].values():
        assert "sparkhaven" in dag["tags"] and dag["doc"].strip() and dag["runs"] >= 1 and dag["tasks"]
        assert all(task["alert"] and task["timeout"] for task in dag["tasks"].values())
    assert set(structure["dags"]["end_of_day"]["params"]) == {"date", "tables", "force", "dry_run"}
    assert set(structure["dags"]["ingest_health"]["tasks"]) == {"Nyc13_Copy", "Nyc13_Flight"}
    assert structure["dags"]["catch_up"]["tasks"]["flights"]["kind"] == "JobOperator"


def test_truncate_stands_behind_validate_and_nothing_else_leads_to_it(found: Found) -> None:
    tasks = found.results["structure"]["dags"]["end_of_day"]["tasks"]
    before = {step: {*tasks[f"Nyc13_Flight.night.{step}"]["before"]} - {"Nyc13_Flight.dates"} for step in STEPS}
    chain = ("wait", "merge", "validate", "truncate", "grace", "delete")
    assert all(before[after] == {f"Nyc13_Flight.night.{step}"} for step, after in itertools.pairwise(chain))
    assert before["publish"] == {"Nyc13_Flight.night.validate"}
    merges = {label: tasks[f"{label}.night.merge"]["kind"] for label in ("Nyc13_Flight", "Nyc13_Copy")}
    assert merges == {"Nyc13_Flight": "JobOperator", "Nyc13_Copy": "CommandOperator"}
    assert tasks["Nyc13_Flight.night.merge"]["owner"] == "somebody"
    assert tasks["Nyc13_Copy.night.publish"]["outlets"] == ["Nyc13.Copy"]
    one_at_a_time = {step for step in STEPS if tasks[f"Nyc13_Copy.night.{step}"]["one"]}
    assert one_at_a_time == {"merge", "validate", "truncate", "delete"}, "they share the lock of the table"


def test_a_dry_run_ends_after_the_merge_and_merges_nothing(found: Found) -> None:
    run = found.results["dry"]
    states = found.states(run, "Nyc13_Copy")
    assert run["state"] == "success" and (states["wait"], states["merge"]) == ("success", "success")
    assert {states[step] for step in STEPS[2:]} == {"skipped"}
    assert run["events"] == []
    assert f"| Nyc13.Copy | 2013-01-01 | merged | {ROWS['2013-01-01']} |" in report_of(found, found.results["night"])


def test_a_night_through_spark_submit_and_one_in_a_process_move_a_date_to_history(found: Found) -> None:
    run = found.results["night"]
    assert run["state"] == "success" and run["interval"] == [None, None], run
    rows = ROWS["2013-01-01"]
    for table in ("Flight", "Copy"):
        assert found.states(run, f"Nyc13_{table}") == dict.fromkeys(STEPS, "success")
        assert found.rows(f"Nyc13.{table}", "2013-01-01", "history") == rows
        assert found.rows(f"Nyc13.{table}", "2013-01-01", "intraday") == 0
    events = {(name, partition, extra["rows_out"]) for name, partition, extra in run["events"]}
    assert events == {(f"Nyc13.{table}", "2013-01-01", rows) for table in ("Flight", "Copy")}


def test_a_locked_table_is_tried_again(found: Found) -> None:
    tasks = found.results["night"]["tasks"]
    assert [tasks[f"Nyc13_{table}.night.merge[0]"][1] for table in ("Flight", "Copy")] == [1, 2]


def test_a_backfill_gives_each_run_the_date_that_closed_in_its_interval(found: Found) -> None:
    runs = found.results["backfill"]
    assert [run["interval"][1] for run in runs] == [f"2013-01-0{n}T08:30:00+00:00" for n in (2, 3, 4)]
    assert [run["state"] for run in runs] == ["success", "failed", "success"]
    assert found.states(runs[2], "Nyc13_Copy", 1) == dict.fromkeys(STEPS, "success")
    assert found.rows("Nyc13.Copy", "2013-01-03", "history") == ROWS["2013-01-03"]
    assert found.rows("Nyc13.Copy", "2013-01-03", "intraday") == 0


def test_a_backfill_is_created_while_others_write_to_the_database_of_airflow(found: Found) -> None:
    made = found.results["beside_writes"]
    assert made[:1] == ["backfill__2013-02-02T08:30:00+00:00"] and len(made) == 7, made


def test_a_finished_night_run_again_changes_nothing(found: Found) -> None:
    run = found.results["backfill"][0]
    assert found.states(run, "Nyc13_Copy") == dict.fromkeys(STEPS, "success")
    assert "| Nyc13.Copy | 2013-01-01 | merged before | 0 |" in report_of(found, run)
    assert found.rows("Nyc13.Copy", "2013-01-01", "history") == ROWS["2013-01-01"]


def test_exit_codes_1_and_2_are_not_tried_again(found: Found) -> None:
    ends = ("-", "AirflowFailException", "AirflowFailException", "AirflowException")
    assert found.results["conclusions"] == {str(code): name for code, name in enumerate(ends)}


def test_the_result_of_a_job_is_read_from_its_file_whatever_the_output_has(found: Found) -> None:
    assert found.results["joined"] == {"rows": 7}


def test_a_failed_validation_ends_the_night_before_anything_is_truncated(found: Found) -> None:
    run = found.results["backfill"][1]
    states = found.states(run, "Nyc13_Copy")
    assert (states["merge"], states["validate"]) == ("success", "failed")
    assert {states[step] for step in STEPS[3:]} == {"upstream_failed"}
    assert run["tasks"]["Nyc13_Copy.night.validate[0]"][1] == 1, "bad data is not tried again"
    assert run["tasks"]["report[-1]"][0] == "failed"
    assert found.rows("Nyc13.Copy", "2013-01-02", "intraday") == FEW
    assert ("Nyc13.Copy", "2013-01-02") not in {(name, date) for name, date, _ in run["events"]}
    alert = found.home.alerts.read_text(encoding="utf-8")
    assert "end_of_day Nyc13_Copy.night.validate[0] failed, try 1, owner nobody" in alert
    assert f"Nyc13.Copy 2013-01-02: rule assertSize: measured {FEW}" in alert
    assert "by hand: sparkhaven --root" in alert and "validate Nyc13.Copy --dates 2013-01-02 -v" in alert


def test_the_report_has_every_night(found: Found) -> None:
    backfill = found.results["backfill"]
    assert "| Nyc13.Copy | 2013-01-03 | merged | 914 | 26 of 26 | 1,828 |" in report_of(found, backfill[2])
    assert "| Nyc13.Copy | 2013-01-02 | FAILED at validate |" in report_of(found, backfill[1])


def test_late_rows_make_their_date_a_night_that_merges_it_again_without_doubles(found: Found) -> None:
    run = found.results["backfill"][2]
    assert found.states(run, "Nyc13_Copy") == dict.fromkeys(STEPS, "success")
    assert "| Nyc13.Copy | 2013-01-01 | merged | 842 | 26 of 26 | 297 |" in report_of(found, run)
    assert found.rows("Nyc13.Copy", "2013-01-01", "history") == ROWS["2013-01-01"]
    assert found.rows("Nyc13.Copy", "2013-01-01", "intraday") == 0


def test_dates_beyond_the_retention_go_and_snapshots_are_taken_and_removed(found: Found) -> None:
    tasks = found.results["structure"]["dags"]["end_of_day"]["tasks"]
    assert {name for name in tasks if name.endswith((".expire", ".snapshot"))} == {
        "Nyc13_Copy.expire",
        "Nyc13_Copy.snapshot",
    }
    runs = {"dry": found.results["dry"], "night": found.results["night"]}
    runs |= {f"backfill {n}": run for n, run in enumerate(found.results["backfill"])}
    states = {
        name: [run["tasks"][f"Nyc13_Copy.{step}[-1]"][0] for step in ("expire", "snapshot")]
        for name, run in runs.items()
    }
    assert states == {
        "dry": ["skipped"] * 2,
        "night": ["success"] * 2,
        "backfill 0": ["success"] * 2,
        "backfill 1": ["upstream_failed"] * 2,
        "backfill 2": ["success"] * 2,
    }
    assert found.rows("Nyc13.Copy", OLD, "history") == 0
    snapshots = sorted((found.home.base / "backup" / "Nyc13.Copy").iterdir())
    assert len(snapshots) == 2, "three were taken"
    dates = [open_table(path, "Nyc13.Copy").dates(tier="history") for path in snapshots]
    assert sorted(dates, key=len) == [["2013-01-01"], [*ALL]], "of the first and the last run"


def test_an_epoch_older_than_its_limit_is_an_alert(found: Found) -> None:
    tasks = found.results["ingest_health"]["tasks"]
    assert tasks == {"Nyc13_Copy[-1]": ["failed", 1], "Nyc13_Flight[-1]": ["success", 1]}
    text = found.home.alerts.read_text(encoding="utf-8").partition("ingest_health Nyc13_Copy failed")[2]
    assert "Nyc13.Copy flights: the newest epoch is" in text and "limit 60 min while the market is open" in text
    assert "doctor Nyc13.Copy" in text


def test_every_table_is_read_in_its_night(found: Found) -> None:
    run = found.results["scrub"]
    assert run["state"] == "success"
    assert [run["tasks"][f"table.verify[{n}]"][0] for n in range(2)] == ["success", "success"]


def merge_old_date(root: Path) -> None:
    """A date of history that no night is for."""
    table = SmallTable(root, SCHEMA.read_text(encoding="utf-8").replace('name="Flight"', 'name="Copy"', 1), batches=100)
    table.now = WRITTEN_S
    flights = list(itertools.islice(rows(), 700))
    columns = {column.name: column_values(column, flights) for column in table.schema.stored}
    table.add("JFK", OLD, columns, stream=STREAM)
    table.log(STREAM).close()
    for words in (["merge", "--local"], ["validate"], ["truncate"], ["delete", "--grace", "0"]):
        done = run(root, words[0], "Nyc13.Copy", "--dates", OLD, *words[1:])
        assert done.exit_code == 0, done.stdout + done.stderr


def report_of(found: Found, run: dict[str, Any]) -> str:
    path: Path = found.home.base / "reports" / f"{run['run'].replace(':', '')}.md"
    return path.read_text(encoding="utf-8")
