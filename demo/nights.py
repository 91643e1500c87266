"""``make demo-airflow``: one night of flights in a real Airflow; with ``--serve`` (``make airflow``) one to play with.

The DAG ``catch_up`` ingests January through spark-submit, then ``end_of_day`` takes one date from intraday to history.
The result is compared with the known counts of the data; any difference is exit code 1.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

from demo import feed as flights
from demo.figures import Figure
from demo.flights import Demo, stream_file
from demo.night_server import free_port, serve
from demo.program import run_program
from sparkhaven.jobs.session.fast_start import python_launcher
from sparkhaven.jobs.session.spark_session import import_root
from sparkhaven.jobs.session.submit_zip import write_zip
from sparkhaven.readers.arrow.opening import open_table
from sparkhaven.store.errors import SettingsError
from sparkhaven.store.io.fs import Fs

NIGHT = "2013-01-02"
MONTH = frozenset({1})
MORNING = "2013-01-03T12:00:00+00:00"  # the run at that time is for the dates that closed in the 24 hours before
PORT = 8080
USER = "admin"
POOL = "sparkhaven"


class Airflow:
    """One Airflow below ``base``: its own environment, home and database, the DAGs of this checkout."""

    def __init__(self, demo: Demo, level: str = "WARNING") -> None:
        """``level`` of the lines that the logs of tasks have."""
        self._demo, self._base, self._level = demo, demo.base, level
        self.log, self.root, self.home = self._base / "airflow.log", self._base / "db", self._base / "airflow"
        self.reports = self._base / "reports"  # of ``end_of_day``
        self.python = import_root() / ".venv-airflow" / "bin" / "python"
        if not self.python.exists():
            raise SettingsError(
                "Airflow's environment is missing", where=self.python, hint="make setup-airflow, in a checkout"
            )

    def environ(self, port: int = PORT) -> dict[str, str]:
        """The environment of Airflow, of the DAGs and of the commands that they run."""
        import pyspark

        address = f"http://127.0.0.1:{port}"
        settings = {
            "CORE__DAGS_FOLDER": str(import_root() / "airflow_dags"),
            "CORE__LOAD_EXAMPLES": "False",
            "CORE__DAGS_ARE_PAUSED_AT_CREATION": "False",
            "CORE__EXECUTION_API_SERVER_URL": f"{address}/execution/",
            "CORE__PARALLELISM": "4",
            "CORE__SIMPLE_AUTH_MANAGER_USERS": f"{USER}:admin",
            "CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(self.home / "passwords.json"),
            "DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{self.home / 'airflow.db'}",
            "WORKERS__EXECUTION_API_RETRIES": "100",  # the scheduler starts tasks before the server listens
            "WORKERS__EXECUTION_API_RETRY_WAIT_MAX": "3",
            "LOGGING__LOGGING_LEVEL": self._level,
            "API__HOST": "127.0.0.1",
            "API__PORT": str(port),
            "API__BASE_URL": address,
            "API__WORKERS": "1",
        }
        ours = {
            "AIRFLOW_HOME": str(self.home),
            "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps({"conn_type": "spark", "host": "local[2]"}),
            "SPARKHAVEN_AIRFLOW": str(self._base / "nights.toml"),
            "SPARKHAVEN_PROGRAM": str(Path(sys.executable).with_name("sparkhaven")),
            "SPARKHAVEN_ROOT": str(self.root),
            "SPARKHAVEN_REPORTS": str(self.reports),
            "SPARK_HOME": str(Path(pyspark.__file__).parent),
            "PYSPARK_PYTHON": python_launcher(Fs(), os.environ),
            "FLIGHTS_FEED": str(self._base / "feed"),
            "PATH": f"{self.python.parent}{os.pathsep}{os.environ.get('PATH', '')}",  # standalone starts `airflow`
        }
        inherited = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        return inherited | {f"AIRFLOW__{name}": value for name, value in settings.items()} | ours

    def prepare(self) -> None:
        """The configuration, the zip for spark-submit, Airflow's database and pool."""
        conf = import_root() / "sparkhaven" / "conf"
        text = (conf / "airflow" / "flights.toml").read_text(encoding="utf-8")
        text = text.replace('"../streams', f'"{conf / "streams"}').replace(
            '"../../jobs"', f'"{import_root() / "jobs"}"'
        )
        text = text.replace('"../../sparkhaven.zip"', '"sparkhaven.zip"').replace('= "1 h"\nlimits', '= "0 s"\nlimits')
        text = text.replace('delay   = "5 min"', 'delay   = "10 s"')  # a task that was quicker than Airflow's own start
        (self._base / "nights.toml").write_text(text, encoding="utf-8")
        write_zip(self._base / "sparkhaven.zip")
        settings = self.home / "config"
        settings.mkdir(parents=True)
        shutil.copy(conf / "airflow" / "airflow_local_settings.py", settings)
        self.command("db", "migrate")
        self.command("pools", "set", POOL, "1", "merges and checks of the flights")

    def command(self, *words: str) -> None:
        """One command of Airflow; what it prints is in ``airflow.log``. SettingsError if it fails."""
        self._demo.console.print(f"[dim]$ airflow {' '.join(words)}", highlight=False, soft_wrap=True)
        with self.log.open("a") as opened:
            line = [str(self.python), "-m", "airflow", *words]
            done = subprocess.run(line, env=self.environ(), stdout=opened, stderr=opened, check=False)
        if done.returncode:
            raise SettingsError(
                f"airflow {words[0]} {words[1]} failed", where=self.log, found=f"exit {done.returncode}"
            )

    def partitions(self) -> list[str]:
        """The partitions of asset events so far."""
        with closing(sqlite3.connect(self.home / "airflow.db")) as opened:
            return [row[0] for row in opened.execute("select partition_key from asset_event order by id")]


