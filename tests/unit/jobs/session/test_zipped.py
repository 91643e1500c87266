"""The zip for spark-submit: every module with its bytecode, and what another Python makes of it."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from jobs.session.zipped import ROOT, write_zip

TELL = "import sys; sys.path.insert(0, sys.argv[1]); import store.errors as e; print(e.__file__, e.__cached__)"


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("zip") / "sparkhaven.zip"
    write_zip(path)
    return path


def imported(packed: Path) -> str:
    """The file that a fresh process imports a module of ours from."""
    words = [sys.executable, "-I", "-S", "-c", TELL, str(packed)]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout.split()[0]


def test_every_module_is_there_with_its_bytecode(packed: Path) -> None:
    names = set(zipfile.ZipFile(packed).namelist())
    modules = {name for name in names if name.endswith(".py")}
    assert {"store/io/fs.py", "jobs/cli/main.py", "sparkhaven/__init__.py", "conf/log4j2.properties"} <= names
    assert {f"{name}c" for name in modules} <= names and not any("__pycache__" in name for name in names)
    ours = {p.relative_to(ROOT).as_posix() for p in (ROOT / "store").rglob("*.py")}
    assert ours <= modules


def test_the_same_sources_give_the_same_bytes(packed: Path, tmp_path: Path) -> None:
    write_zip(tmp_path / "again.zip")
    assert (tmp_path / "again.zip").read_bytes() == packed.read_bytes()


def test_bytecode_is_used_and_that_of_another_python_is_not(packed: Path, tmp_path: Path) -> None:
    assert imported(packed) == f"{packed}/store/errors.pyc"
    foreign = tmp_path / "foreign.zip"
    with zipfile.ZipFile(packed) as old, zipfile.ZipFile(foreign, "w") as new:
        for name in old.namelist():
            data = old.read(name)
            new.writestr(name, b"\0\0\r\n" + data[4:] if name.endswith(".pyc") else data)
    assert imported(foreign) == f"{foreign}/store/errors.py"
