"""The wheel installs two packages, works beside a project with packages of the same names, and has types."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from sparkhaven.jobs.session.submit_zip import write_zip
from sparkhaven.readers.arrow.opening import open_table
from sparkhaven.readers.spark.jvm.jar import NAME
from sparkhaven.store.layout import Layout, TableName
from sparkhaven.testing import PlannedFeedContract
from tests.support.airflow_home import PYTHON, AirflowHome
from tests.support.docs.console import blocks
from tests.support.examples import share_of
from tests.support.installed_wheel import Installed, install
from tests.support.places import REPOSITORY
from tests.support.spark.place import PATIENCE, ROWS, Place
from tests.support.tables.flight_table import write_flights

PROGRAM = """
import sparkhaven
from pyspark.sql import SparkSession

def ask(spark: SparkSession, root: str) -> None:
    table = sparkhaven.open_table(root, "NS.T")
    reveal_type(table)
    reveal_type(table.to_arrow(["A"], where="A > 1"))
    reveal_type(table.count())
    reveal_type(table.to_batches())
    reveal_type(sparkhaven.sql(root, "select 1"))
    reveal_type(sparkhaven.read_frame(spark, root, "NS.T"))
    writer = sparkhaven.deephaven_writer(root, "NS.T", "s", internal="A", value="D")
    reveal_type(writer)
    reveal_type(writer(spark.range(1), 0))
    reveal_type(sparkhaven.write_frame(spark.range(1), root, "NS.T", "s", internal="A", value="D"))
    reveal_type(sparkhaven.register(spark))
    reveal_type(sparkhaven.errors.SparkhavenError("what").hint)
    reveal_type(sparkhaven.__version__)
"""
REVEALED = """

def _revealed() -> None:
    reveal_type(OrdersCase(Path()))
    reveal_type(OrdersCase(Path()).add)
    reveal_type(OrdersCase(Path()).put([]))
    reveal_type(OrdersCase(Path()).keys)
    reveal_type(OrdersCase(Path()).feed)
    reveal_type(OrdersCase(Path()).of({}))
    reveal_type(TestOrders().run(OrdersCase(Path())))
"""
READ = """
import sys
from pyspark.sql import SparkSession
import sparkhaven
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
sparkhaven.register(spark)
frame = spark.read.format("deephaven").option("root", sys.argv[1]).load("Nyc13.Flight")
print("] deephaven" in frame._jdf.queryExecution().optimizedPlan().toString(), frame.toArrow().num_rows)
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    return install(tmp_path_factory.mktemp("installed"))


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, installed: Installed) -> Place:
    """A feed and its stream file; jobs run in the environment of the wheel."""
    made = Place.make(tmp_path_factory.mktemp("place"))
    made.put(0)
    made.environ.update(PYSPARK_PYTHON=str(installed.python), SPARKHAVEN_ROOT=str(made.root))
    made.environ["PATH"] = f"{installed.python.parent}{os.pathsep}{made.environ['PATH']}"
    return made


