"""The jobs under spark-submit: lines as the documentation has them. Of a cluster: ``tests.crash.spark``."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from sparkhaven.readers import open_table
from tests.support.places import REPOSITORY
from tests.support.spark.place import PATIENCE, ROWS, Place

TWO_DAYS = (0, 1, 30, 31)  # files with rows of the first day, and of the second
ORDER = [(name, "ascending") for name in ("time_hour", "carrier", "flight", "origin", "dest")]

pytestmark = pytest.mark.spark


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with Place.of(tmp_path) as made:
        yield made


def printed_lines() -> list[str]:
    """The lines for spark-submit as the documentation has them."""
    blocks = (REPOSITORY / "docs/howto/submit.md").read_text(encoding="utf-8").split("```")
    (block,) = (block for block in blocks if "spark-submit --" in block)
    return block.strip().splitlines()


def test_the_documentations_lines_run_as_they_are_printed_with_a_bad_row_in_the_feed(place: Place) -> None:
    allowed = "max_rows = 10\nmax_fraction = 0.5"
    place.stream.write_text(place.stream.read_text().replace("max_rows = 0", allowed))
    place.put(0, '{"carrier": 7}\n')
    export, *jobs = printed_lines()
    names = {
        "sparkhaven.zip": place.zip,
        "/data/db": str(place.base / "db"),
        "my.toml": f"{place.stream} --once",
        "MyNamespace.MyTable": "Nyc13.Flight",
        "/data/tree": str(place.base / "tree"),
        "result.json": str(place.base / "result.json"),
        "2026-11-20": "2013-01-01",
        "Price=Price * 10": "distance=distance * 10",
    }
    found = []
    for line in jobs:
        if "import_dates" in line:  # a tree of the rows that were merged, of another date
            rows = open_table(place.base / "db", "Nyc13.Flight").to_arrow(dates="2013-01-01", dictionaries=False)
            leaf = place.base / "tree" / "Date=2013-01-02"
            leaf.mkdir(parents=True)
            pq.write_table(rows.drop_columns(["Date"]), leaf / "rows.parquet")
        for name, value in names.items():
            line = line.replace(name, value)
        script = f"set -eu\n{export}\n{line}\n"
        done = subprocess.run(
            ["bash", "-c", script],
            cwd=REPOSITORY,
            env={**place.environ, "SPARK_SUBMIT_OPTS": "-Dspark.ui.enabled=false"},
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
        assert done.returncode == 0, done.stderr
        found.append(json.loads((place.base / "result.json").read_text()))
    taken, merged, imported, rewritten = found
    assert (taken["rows"], taken["rejected"], taken["epoch"]) == (ROWS, 1, 1)
    assert (merged["rows_in"], merged["rows_out"]) == (ROWS, ROWS)
    assert (imported["rows_in"], imported["date"]) == (ROWS, "2013-01-02")
    assert (rewritten["rows"], rewritten["generation"]) == (ROWS, 2)
    assert (place.base / "db" / ".quarantine" / "flights" / "_delta_log").is_dir()


def test_a_wrong_name_is_wrong_usage(place: Place) -> None:
    job = place.submit("merge_dates", "Nyc13.Flight", "--date", "../x")
    code, (reported,), printed = place.ended(job, "merge_dates")
    assert (code, reported["error"]["type"]) == (2, "InvalidNameError"), printed
    assert any(line.endswith(json.dumps(reported)) for line in printed.splitlines()), "as --json prints it"
