"""What lets Spark start faster: Python without the zip of PySpark, and the archive of classes that a command makes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from sparkhaven.jobs.session.fast_start import AT_EXIT, archive_options, class_archive, python_launcher
from sparkhaven.jobs.session.interpreter import find_java
from sparkhaven.jobs.session.spark_session import import_root
from sparkhaven.store.io.fs import Fs

FS = Fs()
SPARKS_OWN = (
    "/x/pyspark/python/lib/pyspark.zip:/x/pyspark/python/lib/py4j-0.10.9.9-src.zip:/x/jars/spark-core_2.13-4.2.0.jar"
)


def path_in(launcher: str, pythonpath: str) -> str:
    """PYTHONPATH as a Python sees it that is started with the launcher."""
    line = [launcher, "-c", "import os; print(os.environ['PYTHONPATH'])"]
    done = subprocess.run(line, env={"PYTHONPATH": pythonpath}, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_the_launcher_takes_what_spark_puts_first_off_the_path(tmp_path: Path) -> None:
    launcher = python_launcher(FS, {"XDG_CACHE_HOME": str(tmp_path)})
    assert launcher != sys.executable
    assert path_in(launcher, f"{SPARKS_OWN}:/mine:/yours") == "/mine:/yours"
    assert path_in(launcher, "/mine:/yours") == "/mine:/yours"
    line = [launcher, "-c", "import pyspark, sys; print(sys.executable, pyspark.__file__)"]
    executable, pyspark = subprocess.run(line, capture_output=True, text=True, check=True).stdout.split()
    assert Path(executable).samefile(sys.executable)
    assert "site-packages/pyspark/__init__.py" in pyspark


def test_a_launcher_that_was_changed_is_written_again(tmp_path: Path) -> None:
    environ = {"XDG_CACHE_HOME": str(tmp_path)}
    launcher = Path(python_launcher(FS, environ))
    launcher.write_text("#!/bin/sh\nexit 1\n", encoding="utf-8")
    assert python_launcher(FS, environ) == str(launcher)
    assert path_in(str(launcher), "/mine") == "/mine"


@pytest.mark.parametrize("why", ["another Spark", "no directory for it"])
def test_no_launcher_where_it_would_not_help(tmp_path: Path, why: str) -> None:
    (tmp_path / "file").touch()
    environ = {"XDG_CACHE_HOME": str(tmp_path), "SPARK_HOME": "/opt/spark"}
    if why == "no directory for it":
        environ = {"XDG_CACHE_HOME": str(tmp_path / "file")}
    assert python_launcher(FS, environ) == sys.executable


@pytest.mark.jvm
def test_spark_takes_its_classes_from_the_archive_that_the_command_makes(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    environ = {**os.environ, "XDG_CACHE_HOME": str(cache), "PYTHONPATH": str(import_root())}
    jars = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "sparkhaven")
    (cache / "sparkhaven").mkdir(parents=True)
    for directory in jars.glob("delta-*"):
        (cache / "sparkhaven" / directory.name).symlink_to(directory)
    assert archive_options(FS, environ) == []

    def command() -> dict[str, object]:
        line = [sys.executable, "-m", "sparkhaven.jobs.cli.main", "class-archive", "--json"]
        done = subprocess.run(line, env=environ, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        said: dict[str, object] = json.loads(done.stdout)
        return said

    path, there = class_archive(FS, environ), class_archive(FS, os.environ)
    made = FS.stat(there) is None
    if not made:  # somebody has called the command: that archive is as good, and another one takes half a minute
        path.symlink_to(there)
    assert command() == {"path": str(path), "made": made}
    assert command() == {"path": str(path), "made": False}
    assert sorted(name for name in FS.names(path.parent) if name.endswith(".jsa")) == [path.name]
    said, log = tmp_path / "said", tmp_path / "loaded"
    start = (
        "from sparkhaven.jobs.session.spark_session import build_session;build_session('t', workers=1).range(3).count()"
    )
    with said.open("w", encoding="utf-8") as out:
        traced = {**environ, "JDK_JAVA_OPTIONS": f"-Xlog:class+load:file={log}"}
        subprocess.run([sys.executable, "-c", start], env=traced, stdout=out, stderr=out, check=True)
    assert log.read_text(encoding="utf-8").count("shared objects file (top)") > 5_000
    assert "cds" not in said.read_text(encoding="utf-8")


@pytest.mark.jvm
def test_an_archive_of_something_else_keeps_nothing_from_starting(tmp_path: Path) -> None:
    environ = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
    path = class_archive(FS, environ)
    path.parent.mkdir(parents=True)
    path.write_bytes(b"no archive" * 1000)
    java = find_java(FS, environ)
    done = subprocess.run([java, *archive_options(FS, environ), "-version"], capture_output=True, text=True, check=True)
    assert done.stdout == "" and "cds" not in done.stderr
    assert archive_options(FS, environ | {AT_EXIT: "/x.jsa"})[0] == "-XX:ArchiveClassesAtExit=/x.jsa"
