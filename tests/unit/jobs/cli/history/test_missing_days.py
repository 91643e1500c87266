"""Days without rows: ``merge --fill-missing`` and ``--strict``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import sparkhaven
from sparkhaven.store.layout import TableName
from tests.support.commands import run
from tests.support.tables.intraday_rows import IntradayRows
from tests.support.writers.import_cases import small
from tests.support.writers.merge_runs import FS

D1, D2 = "2026-11-20", "2026-11-21"
NS_T = TableName("NS", "T")


def told(root: Path, *words: str) -> tuple[int, list[dict[str, Any]]]:
    done = run(root, "merge", "NS.T", *words, "--json")
    return done.exit_code, [json.loads(line) for line in done.stdout.splitlines()]


def frame(x: list[int | None], date: str | None = None, **more: list[Any]) -> pa.Table:
    given = {"Date": [date] * len(x)} if date else {}
    return pa.table({**given, "Sym": ["a"] * len(x), "X": pa.array(x, pa.int32()), **more})


def values(root: Path, date: str) -> list[int | None]:
    table = sparkhaven.open_table(root, "NS.T").to_arrow(["X"], dates=date, tier="history")
    return sorted(table["X"].to_pylist(), key=str)


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (["--closed", "--strict"], "no days are named for --strict"),
        (["--dates", "2026..2027", "--fill-missing"], "the range of --fill-missing is not from day to day"),
        (["--dates", f"{D1}..20261122", "--strict"], "the range of --strict is not from day to day"),
    ],
)
def test_days_that_are_not_named_are_refused(tmp_path: Path, words: list[str], what: str) -> None:
    code, (refused,) = told(small(tmp_path).root, *words)
    assert (code, refused["error"]["what"]) == (2, what)


def test_missing_days_are_named_and_filled(tmp_path: Path) -> None:
    db = IntradayRows(tmp_path / "db", (small(tmp_path / "x").schema(NS_T)).read_bytes(), fs=FS)
    db.commit({("a", D1): frame([1])})
    root, days = db.layout.root, ("--dates", "2026-11-19..2026-11-22")
    code, shown = told(root, *days, "--strict", "--dry-run")
    assert (code, shown[-1]["dates"]) == (1, ["2026-11-19", D2, "2026-11-22"])
    code, shown = told(root, *days, "--strict", "--fill-missing", "--dry-run")
    assert (code, [s["outcome"] for s in shown]) == (0, ["planned"] * 4)
    code, shown = told(root, *days, "--strict")
    assert (code, [s["outcome"] for s in shown]) == (1, ["merged", "missing"])
    code, shown = told(root, *days, "--strict", "--fill-missing")
    assert (code, [s["outcome"] for s in shown]) == (0, ["nothing", "filled", "filled", "filled"])
    assert told(root, *days, "--strict", "--fill-missing")[0] == 0
    tree = root / "Systems" / "NS" / "Partitions" / "0"
    assert sorted(path.name for path in tree.iterdir()) == ["2026-11-19", D1, D2, "2026-11-22"]
    assert run(root, "validate", "NS.T", *days).exit_code == 0
    assert run(root, "verify", "NS.T", "--deep").exit_code == 0
    db.commit({("a", D2): frame([2])})
    assert [s["outcome"] for s in told(root, "--dates", D2)[1]] == ["supplement"]
    assert (values(root, D1), values(root, D2)) == ([1], [2])
    assert run(root, "verify", "NS.T", "--deep").exit_code == 0
    assert [s["outcome"] for s in told(root, "--dates", D2, "--rewrite", "--format", "parquet")[1]] == ["merged"]
    assert values(root, D2) == [2]
    code, (dropped,) = told(root, "--dates", "2026-11-19", "--rewrite")
    assert (code, dropped["rows_out"]) == (0, 0)
    drop = run(root, "dates", "drop", "NS.T", "--dates", "2026-11-19", "--reason", "none")
    assert drop.exit_code == 0, drop.stderr
    assert told(root, "--dates", "2026-11-19", "--strict", "--fill-missing")[0] == 0, "dropped by command, not missing"
    status = json.loads(run(root, "merge", "--status", "NS.T", "--json").stdout.splitlines()[0])
    assert "2026-11-19" in json.dumps(status)
