"""The command ``sql`` from the outside: rows as text, JSON and files, and exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest

from tests.support.commands import run, run_json
from tests.support.tables.small_tables import SmallTable

D1, D2 = "2026-11-20", "2026-11-21"
NANOS = 1_795_089_600_000_000_123


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = SmallTable(tmp_path_factory.mktemp("sql"))
    made.add("a", D1, {"Sym": ["X", None], "Size": [1, 2], "At": [NANOS, None], "Note": ["a\nb", ""]})
    made.add("a", D2, {"Sym": ["X"], "Size": [2**31 - 1], "Px": [float("nan")]})
    made.log().close()
    return made.root


def test_first_rows_as_a_table(root: Path) -> None:
    found = run(root, "sql", 'select Sym, "At", Note from NS.T order by Size', "--limit", "2", "-v")
    assert found.exit_code == 0, found.stderr
    assert [line.split() for line in found.stdout.splitlines()] == [
        ["Sym", "At", "Note"],
        ["X", "2026-11-19T12:00:00.000000123+00:00", "a\\nb"],
        ["-", "-"],
        ["3", "rows", "at", "s", "epoch", "2,", "2", "shown"],
        ["NS.T:", "3", "rows", "read", "of", "At,", "Note,", "Size,", "Sym"],
    ]
    assert found.stderr == ""


def test_json_says_what_was_read(root: Path) -> None:
    query = f"select sum(Size) s, max(Px) p, 1.5 d from NS.T where Date = '{D2}'"
    code, value = run_json(root, "sql", query)
    assert code == 0
    assert value == {
        "tier": "all",
        "rows": 1,
        "columns": ["s", "p", "d"],
        "first": [{"s": 2**31 - 1, "p": "NaN", "d": 1.5}],
        "tables": [
            {
                "table": "NS.T",
                "epoch": {"s": 2},
                "rows_read": 1,
                "columns": ["Date", "Px", "Size"],
                "where": f"\"Date\" = '{D2}'",
            }
        ],
    }
    assert run_json(root, "sql", "select * from NS.T", "--limit", "0")[1]["first"] == []
    assert run_json(root, "sql", "select * from NS.T", "--tier", "history")[1]["rows"] == 0


@pytest.mark.slow
@pytest.mark.parametrize("suffix", [".parquet", ".arrow", ".csv"])
def test_all_rows_into_a_file(root: Path, tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"out{suffix}"
    query = 'select Size, "At" from NS.T where Size < 10 order by Size'
    code, value = run_json(root, "sql", query, "--out", str(path))
    assert (code, value["rows"], value["out"], value["tables"][0]["rows_read"]) == (0, 2, str(path), 2)
    if suffix == ".csv":
        assert path.read_text().splitlines() == ['"Size","At"', "1,2026-11-19 12:00:00.000000123Z", "2,"]
        return
    with pa.memory_map(str(path)) as source:
        found = pa.parquet.read_table(path) if suffix == ".parquet" else pa.ipc.open_file(source).read_all()
        assert found["At"].cast(pa.int64()).to_pylist() == [NANOS, None]
        assert found["Size"].to_pylist() == [1, 2]
    assert run(root, "sql", query, "--out", str(path)).stdout == f"2 rows to {path} at s epoch 2\n"


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (["select * from NS.U"], "no table NS.U"),
        (["select Sise from NS.T"], "Sise"),
        (["copy NS.T to 'x.csv'"], "not a single SELECT"),
        (["select * from read_csv('/etc/passwd')"], "reaches beyond the tables"),
        (["select 1", "--tier", "old"], "unknown tier"),
        (["select 1", "--memory", "much"], "--memory is not an amount"),
        (["select 1", "--out", "x.xlsx"], "has no known ending"),
    ],
)
def test_wrong_usage_is_exit_2(root: Path, words: list[str], what: str) -> None:
    found = run(root, "sql", *words, "--json")
    error = json.loads(found.stdout)["error"]
    assert (found.exit_code, error["exit_code"]) == (2, 2)
    assert what in error["what"] and what in found.stderr


def test_a_column_that_a_file_cannot_hold_is_reported(root: Path, tmp_path: Path) -> None:
    code, value = run_json(root, "sql", "select interval 1 month x", "--out", str(tmp_path / "x.csv"))
    assert (code, list(tmp_path.iterdir())) == (2, [])
    assert "cannot be written in this format" in value["error"]["what"]
