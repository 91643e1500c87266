"""The zip for spark-submit: every module with its bytecode, and what another Python makes of it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
from setuptools import find_namespace_packages

from sparkhaven.jobs.session.submit_zip import PACKAGES, ROOT, write_zip

TELL = (
    "import sys; sys.path.insert(0, sys.argv[1]); import sparkhaven.store.errors as e; print(e.__file__, e.__cached__)"
)


FEW = (
    "sparkhaven/__init__.py",
    "sparkhaven/store/__init__.py",
    "sparkhaven/store/errors.py",
    "sparkhaven/store/next_steps.py",
    "sparkhaven/store/io/fs.py",
    "sparkhaven/conf/log4j2.properties",
)


def our_modules() -> list[Path]:
    """Every module of the packages, below their installed names."""
    walks = [walk for name in PACKAGES for walk in os.walk(ROOT / name, followlinks=True)]
    return [Path(folder, name) for folder, _, names in walks for name in names if name.endswith(".py")]


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("zip") / "sparkhaven.zip"
    write_zip(path)
    return path


@pytest.fixture(scope="module")
def few(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkout with few modules, which are packed in no time."""
    root = tmp_path_factory.mktemp("few")
    for name in FEW:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, root / name)
    write_zip(root / "few.zip", root)
    return root


def imported(packed: Path) -> str:
    """The file that a fresh process imports a module of ours from."""
    words = [sys.executable, "-I", "-S", "-c", TELL, str(packed)]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout.split()[0]


@pytest.mark.slow
def test_every_module_is_there_with_its_bytecode(packed: Path) -> None:
    names = set(zipfile.ZipFile(packed).namelist())
    modules = {name for name in names if name.endswith(".py")}
    assert {"sparkhaven/__init__.py", "sparkhaven/jobs/cli/main.py", *FEW} <= names
    assert {f"{name}c" for name in modules} <= names and not any("__pycache__" in name for name in names)
    assert modules == {path.relative_to(ROOT).as_posix() for path in our_modules()}


@pytest.mark.slow
def test_zip_and_wheel_have_every_package_of_the_project(packed: Path) -> None:
    """Each folder with modules is a package: setuptools finds it for the wheel, and the zip has it."""
    found = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]
    include = found["setuptools"]["packages"]["find"]["include"]
    assert {*found["importlinter"]["root_packages"]} == {*PACKAGES}
    ours = {path.parent for path in our_modules()}
    assert {path for path in ours if not (path / "__init__.py").exists()} == {ROOT / "sparkhaven" / "conf" / "airflow"}
    folders = {path.relative_to(ROOT).as_posix() for path in ours}
    wheel = {name.replace(".", "/") for name in find_namespace_packages(str(ROOT), include=include)}
    assert folders - wheel == set()
    zipped = {name.rpartition("/")[0] for name in zipfile.ZipFile(packed).namelist()}
    assert folders - zipped == set()


def test_the_same_sources_give_the_same_bytes(few: Path, tmp_path: Path) -> None:
    write_zip(tmp_path / "again.zip", few)
    assert (tmp_path / "again.zip").read_bytes() == (few / "few.zip").read_bytes()
    assert len(zipfile.ZipFile(few / "few.zip").namelist()) == 11  # five modules twice, and what is no module


def test_bytecode_is_used_and_that_of_another_python_is_not(few: Path, tmp_path: Path) -> None:
    packed = few / "few.zip"
    assert imported(packed) == f"{packed}/sparkhaven/store/errors.pyc"
    foreign = tmp_path / "foreign.zip"
    with zipfile.ZipFile(packed) as old, zipfile.ZipFile(foreign, "w") as new:
        for name in old.namelist():
            data = old.read(name)
            new.writestr(name, b"\0\0\r\n" + data[4:] if name.endswith(".pyc") else data)
    assert imported(foreign) == f"{foreign}/sparkhaven/store/errors.py"
