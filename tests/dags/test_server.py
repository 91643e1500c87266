"""``make airflow``: a whole Airflow over the demo, driven by its REST API with the printed password."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from http.client import HTTPResponse
from pathlib import Path
from typing import Any

import pytest

from sparkhaven.readers.arrow.opening import open_table
from tests.support.airflow_home import PYTHON
from tests.support.places import REPOSITORY
from tests.support.spark.quick_java import quick_java

DAGS = ("catch_up", "end_of_day", "ingest_health", "scrub")
DATE, ROWS = "2013-01-01", 842
ENDED = ("success", "failed")
PATIENCE = 420.0  # seconds, on a machine that others use too

pytestmark = [pytest.mark.airflow, pytest.mark.spark]


@dataclass(frozen=True, slots=True)
class Server:
    """The REST API of a running Airflow."""

    base: Path
    address: str
    token: str = ""

    def ask(self, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        """The answer to a GET, or to a POST of ``body``. urllib.error.HTTPError for any status but 2xx."""
        request = urllib.request.Request(
            f"{self.address}{path}",
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/json", "Authorization": f"Bearer {self.token}"},
        )
        answer: HTTPResponse
        with urllib.request.urlopen(request, timeout=60.0) as answer:
            found: dict[str, Any] = json.load(answer)
        return found

    def runs(self, dag: str, kind: str) -> list[dict[str, Any]]:
        """The runs of a DAG: ``scheduled``, ``manual`` or ``backfill``."""
        return [run for run in self.ask(f"/api/v2/dags/{dag}/dagRuns")["dag_runs"] if run["run_type"] == kind]

    def ended(self, dag: str, kind: str) -> dict[str, Any]:
        """Waits until the first such run has ended. AssertionError, with its tasks, if it does not."""
        end = time.monotonic() + PATIENCE
        while not (runs := self.runs(dag, kind)) or runs[0]["state"] not in ENDED:
            if time.monotonic() > end:
                tasks = self.tasks(runs[0]) if runs else "no run"
                raise AssertionError(f"{dag} {kind} does not end: {tasks}\n{self.log()}")
            time.sleep(0.5)
        return runs[0]

    def tasks(self, run: dict[str, Any]) -> dict[str, tuple[str, int]]:
        """State and number of tries of each task of a run, by the last part of its name."""
        found = self.ask(f"/api/v2/dags/{run['dag_id']}/dagRuns/{run['dag_run_id']}/taskInstances")
        return {ti["task_id"].rpartition(".")[2]: (ti["state"], ti["try_number"]) for ti in found["task_instances"]}

    def log(self) -> str:
        """The end of what Airflow has printed."""
        return "\n".join((self.base / "airflow.log").read_text(errors="replace").splitlines()[-30:])

    def history(self, date: str) -> int:
        """Rows of a date in history."""
        return open_table(self.base / "db", "Nyc13.Flight").count(dates=[f"{date}..{date}"], tier="history")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    assert PYTHON.exists(), "Airflow's environment is missing: make setup-airflow"
    base = tmp_path_factory.mktemp("server") / "demo"
    line = [sys.executable, "-m", "demo.nights", "--db", str(base), "--serve", "--port", "0"]
    environ = {**os.environ, **quick_java()}
    with subprocess.Popen(line, stdout=subprocess.PIPE, text=True, cwd=REPOSITORY, env=environ) as running:
        assert running.stdout is not None
        try:
            words = None
            while words is None and (said := running.stdout.readline()):
                words = re.match(r"Airflow: (\S+), user (\S+), password (\S+), log in", said)
            assert words, "Airflow has not started"
            login = {"username": words[2], "password": words[3]}
            token = Server(base, words[1]).ask("/auth/token", login)["access_token"]
            yield Server(base, words[1], token)
        finally:
            running.terminate()
            running.communicate()


@pytest.mark.parametrize("dag", DAGS)
def test_the_scheduled_run_of_each_dag_ends_well(server: Server, dag: str) -> None:
    run = server.ended(dag, "scheduled")
    tasks = server.tasks(run)
    assert run["state"] == "success", tasks
    if dag != "catch_up":  # a job in Spark may end with exit code 3; the others lack nothing but a server that listens
        assert {tries for state, tries in tasks.values() if state != "skipped"} == {1}, tasks
    done = {"catch_up": "flights", "end_of_day": "report", "ingest_health": "Nyc13_Flight", "scrub": "verify"}
    assert tasks[done[dag]][0] == "success", tasks


def test_a_backfill_ends_well(server: Server) -> None:
    first = {"from_date": "2013-01-01T00:00:00Z", "to_date": "2013-01-01T23:00:00Z"}
    server.ask("/api/v2/backfills", {"dag_id": "end_of_day", "max_active_runs": 1, **first})
    backfill = server.ended("end_of_day", "backfill")
    assert backfill["state"] == "success", server.log()
    assert {state for state, _ in server.tasks(backfill).values()} == {"success"}
    assert server.history(DATE) == ROWS
    assert server.ask("/api/v2/monitor/health")["scheduler"]["status"] == "healthy"


def test_a_parameter_that_is_no_date_is_refused(server: Server) -> None:
    with pytest.raises(urllib.error.HTTPError, match=r"HTTP Error 4\d\d"):
        server.ask("/api/v2/dags/end_of_day/dagRuns", {"logical_date": None, "conf": {"date": "yesterday"}})
