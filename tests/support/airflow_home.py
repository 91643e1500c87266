"""Airflow's own environment, a home for it, and a configuration of the DAGs, for tests."""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

import pyspark

from sparkhaven.jobs.session.fast_start import python_launcher
from sparkhaven.store.io.fs import Fs
from tests.support.places import REPOSITORY
from tests.support.spark.quick_java import quick_java

PYTHON = REPOSITORY / ".venv-airflow" / "bin" / "python"
PROGRAM = Path(sys.executable).with_name("sparkhaven")
DAGS = REPOSITORY / "airflow_dags"


@dataclass(frozen=True, slots=True)
class AirflowHome:
    """A directory with everything that one Airflow needs; what its tasks run is by default that of this checkout."""

    base: Path
    program: Path = PROGRAM
    jobs: Path = REPOSITORY / "jobs"
    python: str = ""

    @property
    def root(self) -> Path:
        """The database root of sparkhaven."""
        return self.base / "db"

    @property
    def alerts(self) -> Path:
        """What the failure callback has sent."""
        return self.base / "alerts.txt"

    def environ(self, **more: str) -> dict[str, str]:
        """The environment of Airflow's processes."""
        settings = self.base / "home" / "config"
        settings.mkdir(parents=True, exist_ok=True)
        shutil.copy(REPOSITORY / "conf" / "airflow" / "airflow_local_settings.py", settings)
        left_out = ("PYTHONPATH", "SPARKHAVEN_ROOT", "PYSPARK_PYTHON")
        usual = {name: value for name, value in os.environ.items() if name not in left_out}
        return usual | {
            "AIRFLOW_HOME": str(self.base / "home"),
            "AIRFLOW__CORE__DAGS_FOLDER": str(DAGS),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{self.base / 'home' / 'airflow.db'}",
            "AIRFLOW__LOGGING__LOGGING_LEVEL": "INFO",
            "AIRFLOW_CONN_SPARK_DEFAULT": '{"conn_type": "spark", "host": "local[1]"}',
            "SPARKHAVEN_AIRFLOW": str(self.configuration()),
            "SPARKHAVEN_ROOT": str(self.root),
            **quick_java(),
            **more,
        }

    def configuration(self) -> Path:
        """Two tables: one is merged through spark-submit, one in a process; nothing is waited for."""
        path = self.base / "nights.toml"
        spark = Path(pyspark.__file__).parent
        path.write_text(
            f"""
program = "{self.program}"
root    = "{self.root}"
owner   = "nobody"
alert   = ["sh", "-c", "cat >> {self.alerts}"]
[end_of_day]
cron    = "30 3 * * *"
zone    = "America/New_York"
start   = 2013-01-01
reports = "reports"
[retries]
times = 2
delay = "1 s"
[spark]
submit = "{spark}/bin/spark-submit"
jobs   = "{self.jobs}"
zip    = "sparkhaven.zip"
conf   = {{ "spark.ui.enabled" = false, "spark.driver.host" = "127.0.0.1", "spark.driver.bindAddress" = "127.0.0.1" }}
env    = {{ SPARK_HOME = "{spark}", PYSPARK_PYTHON = "{self.python or python_launcher(Fs(), os.environ)}" }}
[scrub]
nights = 1
[catch_up]
streams = ["{REPOSITORY / "conf/streams/flights.toml"}"]
[calendars.airports]
zone     = "America/New_York"
close    = "24:00"
days_off = []
[tables."Nyc13.Flight"]
calendar = "airports"
grace    = "0 s"
owner    = "somebody"
[tables."Nyc13.Copy"]
calendar = "airports"
merge    = "local"
grace    = "0 s"
poll     = "1 s"
patience = "60 s"
limits   = {{ age = "1 h", rejected = 0 }}
dedupe   = ["carrier", "flight", "origin", "time_hour"]
late     = "7 d"
retention = "6000 d"
snapshot  = "backup"
snapshots = 2
""",
            encoding="utf-8",
        )
        return path
