"""The command ``read``, and what it shares with other commands that read a snapshot."""

from __future__ import annotations

import csv
import json
import random
import subprocess
import sys
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pytest

from tests.support.commands import run, run_json
from tests.support.places import REPOSITORY
from tests.support.tables.intraday_rows import IntradayRows
from tests.support.tables.small_tables import SmallTable
from tests.support.writers.coded_rows import DAY, SCHEMA, coded_row, coded_table
from tests.support.writers.merge_runs import FS


@pytest.mark.slow
@pytest.mark.parametrize("words", [("read", "NS.T", "--columns", "At"), ("sql", 'select "At" from NS.T')])
def test_instants_with_nanoseconds_are_shown_whole(tmp_path: Path, words: tuple[str, ...]) -> None:
    small = SmallTable(tmp_path)
    small.add("a", "2026-11-20", {"At": [1_795_089_600_000_000_123, None]})
    small.log().close()
    line = [sys.executable, "-m", "sparkhaven.jobs.cli.main", "--root", str(tmp_path), *words, "--json"]
    done = subprocess.run(line, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["first"] == [{"At": "2026-11-19T12:00:00.000000123+00:00"}, {"At": None}]


@pytest.mark.slow
def test_a_snapshot_is_chosen_by_its_time(tmp_path: Path) -> None:
    """Two epochs, at 60 and 120 seconds: each command with ``--as-of`` sees the first one between them."""
    small = SmallTable(tmp_path / "db")
    for number in (1, 2):
        small.add("a", f"2026-11-2{number}", {"Size": [number]})
    small.log().close()
    between = datetime.fromtimestamp(1_800_000_000 + 65, UTC).isoformat()
    before = datetime.fromtimestamp(1_800_000_000, UTC).isoformat()
    out = str(tmp_path / "out")
    commands = (
        ("read", "NS.T"),
        ("sql", "select count(*) as n from NS.T"),
        ("export", "NS.T", "--out", out),
        ("stats", "NS.T"),
    )
    read, sql, export, stats = (run_json(small.root, *words, "--as-of", between) for words in commands)
    assert (read[0], read[1]["rows"], read[1]["epoch"]) == (0, 1, {"s": 1})
    assert (sql[0], sql[1]["first"], sql[1]["tables"][0]["epoch"]) == (0, [{"n": 1}], {"s": 1})
    assert (export[0], export[1]["rows"], export[1]["epoch"]) == (0, 1, {"s": 1})
    assert (stats[0], stats[1]["rows"], stats[1]["waste"], stats[1]["streams"][0]["epoch"]) == (0, 1, None, 1)
    assert run_json(small.root, "read", "NS.T", "--as-of", before)[1]["rows"] == 0
    assert run_json(small.root, "stats", "NS.T")[1]["waste"] == 0
    assert "waste" not in run(small.root, "stats", "NS.T", "--as-of", between).stdout
    for words in commands:
        code, value = run_json(small.root, *words, "--as-of", "yesterday")
        assert (code, value["error"]["what"]) == (2, "as_of is not a time")
    code, value = run_json(small.root, "read", "NS.T", "--as-of", between, "--epoch", "1")
    assert (code, value["error"]["what"]) == (2, "epoch and as_of exclude each other")


def test_values_with_codecs_are_shown_as_text_json_and_csv(tmp_path: Path) -> None:
    root, chance = tmp_path / "db", random.Random(1)
    row = coded_row(chance, 0) | {
        "Clock": 48_600_500_000_000,
        "Short": 0,
        "Px": Decimal("0.000001"),
        "Raw": b"\x00\xff",
        "Texts": ["é", None],
        "Doubles": [1.5, float("inf")],
        "Weights": [("a", 1.5), ("b", None)],
    }
    db = IntradayRows(root, SCHEMA, fs=FS)
    db.commit({("a", DAY): coded_table(db.schema, [row])})
    shown = {
        "Clock": "13:30:00.5",
        "Short": "00:00:00",
        "Px": "0.000001",
        "Raw": "AP8=",
        "Texts": '["é", null]',
        "Doubles": '[1.5, "Infinity"]',
        "Weights": '{"a": 1.5, "b": null}',
    }
    words = ("read", "Test.Coded", "--columns", ",".join(shown))
    lines = run(root, *words, "--vertical").stdout.splitlines()[1:-1]
    assert {name: text.strip() for name, text in (line.strip().split(" ", 1) for line in lines)} == shown
    assert all(text in run(root, *words).stdout for text in shown.values())
    code, value = run_json(root, *words)
    nested = {"Texts": ["é", None], "Doubles": [1.5, "Infinity"], "Weights": {"a": 1.5, "b": None}}
    assert (code, value["first"]) == (0, [shown | nested])
    assert run(root, *words, "--out", str(tmp_path / "x.csv")).exit_code == 0
    with (tmp_path / "x.csv").open(encoding="utf-8", newline="") as file:
        assert list(csv.DictReader(file)) == [shown]
