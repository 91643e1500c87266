"""Ranges of epochs of two roots: what `compare --epochs` says of the rows that they have added."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from tests.support.commands import run_json
from tests.support.tables.intraday_rows import IntradayRows
from tests.support.writers.merge_cases import DAY, SCHEMA, TABLE, as_table, random_row
from tests.support.writers.merge_runs import FS, merge
from tests.support.writers.removals import empty

NAME = str(TABLE)


def rooted(root: Path, other: int = -1, stream: str = "rows") -> IntradayRows:
    """Four epochs of five rows in two sources; those of epoch ``other`` have one row that differs."""
    db, rng = IntradayRows(root, SCHEMA, stream=stream, fs=FS), random.Random(8)
    for epoch in range(1, 5):
        rows = [random_row(rng) | {"L": 10 * epoch + row} for row in range(5)]
        if epoch == other:
            rows[2]["L"] = -1
        db.commit({("ab"[epoch % 2], DAY): as_table(rows)})
    return db


def compared(base: Path, epochs: str, code: int = 0) -> dict[str, Any]:
    found, result = run_json(base / "one", "compare", str(base / "two"), NAME, "--epochs", epochs)
    assert found == code, result
    return result


def test_equal_ranges_are_known_from_the_logs(tmp_path: Path) -> None:
    for name in ("one", "two"):
        rooted(tmp_path / name).log.close()
    for path in (tmp_path / "two" / "Intraday").rglob("*.dat"):
        path.unlink()  # the records are all that is needed
    for epochs, rows in (("1..4", 20), ("2..3", 10), ("rows=4..4", 5)):
        result = compared(tmp_path, epochs)
        (date,) = result["dates"]
        assert (result["equal"], result["rows_read"]) == (True, 0)
        assert (date["date"], date["rows"], date["other_rows"]) == (DAY, rows, rows)


def test_a_row_that_differs_is_named_in_the_range_that_added_it(tmp_path: Path) -> None:
    rooted(tmp_path / "one").log.close()
    db = rooted(tmp_path / "two", other=3)
    assert compared(tmp_path, "1..2")["equal"]
    for epochs in ("3..3", "2..4"):
        result = compared(tmp_path, epochs, code=1)
        assert [(row["side"], row["values"]["L"]) for row in result["differences"]] == [("here", 32), ("there", -1)]
        assert [row["row"] for row in result["differences"]] == [7, 7]
    after = compared(tmp_path, "4..4")  # of the other source
    assert after["equal"] and after["rows_read"] == 0
    db.commit({("b", DAY): as_table([random_row(random.Random(9))])})
    db.log.close()
    assert compared(tmp_path, "5..5", code=2)["error"]["type"] == "TableNotFoundError"


def test_rows_behind_a_difference_are_read(tmp_path: Path) -> None:
    for name, other in (("one", -1), ("two", 1)):
        rooted(tmp_path / name, other=other).log.close()
    result = compared(tmp_path, "3..3")
    assert result["equal"] and result["rows_read"] > 0


@pytest.mark.parametrize("epochs", ["3", "0..2", "4..3", "=1..2", "a..b"])
def test_what_is_no_range_is_refused(tmp_path: Path, epochs: str) -> None:
    for name in ("one", "two"):
        rooted(tmp_path / name).log.close()
    assert "--epochs" in compared(tmp_path, epochs, code=2)["error"]["what"]


def test_what_cannot_be_compared_says_why(tmp_path: Path) -> None:
    dbs = [rooted(tmp_path / name) for name in ("one", "two")]
    code, result = run_json(tmp_path / "one", "compare", str(tmp_path / "two"), "--epochs", "1..2")
    assert (code, result["error"]["what"]) == (2, "--epochs is given without one table")
    assert compared(tmp_path, "other=1..2", code=2)["error"]["type"] == "TableNotFoundError"
    merge(dbs[1].layout)
    assert compared(tmp_path, "1..4")["equal"]  # merged, but intraday still
    empty(dbs[1])
    error = compared(tmp_path, "1..4", code=3)["error"]
    assert error["what"] == "rows of these epochs were truncated"
    for db in dbs:
        db.log.close()
    rooted(tmp_path / "one", stream="second").log.close()
    assert "several" in compared(tmp_path, "1..2", code=2)["error"]["what"]
