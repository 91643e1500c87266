"""The jar of the Spark reader: of which sources it is, and what is said where it cannot be made."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from java.build import DIGEST, JAR, build, compiler, digest, is_current
from tests.support.places import REPOSITORY

FIRST = (1980, 1, 1, 0, 0, 0)


@pytest.fixture
def empty_path(tmp_path: Path) -> dict[str, str]:
    """An environment without a compiler."""
    return {"PATH": str(tmp_path)}


def test_the_jar_is_made_of_these_sources() -> None:
    assert is_current(JAR), "python java/build.py"


def test_its_bytes_depend_on_nothing_else() -> None:
    with zipfile.ZipFile(JAR) as jar:
        entries = jar.infolist()
        assert jar.read(DIGEST).decode() == digest()
    assert entries[0].filename == "META-INF/MANIFEST.MF"
    assert [entry.filename for entry in entries[1:]] == sorted(entry.filename for entry in entries[1:])
    assert {entry.date_time for entry in entries} == {FIRST}


def test_one_of_these_sources_is_left_alone(tmp_path: Path, empty_path: dict[str, str]) -> None:
    copy = Path(shutil.copy(JAR, tmp_path / "some.jar"))
    before = copy.stat()
    assert not build(copy, environ=empty_path)
    assert copy.stat().st_ino == before.st_ino


@pytest.mark.parametrize("content", [b"", b"PK\x05\x06" + bytes(18), b"no zip"])
def test_what_is_no_jar_of_ours_is_not_current(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "some.jar").write_bytes(content)
    assert not is_current(tmp_path / "some.jar")
    assert not is_current(tmp_path / "none.jar")


def test_without_a_compiler_it_says_what_to_install(tmp_path: Path, empty_path: dict[str, str]) -> None:
    with pytest.raises(FileNotFoundError, match=r"no javac in PATH: install a JDK 17"):
        build(tmp_path / "new.jar", environ=empty_path)
    with pytest.raises(FileNotFoundError, match=r"no javac in JAVA_HOME=/nowhere"):
        compiler({"JAVA_HOME": "/nowhere", "PATH": "/usr/bin"})
    assert list(tmp_path.iterdir()) == []


def test_without_spark_the_command_says_that_python_reads(tmp_path: Path) -> None:
    """``-S``: a Python without installed packages; the sources lie elsewhere, so that the jar is not there."""
    shutil.copytree(REPOSITORY / "java", tmp_path / "java", ignore=shutil.ignore_patterns("__pycache__"))
    words = [sys.executable, "-I", "-S", str(tmp_path / "java" / "build.py")]
    run = subprocess.run(words, capture_output=True, text=True, check=False)
    assert run.returncode == 1
    assert run.stderr.endswith(
        "no jars of Spark: install pyspark 4, or set SPARK_HOME. Spark reads by Python without it\n"
    )
