"""The benchmark of indexed reads, with few rows: it compares results itself, and counts the rows that are read."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.index import main


@pytest.mark.slow
def test_a_small_run_reads_the_rows_that_match(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--rows", "20000", "--rounds", "1", "--dir", str(tmp_path)]) == 0
    printed = capsys.readouterr().out.splitlines()
    lines = [line.split()[-5:] for line in printed if line.startswith(("Sym = ", "OrderId = "))]
    assert [(int(matches), int(read)) for matches, read, *_ in lines] == [
        (count, count) for count in (10, 100, 1000) for _ in ("Sym", "OrderId")
    ]
