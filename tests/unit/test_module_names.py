"""No module beside a script has the name of something that is imported from elsewhere.

Python and spark-submit put the directory of the script that they run at the head of the search path, so such a module
would be found in the place of the package.
"""

from __future__ import annotations

import sys
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from tests.support.places import REPOSITORY

OURS = {
    "sparkhaven",
    "pyspark_sparkhaven",
    "store",
    "ingest",
    "writers",
    "readers",
    "jobs",
    "conf",
    "tests",
    "benchmarks",
    "examples",
    "nights",
}


def script_directories() -> list[Path]:
    """Every directory of ours that holds a program."""
    programs = (
        path
        for package in OURS
        for path in (REPOSITORY / package).rglob("*.py")
        if 'if __name__ == "__main__":' in path.read_text(encoding="utf-8")
    )
    return sorted({path.parent for path in programs})


@cache
def taken() -> set[str]:
    """Names of what is imported from elsewhere."""
    return {name for name in packages_distributions() if "/" not in name} - OURS | set(sys.stdlib_module_names)


def test_programs_are_found() -> None:
    assert {REPOSITORY / "jobs", REPOSITORY / "benchmarks", REPOSITORY / "tests" / "crash"} <= {*script_directories()}


@pytest.mark.slow
@pytest.mark.parametrize("directory", script_directories(), ids=lambda path: str(path.relative_to(REPOSITORY)))
def test_no_module_beside_a_program_hides_a_package(directory: Path) -> None:
    modules = {path.stem for path in directory.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    assert modules & taken() - {"__init__"} == set()
