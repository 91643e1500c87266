"""Workers that run another interpreter than the driver: told before the first batch. Each session is a process."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from jobs.spark_session import import_root
from tests.crash.sink_job import SCHEMA

pytestmark = pytest.mark.spark

PROGRAM = """
import os, sys
from pathlib import Path
from pyspark.sql import SparkSession
from jobs.frames import write_frame
from store.errors import SparkhavenError
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
spark.sparkContext.setLogLevel("OFF")
frame = spark.createDataFrame([("a", 1, "s", "n")], "Src string, N bigint, Sym string, Note string")
try:
    write_frame(
        frame, sys.argv[1], "Test.Event", "s", internal="Src", value={"fixed": "2026-11-20"}, schema=Path(sys.argv[2])
    )
    print("written")
except SparkhavenError as error:
    print(error)
os._exit(0)
"""


def write_with(python: str | None, base: Path) -> str:
    """What a program says that is started by its full path while no environment is activated."""
    (base / "t.schema").write_bytes(SCHEMA)
    environ = {**os.environ, "PYTHONPATH": str(import_root()), "PYSPARK_DRIVER_PYTHON": sys.executable}
    environ.pop("PYSPARK_PYTHON", None)
    if python is not None:
        environ["PYSPARK_PYTHON"] = python
    words = [sys.executable, "-c", PROGRAM, str(base / "db"), str(base / "t.schema")]
    done = subprocess.run(words, env=environ, cwd=base, capture_output=True, text=True, timeout=120, check=False)
    return done.stdout + ("" if done.returncode == 0 else done.stderr)


def test_the_drivers_own_interpreter_writes(tmp_path: Path) -> None:
    assert "written" in write_with(sys.executable, tmp_path)


def test_an_interpreter_without_packages_is_named_with_what_it_lacks(tmp_path: Path) -> None:
    venv.create(tmp_path / "bare", with_pip=False)
    python = tmp_path / "bare" / "bin" / "python"
    told = write_with(str(python), tmp_path)
    assert str(python) in told and sys.executable in told, told
    assert "numpy" in told and "PYSPARK_PYTHON" in told, told


def test_an_interpreter_that_is_not_there_is_named(tmp_path: Path) -> None:
    told = write_with("/nowhere/python", tmp_path)
    assert "/nowhere/python" in told and "PYSPARK_PYTHON" in told and "Cannot run program" in told, told
