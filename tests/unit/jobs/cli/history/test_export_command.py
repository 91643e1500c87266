"""The command ``export``: its JSON, its words, its exit codes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.commands import run, run_json
from tests.support.tables.small_tables import SmallTable


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Two dates of one stream."""
    small = SmallTable(tmp_path / "db")
    for day in ("2026-11-20", "2026-11-21"):
        small.add("a", day, {"Sym": ["X", "Y"], "Size": [1, None]})
    small.log().close()
    return tmp_path / "db"


def test_export_reports_rows_files_and_digests(root: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    words = "export", "NS.T", "--out", str(out), "--codec", "zstd", "--dates", "2026-11-21..2026-12-01"
    code, value = run_json(root, *words, "--dry-run")
    assert (code, value["outcome"], value["rows"], value["digests"], out.exists()) == (0, "planned", 2, {}, False)
    code, value = run_json(root, *words)
    assert code == 0
    assert value["dates"] == {"2026-11-21": 2}
    assert (value["layout"], value["codec"], value["files"], value["dry_run"]) == ("kv", "ZSTD", 1, False)
    assert set(value["digests"]) == set(value["columns"])
    assert value["bytes"] == sum(path.stat().st_size for path in out.rglob("*.parquet"))
    code, again = run_json(root, *words)
    assert (code, again["outcome"], again["id"]) == (0, "unchanged", value["id"])
    found = run(root, "export", "NS.T", "--out", str(out), "--replace")
    assert (found.exit_code, found.stdout) == (0, f"4 rows of 2 dates to {out}, layout kv\n")
    assert "2026-11-20: 2 rows written, 1 of 2 dates" in found.stderr


@pytest.mark.parametrize(
    "words",
    [
        ("--layout", "tree"),
        ("--leaf", "csv"),
        ("--codec", "lzo"),
        ("--columns", "Sym,None"),
        ("--dates", "2020-01-01"),
        ("--tier", "past"),
        ("--layout", "flat", "--leaf", "deephaven"),
    ],
)
def test_wrong_words_end_with_2_and_nothing_is_written(root: Path, tmp_path: Path, words: tuple[str, ...]) -> None:
    code, value = run_json(root, "export", "NS.T", "--out", str(tmp_path / "out"), *words)
    assert (code, value["error"]["exit_code"]) == (2, 2)
    assert value["error"]["expected"]
    assert not (tmp_path / "out").exists()
