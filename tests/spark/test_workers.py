"""Workers that run another interpreter than the driver: reported before the first batch. One JVM for all sessions."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import venv

import pytest

from sparkhaven.jobs.session.spark_session import import_root
from tests.crash.spark.sink_job import SCHEMA
from tests.support.spark.quick_java import quick_java

pytestmark = pytest.mark.spark

NOWHERE = "/nowhere/python"
PROGRAM = """
import json, os, sys
from pathlib import Path
from pyspark.sql import SparkSession
from sparkhaven.jobs.dataframes.frame_writer import write_frame
from sparkhaven.store.errors import SparkhavenError
reported = {}
for number, python in enumerate(sys.argv[2:]):
    os.environ["PYSPARK_PYTHON"] = python
    spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    frame = spark.createDataFrame([("a", 1, "s", "n")], "Src string, N bigint, Sym string, Note string")
    value, schema = {"fixed": "2026-11-20"}, Path(sys.argv[1]) / "t.schema"
    try:
        write_frame(frame, f"{sys.argv[1]}/db{number}", "Test.Event", "s", internal="Src", value=value, schema=schema)
        reported[python] = "written"
    except SparkhavenError as error:
        reported[python] = str(error)
    spark.stop()
print(json.dumps(reported), flush=True)
os._exit(0)
"""


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> str:
    """An interpreter without packages."""
    made = tmp_path_factory.mktemp("bare")
    venv.create(made, with_pip=False)
    return str(made / "bin" / "python")


@pytest.fixture(scope="module")
def reported(bare: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What a program says of each interpreter; it is started by its full path while no environment is activated."""
    base = tmp_path_factory.mktemp("workers")
    (base / "t.schema").write_bytes(SCHEMA)
    environ = {**os.environ, **quick_java(), "PYTHONPATH": str(import_root()), "PYSPARK_DRIVER_PYTHON": sys.executable}
    words = [sys.executable, "-c", PROGRAM, str(base), bare, NOWHERE, sys.executable]
    done = subprocess.run(words, env=environ, cwd=base, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, str] = json.loads(done.stdout)
    return found


def test_the_drivers_own_interpreter_writes(reported: dict[str, str]) -> None:
    assert reported[sys.executable] == "written"


def test_an_interpreter_without_packages_is_named_with_what_it_lacks(reported: dict[str, str], bare: str) -> None:
    said = reported[bare]
    assert bare in said and sys.executable in said, said
    assert "numpy" in said and "PYSPARK_PYTHON" in said, said


def test_an_interpreter_that_is_not_there_is_named(reported: dict[str, str]) -> None:
    said = reported[NOWHERE]
    assert NOWHERE in said and "PYSPARK_PYTHON" in said and "Cannot run program" in said, said