@pytest.mark.slow
def test_it_installs_two_packages(installed: Installed) -> None:
    names = zipfile.ZipFile(installed.wheel).namelist()
    tops = {name.partition("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"sparkhaven", "pyspark_sparkhaven"}
    assert {"sparkhaven/py.typed", "sparkhaven/conf/schemas/Nyc13.Flight.schema"} <= set(names)
    assert {"sparkhaven/readers/live/Pages.java", f"sparkhaven/readers/spark/{NAME}"} <= set(names)
    entries = {
        f"sparkhaven/jobs/{entry}.py" for entry in ("import_dates", "ingest_stream", "merge_dates", "rewrite_dates")
    }
    assert entries <= set(names), "what spark-submit and Airflow are given"


@pytest.mark.spark
def test_it_works_beside_a_project_with_packages_of_these_names(installed: Installed, place: Place) -> None:
    ingest = installed.run("-m", "sparkhaven", "ingest", str(place.stream), "--once", "--json", environ=place.environ)
    assert json.loads(ingest)["rows"] == ROWS
    merge = installed.run("-m", "sparkhaven", "merge", "Nyc13.Flight", "--closed", "--json", environ=place.environ)
    assert sum(json.loads(line)["rows_out"] for line in merge.splitlines()) == ROWS
    by_python, rows = installed.run("-c", READ, str(place.root), environ=place.environ).split()
    assert (by_python, rows) == ("False", str(ROWS)), "Java reads"


@pytest.mark.spark
def test_a_job_is_submitted_from_such_a_project(installed: Installed, place: Place) -> None:
    """The driver has the packages from the zip, as a cluster has."""
    place.put(1)
    words = ["--root", str(place.root), str(place.stream), "--once", "--json"]
    submit = [str(Path(sys.executable).with_name("spark-submit")), "--master", "local[1]", "--py-files", place.zip]
    done = subprocess.run(
        [*submit, str(REPOSITORY / "jobs" / "ingest_stream.py"), *words],
        cwd=installed.project,
        env={**place.environ, "SPARK_SUBMIT_OPTS": "-Dspark.ui.enabled=false"},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["rows"] == ROWS


@pytest.mark.airflow
@pytest.mark.spark
def test_a_night_of_airflow_runs_there(installed: Installed, tmp_path: Path) -> None:
    """By the command alone where examples are left out: the jobs for spark-submit are those of the test above."""
    assert PYTHON.exists(), "Airflow's environment is missing: make setup-airflow"
    (site,) = (installed.python.parents[1] / "lib").glob("python*/site-packages")
    program = installed.python.with_name("sparkhaven")
    home = AirflowHome(tmp_path, program, site / "sparkhaven" / "jobs", str(installed.python))
    nights = {"local": ("Nyc13.Copy",), "night": ("Nyc13.Flight", "Nyc13.Copy")}
    asked = "night" if share_of(2, 1) == 2 else "local"
    for table in nights["night"]:
        write_flights(home.root, {"2013-01-01": ("JFK",)}, name=table.partition(".")[2])
    write_zip(home.base / "sparkhaven.zip")
    target = tmp_path / "found.json"
    lock = Layout(home.root).merges(TableName.parse("Nyc13.Copy")) / ".lock"
    lock.parent.mkdir(parents=True, exist_ok=True)
    environ = home.environ(NIGHT_LOCK=str(lock))
    words = [str(PYTHON), str(REPOSITORY / "tests" / "dags" / "night_runs.py"), str(target), asked]
    done = subprocess.run(words, env=environ, cwd=installed.project, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout[-4000:]
    for table in nights[asked]:
        found = open_table(home.root, table)
        assert found.count(tier="history") == found.count() > 0


@pytest.mark.slow
def test_a_feed_of_the_project_passes_the_shipped_suite(installed: Installed) -> None:
    """The test that the page shows, and the feed of the examples."""
    page = REPOSITORY / "docs" / "howto" / "feeds.md"
    (block,) = (block for block in blocks(page.read_text(encoding="utf-8")) if block.file == "test_orders.py")
    test, feed = installed.project / block.file, installed.project / "examples" / "sqlite_feed.py"
    test.write_text("\n".join(block.lines) + REVEALED, encoding="utf-8")
    feed.parent.mkdir()
    shutil.copy(REPOSITORY / "examples" / feed.name, feed)
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("SPARKHAVEN", "PYTEST"))}
    installed.run("-c", "import sparkhaven.testing, sys; assert 'pytest' not in sys.modules", environ=environ)
    found = installed.run("-m", "pytest", "-q", "-p", "no:cacheprovider", block.file, environ=environ)
    clauses = sum(name.startswith("test_") for name in dir(PlannedFeedContract))
    assert f"{clauses} passed" in found and clauses > 15
    no_any(installed, test, REVEALED.count("reveal_type("))


@pytest.mark.slow
def test_the_public_api_has_types(installed: Installed) -> None:
    program = installed.project / "program.py"
    program.write_text(PROGRAM, encoding="utf-8")
    no_any(installed, program, PROGRAM.count("reveal_type("))


def no_any(installed: Installed, program: Path, revealed: int) -> None:
    """A program of the user has no errors, and none of the types that it reveals is ``Any``."""
    words = ["--strict", "--python-executable", str(installed.python), "--cache-dir", str(installed.project / ".cache")]
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *words, "--follow-imports", "silent", str(program)],
        cwd=installed.project,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    types = re.findall(r'Revealed type is "(.*)"', done.stdout)
    assert len(types) == revealed
    assert [text for text in types if re.search(r"\bAny\b", text)] == []
