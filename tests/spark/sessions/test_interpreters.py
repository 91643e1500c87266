"""Which Python and which sparkhaven Spark's processes run: those of the program, whatever PATH and directory have."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from sparkhaven.testing import make_table
from tests.support.places import REPOSITORY
from tests.support.spark.quick_java import quick_java
from tests.support.tables.small_tables import SmallTable

PROGRAM = """
import os, sys
import sparkhaven
from pyspark.sql import SparkSession
from sparkhaven.errors import SettingsError

spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
os.environ["PYSPARK_PYTHON"] = spark.sparkContext.pythonExec
try:
    sparkhaven.read_frame(spark, *sys.argv[1:])
except SettingsError as error:
    print(error.what, error.found, error.hint, sep="|")
del os.environ["PYSPARK_PYTHON"]
frame = sparkhaven.read_frame(spark, *sys.argv[1:])
print(frame.count(), frame.where("Size > 1").count())
"""


@pytest.mark.spark
def test_the_python_on_the_path_lacks_what_is_needed(tmp_path: Path) -> None:
    made = SmallTable(tmp_path / "db")
    made.add("a", "2013-01-01", {"Size": [1, 2, 3]})
    bare = tmp_path / "bin" / "python3"
    bare.parent.mkdir()
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -S -E "$@"\n')  # without site-packages
    bare.chmod(0o755)
    environ = {name: value for name, value in os.environ.items() if not name.startswith("PYSPARK")} | quick_java()
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(made.root), str(made.table)],
        env=environ | {"PATH": f"{bare.parent}{os.pathsep}{os.environ['PATH']}"},
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    refused, counts = done.stdout.splitlines()
    what, found, hint = refused.split("|")
    assert what == "Spark runs another Python than this program, and that one cannot read tables"
    assert found == f"{bare}: ModuleNotFoundError: No module named 'numpy'"
    assert f"set PYSPARK_PYTHON={sys.executable}" in hint
    assert counts == "3 2"


FROM_ANOTHER_DIRECTORY = """
import sys
import sparkhaven
from pyspark.sql import SparkSession
from sparkhaven.errors import SettingsError

spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
root, name = sys.argv[1:]
frame = spark.range(2).selectExpr("cast(id as int) as Size")
rules = {"internal": {"fixed": "b"}, "value": {"fixed": "2013-01-02"}}
write = lambda: sparkhaven.write_frame(frame, root, name, "more", **rules)
for ask in (lambda: sparkhaven.register(spark), lambda: sparkhaven.read_frame(spark, root, name), write):
    try:
        ask()
        print("done")
    except SettingsError as error:
        print(error.found, error.hint, sep="|")
"""


@pytest.mark.spark
@pytest.mark.parametrize("safe", [False, True])
def test_another_package_where_spark_was_started_is_refused_or_not_looked_at(tmp_path: Path, safe: bool) -> None:
    """Spark runs its processes by ``python -m``, which looks into the working directory first."""
    make_table(tmp_path / "db", "NS.T", {"Size": pa.array([1, 2, 3], pa.int32())}, date="2013-01-01")
    other = tmp_path / "checkout" / "sparkhaven"
    other.mkdir(parents=True)
    (other / "__init__.py").write_text("raise ImportError('another sparkhaven')")
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONSAFEPATH"} | quick_java()
    done = subprocess.run(
        [sys.executable, "-P", "-c", FROM_ANOTHER_DIRECTORY, str(tmp_path / "db"), "NS.T"],
        env=environ | ({"PYTHONSAFEPATH": "1"} if safe else {}),
        cwd=other.parent,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    refused = f"{other}|start Spark in another directory, or set PYTHONSAFEPATH=1 before it starts"
    assert done.stdout.splitlines() == ["done" if safe else refused] * 3
