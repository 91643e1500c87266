"""The DAGs run where sparkhaven and Spark are not installed: they import Airflow, its Spark provider, the standard
library and each other; most of what they share needs not even Airflow."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.places import REPOSITORY
from tools.code.syntax_trees import module_tree

DAGS = REPOSITORY / "airflow_dags"
FILES = sorted(DAGS.rglob("*.py"))
WITH_AIRFLOW = {"operators", "sensors", "dag_parts", "after_nights"}


def imported(path: Path) -> Iterator[str]:
    """Modules that a file imports, at its top or inside of functions; relative ones as ``nights``."""
    for node in ast.walk(module_tree(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield "nights" if node.level else str(node.module)


def test_files_are_found() -> None:
    assert {path.stem for path in FILES} >= {"end_of_day", "ingest_health", "scrub", "catch_up", *WITH_AIRFLOW}


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(DAGS)))
def test_only_airflow_its_spark_provider_and_the_standard_library_are_imported(path: Path) -> None:
    airflow = path.parent == DAGS or path.stem in WITH_AIRFLOW
    for module in imported(path):
        top = module.partition(".")[0]
        if top == "airflow":
            assert airflow, f"{module} in a module that is tested without Airflow"
            assert module.startswith(("airflow.sdk", "airflow.providers.apache.spark")), module
        else:
            assert top in sys.stdlib_module_names or top == "nights", module


def test_what_airflow_finds_on_its_path_has_the_name_of_no_module_of_python() -> None:
    names = {path.stem for path in DAGS.iterdir() if not path.name.startswith((".", "_"))}
    assert names & set(sys.stdlib_module_names) == set()


def test_shared_modules_are_not_read_as_dags() -> None:
    assert (DAGS / ".airflowignore").read_text(encoding="utf-8").split() == ["nights/"]
