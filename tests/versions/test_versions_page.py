"""The page of releases has what was tried, and the release that these tests run with works in full."""

from __future__ import annotations

from pathlib import Path

from sparkhaven.readers.spark.releases import installed_spark
from tests.versions.matrix import PAGE, Combination, row_of, rows_of, write_page


def test_the_release_of_these_tests_lacks_nothing_and_reads_by_java() -> None:
    rows = [line for what, line in rows_of(PAGE) if what.spark.startswith(installed_spark().series)]
    assert rows and all(line.endswith("| nothing |") for line in rows)
    assert [line for line in rows if "| Java |" in line] and not [line for line in rows if "| Python |" in line]


def test_a_run_renews_its_rows_and_keeps_the_others(tmp_path: Path) -> None:
    page = tmp_path / "versions.md"
    old, other = Combination("4.2.0", "3.11", 17), Combination("4.2.0", "3.11", 21)
    write_page(page, {what: row_of(what, {"read": "ok"}) for what in (old, other)})
    new = Combination("4.2.1", "3.11", 17)
    write_page(page, {new: row_of(new, {"read": "ok", "reader": "Java", "write": "it | failed"})})
    assert [what for what, _ in rows_of(page)] == [other, new]
    assert dict(rows_of(page))[new] == r"| 4.2.1 | 3.11 | 17 | Java | 1 of 2 | write: it \| failed |"
