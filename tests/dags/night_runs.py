"""Runs the DAGs in Airflow's own environment and writes what came out as JSON; ``tests/dags/test_nights.py`` asks it.

``python night_runs.py RESULT.json RUN...``: nothing of the project is imported here but the DAGs, as Airflow does it.
"""

from __future__ import annotations

import fcntl
import json
import os
import sqlite3
import subprocess
import sys
import threading
from contextlib import ExitStack, closing
from dataclasses import replace
from datetime import UTC, datetime
from importlib.metadata import packages_distributions
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from airflow.dag_processing.dagbag import BundleDagBag, DagBag
from airflow.models.asset import AssetEvent, AssetModel
from airflow.models.backfill import ReprocessBehavior, _create_backfill, _do_dry_run
from airflow.models.dagrun import DagRun
from airflow.sdk.exceptions import AirflowException
from airflow.settings import Session
from airflow.utils.db import initdb
from sqlalchemy.exc import OperationalError

LOCAL = "Nyc13.Copy"
DATES = ("2013-01-01", "2013-01-02", "2013-01-03")
JOINED = """#!/bin/sh
for last; do :; done
echo '{"rows": 7}' > "$last"
echo '{"rows": 7}26/11/22 INFO a line of Spark'
echo '26/11/22 INFO a listener had {"rows": 8}'
"""
USUAL = {"date": None, "tables": None, "force": False, "dry_run": False}  # ``DAG.test`` keeps those of the run before


def structure(bag: DagBag) -> dict[str, Any]:
    """The DAGs as they were imported."""
    return {
        "errors": {str(path): text for path, text in bag.import_errors.items()},
        "hidden": sorted(set(packages_distributions()) & {path.stem for path in Path(bag.dag_folder).iterdir()}),
        "dags": {name: dag_of(dag) for name, dag in bag.dags.items()},
    }


def dag_of(dag: Any) -> dict[str, Any]:
    """One DAG and its tasks."""
    return {
        "tags": sorted(dag.tags),
        "doc": dag.doc_md or "",
        "runs": dag.max_active_runs,
        "catchup": dag.catchup,
        "params": sorted(dag.params),
        "tasks": {
            task.task_id: {
                "kind": type(task).__name__,
                "owner": task.owner,
                "pool": task.pool,
                "retries": task.retries,
                "timeout": task.execution_timeout.total_seconds(),
                "one": task.max_active_tis_per_dag == 1,
                "alert": bool(task.on_failure_callback),
                "before": sorted(task.upstream_task_ids),
                "outlets": [getattr(outlet, "name", "") for outlet in task.outlets],
            }
            for task in dag.tasks
        },
    }


def night(bag: DagBag, at: datetime | None = None, **conf: Any) -> dict[str, Any]:
    """One run of ``end_of_day``."""
    return run(bag, "end_of_day", at, USUAL | conf)


def run(bag: DagBag, dag: str, at: datetime | None, conf: dict[str, Any]) -> dict[str, Any]:
    """One run of a DAG: its state and interval, state and tries of each task, asset events so far."""
    done = bag.dags[dag].test(logical_date=at, run_conf=conf)
    found = {f"{ti.task_id}[{ti.map_index}]": [str(ti.state), ti.try_number] for ti in done.get_task_instances()}
    interval = [at and at.isoformat() for at in (done.data_interval_start, done.data_interval_end)]
    return {"state": str(done.state), "run": done.run_id, "interval": interval, "tasks": found, "events": events()}


def events() -> list[list[Any]]:
    """Asset events so far: name, partition, extra."""
    with Session() as session:
        found = session.query(AssetEvent, AssetModel).join(AssetModel, AssetModel.id == AssetEvent.asset_id)
        return [[asset.name, event.partition_key, event.extra] for event, asset in found]


def backfill(bag: DagBag) -> list[dict[str, Any]]:
    """The runs that ``airflow backfill create`` makes for three dates."""
    first, last = (datetime.fromisoformat(day).replace(tzinfo=UTC) for day in (DATES[0], "2013-01-04"))
    with Session() as session:
        asked: dict[str, Any] = {"reverse": False, "reprocess_behavior": ReprocessBehavior.NONE, "session": session}
        intervals = [
            each.data_interval for each in _do_dry_run(dag_id="end_of_day", from_date=first, to_date=last, **asked)
        ]
    found: list[dict[str, Any]] = []
    for interval in intervals:
        if interval is intervals[-1]:
            subprocess.run(os.environ["NIGHT_LATE"], shell=True, check=True)
        found.append(night(bag, interval.end, tables=[LOCAL]))
        assert found[-1]["interval"] == [interval.start.isoformat(), interval.end.isoformat()]
    return found


