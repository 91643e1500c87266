"""Where Java's reader comes from: the zip of spark-submit, a jar that a user names, and one of another release."""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import zipfile
from pathlib import Path
from typing import Any

import pytest

from sparkhaven.readers.spark.jvm.jar import DIGEST, NAME, jar_file
from sparkhaven.store.io.fs import Fs
from sparkhaven.testing import make_table
from tests.support.spark.place import PATIENCE, SUBMIT, Place

pytestmark = pytest.mark.spark

PROGRAM = """
import json, os, sys
from pyspark.sql import SparkSession
import sparkhaven
root, *caches = sys.argv[1:]
for cache in caches:
    os.environ["XDG_CACHE_HOME"] = cache
    spark = SparkSession.builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    found = []
    for read in (
        lambda: spark.read.format("deephaven").option("root", root).load("NS.T"),
        lambda: sparkhaven.read_frame(spark, root, "NS.T"),
    ):
        sparkhaven.register(spark)
        frame = read()
        plan = frame._jdf.queryExecution().optimizedPlan().toString()
        found.append(["Python" if "] deephaven" in plan else "Java", frame.agg({"N": "sum"}).collect()[0][0]])
    print(json.dumps(found), flush=True)
    spark.stop()
"""
MISSING = "io/sparkhaven/spark/PlanRequest$Answer.class"
JAVA, PYTHON = [["Java", 6]] * 2, [["Python", 6]] * 2


def submit(place: Place, *caches: Path, jars: Path | None = None) -> tuple[list[list[Any]], list[str]]:
    """What a program with the zip has read with each directory of a cache, and what it has said of readers."""
    make_table(place.root, "NS.T", {"N": [1, 2, 3]}, date="2026-11-20")
    program = place.base / "program.py"
    program.write_text(PROGRAM)
    named = [] if jars is None else ["--jars", str(jars)]
    options = ["--properties-file", str(place.conf / "spark-defaults.conf"), "--py-files", place.zip, *named]
    words = [SUBMIT, *options, str(program), str(place.root), *map(str, caches)]
    done = subprocess.run(words, cwd=place.base, env=place.environ, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stdout[-4000:]  # spark-submit passes the errors of a program on as its output
    said = [line for line in done.stdout.splitlines() if "Spark reads tables by Python" in line]
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("[[")], said


def test_the_jar_in_a_zip_is_copied_to_the_cache_or_python_reads(tmp_path: Path) -> None:
    """The JVM keeps a jar that it has loaded, so the cache that cannot be written comes first."""
    place, no_directory, cache = Place.make(tmp_path), tmp_path / "file", tmp_path / "the cache"
    no_directory.write_bytes(b"")
    found, said = submit(place, no_directory, cache)
    assert found == [PYTHON, JAVA]
    (line,) = said
    assert "cannot be copied out of the zip" in line and str(no_directory) in line
    (copied,) = (cache / "sparkhaven" / "spark").iterdir()
    assert copied.read_bytes() == own_jar().read_bytes()


def test_a_jar_that_the_user_names_is_taken_if_it_is_of_this_release(tmp_path: Path) -> None:
    """Then the cache is not needed."""
    place, named, no_directory = Place.make(tmp_path), tmp_path / "our jars%20" / "spark reader.jar", tmp_path / "file"
    no_directory.write_bytes(b"")
    named.parent.mkdir()
    shutil.copy(own_jar(), named)
    assert submit(place, no_directory, jars=named) == ([JAVA], [])


def test_the_jar_of_another_release_is_told_and_not_used(tmp_path: Path) -> None:
    place, other = Place.make(tmp_path), tmp_path / "sparkhaven-spark.jar"
    with zipfile.ZipFile(own_jar()) as ours, zipfile.ZipFile(other, "w") as changed:
        for entry in ours.infolist():
            changed.writestr(entry, b"0" * 64 if entry.filename == DIGEST else ours.read(entry))
    found, said = submit(place, tmp_path / "cache", jars=other)
    assert found == [PYTHON]
    (line,) = said
    assert f"the session has the jar of another release, {other}. Remove it from spark.jars" in line


def test_a_spark_that_cannot_have_the_source_reads_by_python(tmp_path: Path) -> None:
    """Spark's own class that the source is made of is not for all releases; here a class of our own is missing."""
    place, whole = Place.make(tmp_path), tmp_path / "whole.zip"
    Path(place.zip).rename(whole)
    with zipfile.ZipFile(whole) as packed, zipfile.ZipFile(place.zip, "w") as changed:
        for entry in packed.infolist():
            data = packed.read(entry)
            changed.writestr(entry, without(data, MISSING) if entry.filename.endswith(NAME) else data)
    found, said = submit(place, tmp_path / "cache")
    assert found == [PYTHON]
    (line,) = said
    assert "NoClassDefFoundError: io/sparkhaven/spark/PlanRequest$Answer" in line


def without(jar: bytes, name: str) -> bytes:
    """A jar without one of its entries."""
    written = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(jar)) as ours, zipfile.ZipFile(written, "w") as changed:
        for entry in ours.infolist():
            if entry.filename != name:
                changed.writestr(entry, ours.read(entry))
    return written.getvalue()


def own_jar() -> Path:
    return jar_file(Fs(), os.environ)