def night(demo: Demo, airflow: Airflow) -> list[Figure]:
    """Feed to history by two DAGs; the figures that were found."""
    expected = sum(_day(row) == NIGHT for row in flights.rows() if int(row["month"]) in MONTH)
    with demo.stage("feed: the flights of January as JSON lines"):
        month = sum(flights.write_feed(Fs(), demo.base / "feed", months=MONTH).values())
    with demo.stage("Airflow: configuration, database, pool"):
        airflow.prepare()
    with demo.stage("catch_up: the feed to intraday, through spark-submit"):
        airflow.command("dags", "test", "catch_up", MORNING)
    before = open_table(airflow.root, flights.TABLE)
    compared = [Figure("rows after catch_up", month, before.count())]
    with demo.stage(f"end_of_day: {NIGHT} to history, validated, truncated, deleted"):
        airflow.command("dags", "test", "end_of_day", MORNING)
    after = open_table(airflow.root, flights.TABLE)
    for report in sorted(airflow.reports.iterdir()):
        demo.console.print(report.read_text(encoding="utf-8"), highlight=False, markup=False)
    return [
        *compared,
        Figure(f"rows of {NIGHT} in history", expected, after.count(tier="history", dates=[NIGHT])),
        Figure(f"rows of {NIGHT} in intraday", 0, after.count(tier="intraday", dates=[f"{NIGHT}..{NIGHT}"])),
        Figure("rows of the table", month, after.count()),
        Figure("rows in history", expected, after.count(tier="history")),
        Figure("asset events", NIGHT, ", ".join(airflow.partitions())),
    ]


def _day(row: dict[str, str]) -> str:
    return f"{int(row['year'])}-{int(row['month']):02d}-{int(row['day']):02d}"


def main() -> int:
    """Runs one night, or serves; exit code 1 on any mismatch."""
    parser = argparse.ArgumentParser(prog="demo.nights", description=__doc__)
    parser.add_argument("--db", type=Path, default=Path("demo-airflow-db"), help="directory to fill")
    parser.add_argument("--serve", action="store_true", help="start Airflow and wait for Ctrl-C")
    parser.add_argument("--port", type=int, default=PORT, help=f"port on 127.0.0.1 (default {PORT}, 0 = any free one)")
    args = parser.parse_args()
    port = free_port(args.port) if args.serve else PORT
    demo = Demo.below(args.db)
    airflow = Airflow(demo, "INFO" if args.serve else "WARNING")
    if args.serve:
        flights.write_feed(Fs(), demo.base / "feed", months=MONTH)
        airflow.prepare()
        demo.command(airflow.root, "ingest", str(stream_file()), "--once", FLIGHTS_FEED=str(demo.base / "feed"))
        hint = f"try: trigger end_of_day with date {NIGHT}, or 2013-01-03..2013-01-05"
        return serve(airflow.python, airflow.environ(port), log=airflow.log, user=USER, port=port, hint=hint)
    agreed = "All figures agree. `make airflow` starts Airflow's own pages over the same flights."
    return demo.verdict(night(demo, airflow), agreed)


if __name__ == "__main__":
    run_program("demo", main)
