"""What users import: ``sparkhaven``, and nothing below it."""

from __future__ import annotations

import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import sparkhaven
import sparkhaven.store.errors
from tests.support.places import REPOSITORY
from tests.support.tables.small_tables import SmallTable


def test_names_are_those_of_the_contract() -> None:
    named = {"Database", "DatabaseSnapshot", "FrameWriter", "Snapshot", "Table", "__version__", "deephaven_writer"}
    named |= {
        "errors",
        "feeds",
        "testing",
        "merge_frame",
        "open_table",
        "read_frame",
        "register",
        "save_table",
        "sql",
        "validator",
    }
    named.add("write_frame")
    assert set(sparkhaven.__all__) == set(dir(sparkhaven)) == named
    with pytest.raises(AttributeError, match="no attribute 'opentable'"):
        sparkhaven.opentable  # noqa: B018


@pytest.mark.parametrize("name", sorted({*sparkhaven.__all__} - {"__version__"}))
def test_every_name_is_explained(name: str) -> None:
    assert inspect.getdoc(getattr(sparkhaven, name))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["errors.SparkhavenError", "feeds.PlannedFeed", "testing.assert_table_equal"])
def test_a_module_needs_no_import_of_its_own(name: str) -> None:
    subprocess.run([sys.executable, "-c", f"import sparkhaven; sparkhaven.{name}"], check=True, cwd=REPOSITORY)


def test_errors_are_all_of_the_tree() -> None:
    tree = {
        name
        for name, found in vars(sparkhaven.store.errors).items()
        if inspect.isclass(found)
        and issubclass(found, sparkhaven.store.errors.SparkhavenError | sparkhaven.store.errors.HistoryWarning)
        and not name.startswith("_")
    }
    assert {*sparkhaven.errors.__all__} == tree | {"from_spark"}


def test_a_snapshot_shows_what_users_call() -> None:
    values = {"epochs", "name", "schema", "set_aside", "tier"}
    assert {name for name in dir(sparkhaven.Snapshot) if not name.startswith("_")} == values | {
        *("arrow_schema", "columns", "count", "dates", "head", "sources", "to_arrow", "to_batches", "to_pandas")
    }


def test_a_table_is_read_by_the_public_name(tmp_path: Path) -> None:
    small = SmallTable(tmp_path)
    small.add("a", "2026-11-20", {"Size": [1, None, 3]})
    small.log().close()
    assert sparkhaven.open_table(tmp_path, "NS.T").to_arrow("Size")["Size"].to_pylist() == [1, None, 3]
    with pytest.raises(sparkhaven.errors.TableNotFoundError):
        sparkhaven.open_table(tmp_path, "NS.Other")


@pytest.mark.slow
def test_reading_imports_no_spark() -> None:
    code = "import sys, sparkhaven; assert not {'pyspark', 'duckdb'} & set(sys.modules), 'imported'"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=REPOSITORY)


@pytest.mark.slow
def test_packages_of_a_user_may_have_the_names_of_our_folders(tmp_path: Path) -> None:
    for name in ("store", "ingest", "writers", "readers", "jobs", "conf"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise ImportError('not ours')")
    code = (
        f"import sys; sys.path[:0] = [{str(tmp_path)!r}, {str(REPOSITORY)!r}]; import sparkhaven;"
        "print([getattr(sparkhaven, name) for name in sparkhaven.__all__])"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=tmp_path)