def beside_writes() -> list[str]:
    """Creates a backfill while another process of Airflow writes; the runs, or the error that this ends with."""
    ended = threading.Event()

    def write() -> None:
        path = Path(os.environ["AIRFLOW_HOME"]) / "airflow.db"
        with closing(sqlite3.connect(path, timeout=60.0, isolation_level=None)) as opened:
            opened.execute("create table if not exists noise (n integer)")
            while not ended.wait(0.005):
                opened.execute("insert into noise values (1)")

    first, last = datetime(2013, 2, 1, tzinfo=UTC), datetime(2013, 2, 8, tzinfo=UTC)
    usual: dict[str, Any] = {"max_active_runs": 1, "reverse": False, "dag_run_conf": None, "triggering_user_name": None}
    writing = threading.Thread(target=write)
    writing.start()
    try:
        made = _create_backfill(dag_id="end_of_day", from_date=first, to_date=last, **usual)
    except OperationalError as error:
        return [str(error)]
    finally:
        ended.set()
        writing.join()
    with Session() as session:
        return [run.run_id for run in session.query(DagRun).filter(DagRun.backfill_id == made.id)]


def conclusions() -> dict[str, str]:
    """What a task raises for each exit code: only AirflowFailException is not tried again."""
    from nights.operators import conclude  # on the path since the DAGs were read
    from nights.results import Ended

    found = {}
    for code in range(4):
        try:
            conclude(Ended(code, ({"error": {"what": "no", "hint": "do"}},) if code else (), ()), "sparkhaven")
            found[str(code)] = "-"
        except AirflowException as error:
            found[str(code)] = type(error).__name__
    return found


def joined_outputs() -> Any:
    """What a submitted job returns whose result is lost in its output, and beside it another one's."""
    from nights.configuration import load
    from nights.operators import JobOperator

    configuration = load()
    assert configuration.spark is not None
    with TemporaryDirectory() as directory:
        submit = Path(directory) / "spark-submit"
        submit.write_text(JOINED)
        submit.chmod(0o755)
        spark = replace(configuration.spark, submit=str(submit))
        words = ["merge", LOCAL]
        operator = JobOperator(
            task_id="job", words=lambda value, params: words, program=configuration.program, entry="merge", spark=spark
        )
        return operator.execute({"params": {}})  # type: ignore[typeddict-item]


def lock_until_retry(bag: DagBag, held: ExitStack) -> None:
    """Holds the lock of the table, as a merge does that was started by hand, until the task is to be tried again."""
    descriptor = os.open(os.environ["NIGHT_LOCK"], os.O_RDWR | os.O_CREAT)
    held.callback(os.close, descriptor)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    merge = bag.dags["end_of_day"].get_task("Nyc13_Copy.night.merge")
    merge.on_retry_callback = [lambda context: fcntl.flock(descriptor, fcntl.LOCK_UN)]


def main() -> None:
    """Does what is asked for, in order."""
    target, *asked = sys.argv[1:]
    initdb()
    folder = Path(os.environ["AIRFLOW__CORE__DAGS_FOLDER"])
    bag = BundleDagBag(dag_folder=folder, bundle_path=folder, bundle_name="dags-folder")
    found: dict[str, Any] = {"structure": structure(bag), "conclusions": conclusions()}
    found["joined"] = joined_outputs()
    for name in asked:
        match name:
            case "night":
                with ExitStack() as held:
                    lock_until_retry(bag, held)
                    found[name] = night(bag, date=DATES[0])
            case "local":
                found[name] = night(bag, date=DATES[0], tables=[LOCAL])
            case "backfill":
                found[name] = backfill(bag)
            case "dry":
                found[name] = night(bag, date=DATES[0], tables=[LOCAL], dry_run=True)
            case "beside_writes":
                found[name] = beside_writes()
            case "ingest_health" | "scrub":
                found[name] = run(bag, name, None, {})
            case _:
                raise SystemExit(f"no such run: {name}")
        Path(target).write_text(json.dumps(found, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
