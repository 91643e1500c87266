"""`sparkhaven merge --format`: what it takes, says and writes, and that other commands take the result."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from sparkhaven.store.schema.deployed.deploy import deploy
from sparkhaven.store.schema.deployed.schema_changes import ACCEPTED
from tests.support.commands import run, run_json
from tests.support.places import REPOSITORY
from tests.support.writers.export_cases import NEXT
from tests.support.writers.merge_cases import DAY, SCHEMA, TABLE, as_table, random_row
from tests.support.writers.merge_runs import make, merge

NAME = str(TABLE)


def database(base: Path) -> Path:
    made, _ = make(base, 40, partitions=1)
    made.log.close()
    return made.root


@pytest.mark.slow
def test_a_date_as_parquet_through_all_commands(tmp_path: Path) -> None:
    root = database(tmp_path)
    merge = "merge", NAME, "--date", DAY, "--local"
    planned = run_json(root, *merge, "--format", "parquet", "--dry-run")[1]
    assert (planned["outcome"], planned["format"]) == ("planned", "parquet")
    done = run(root, *merge, "--format", "Parquet")
    assert done.stdout.splitlines() == [f"{DAY}: merged 40 rows into partition 0, as Parquet"]
    place = root / "Systems/Test/Partitions/0" / DAY / "Every"
    assert pq.read_metadata(place / "table.parquet").num_rows == 40
    assert not list(place.glob("*.dat"))
    code, found = run_json(root, "validate", NAME, "--date", DAY)
    assert code == 0, found
    out = tmp_path / "rows.parquet"
    assert run_json(root, "read", NAME, "--tier", "history", "--out", str(out))[1]["rows"] == 40
    assert pq.read_table(out).num_rows == 40
    query = "select count(*) as n, count(distinct Sym) as s from Test.Every"
    (counts,) = run_json(root, "sql", query)[1]["first"]
    assert counts == {"n": 40, "s": len({*pq.read_table(place / "table.parquet")["Sym"].to_pylist()} - {None})}
    assert run_json(root, "truncate", NAME, "--date", DAY)[1]["rows"] == 40
    assert run(root, "recover").exit_code == 0
    assert run(root, "verify", "--deep").exit_code == 0
    assert run(root, "inspect", str(place / "table.parquet")).exit_code == 0
    assert run_json(root, "stats", NAME)[1]["tiers"]["history"]["rows"] == 40
    code, again = run_json(root, *merge, "--rewrite", "--format", "both")
    assert (code, again["format"], again["generation"]) == (0, "both", 2)
    fresh = place.parents[1].with_name("0.g2") / DAY / "Every"
    assert (fresh / "table.parquet").exists() and (fresh / "Sym.dat").exists()
    assert run_json(root, "read", NAME, "--out", str(out))[1]["rows"] == 40


@pytest.mark.parametrize("form", ["parquet", "both", "deephaven"])
def test_the_location_index_of_a_first_merge_has_its_format(tmp_path: Path, form: str) -> None:
    """An engine that believes another one looks for files that are not there."""
    root = database(tmp_path)
    assert run(root, "merge", NAME, "--date", DAY, "--local", "--format", form).exit_code == 0
    (location,) = run_json(root, "metadata", "list", NAME)[1]["entries"]
    assert location["format"] == ("PARQUET" if form == "parquet" else "DEEPHAVEN")
    found = run(root, "metadata", "validate", NAME)
    assert found.exit_code == 0, found.output


@pytest.mark.slow
def test_nothing_but_its_own_lines_is_told_at_the_end(tmp_path: Path) -> None:
    """DuckDB tells of objects that are left where a process takes its modules apart."""
    command = ["-m", "sparkhaven", "--root", str(database(tmp_path)), "merge", NAME, "--date", DAY]
    done = subprocess.run(
        [sys.executable, *command, "--format", "parquet"], cwd=REPOSITORY, capture_output=True, text=True, check=True
    )
    begin, end = done.stderr.splitlines()
    assert begin.startswith("merges in this process") and end.startswith("1 date, 40 rows in ")


def test_an_unknown_format(tmp_path: Path) -> None:
    found = run(database(tmp_path), "merge", NAME, "--date", DAY, "--format", "orc")
    assert found.exit_code == 2
    assert "expected: default, deephaven, parquet, both" in found.stderr


@pytest.mark.parametrize("asked", [(), ("--format", "default"), ("--format", "deephaven")])
def test_the_format_of_the_schema_is_the_default(tmp_path: Path, asked: tuple[str, ...]) -> None:
    code, found = run_json(database(tmp_path), "merge", NAME, "--date", DAY, "--local", *asked)
    assert (code, found["format"]) == (0, "deephaven")


@pytest.mark.slow
@pytest.mark.parametrize("form", ["parquet", "both"])
def test_late_rows_and_re_merges_keep_the_format_of_the_date(tmp_path: Path, form: str) -> None:
    db, _ = make(tmp_path, 20, partitions=1)
    merge = "merge", NAME, "--local"
    assert run_json(tmp_path, *merge, "--date", DAY, "--format", form, "--sort", "L:desc")[1]["format"] == form
    outcomes = []
    for number in range(6):
        db.commit({("a", DAY): as_table([random_row(random.Random(number))])})
        which = ("--date", DAY) if number % 2 else ("--closed", "--zone", "UTC")
        code, found = run_json(tmp_path, *merge, *which)
        assert (code, found.get("format"), found.get("sort")) == (0, form, ["L:desc"]), found
        outcomes.append(found["outcome"])
    assert outcomes == [*["supplement"] * 4, "merged", "supplement"], "the fifth merges the date anew by itself"
    places = [path.parent for path in tmp_path.rglob("Partitions/*/*/Every/table.size")]
    assert all((place / "table.parquet").exists() for place in places)
    assert all((form == "both") == (place / "L.dat").exists() for place in places)
    assert run_json(tmp_path, *merge, "--date", DAY, "--rewrite")[1]["format"] == form
    again = run_json(tmp_path, *merge, "--date", DAY, "--rewrite", "--format", "default")[1]
    assert again["format"] == "deephaven", "`default` is the schema's, also of a date that was merged otherwise"
    assert run_json(tmp_path, *merge, "--date", DAY, "--rewrite", "--dry-run")[1]["format"] == "deephaven"


def test_a_changed_schema_does_not_change_the_format_of_a_merged_date(tmp_path: Path) -> None:
    db, _ = make(tmp_path, 20, partitions=1)
    merge(db.layout)
    parquet = SCHEMA.replace(b'storageType="', b'defaultMergeFormat="Parquet" storageType="')
    deploy(db.fs, db.layout, parquet, consent=ACCEPTED)
    db.commit(
        {("a", DAY): as_table([random_row(random.Random(5))]), ("a", NEXT): as_table([random_row(random.Random(5))])}
    )
    assert [each.format for each in merge(db.layout, DAY, NEXT)] == ["deephaven", "parquet"]
