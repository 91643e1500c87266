"""The command ``read`` as a process of its own, without what other tests have imported."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.places import REPOSITORY
from tests.support.tables.small_tables import SmallTable


@pytest.mark.slow
@pytest.mark.parametrize("words", [("read", "NS.T", "--columns", "At"), ("sql", 'select "At" from NS.T')])
def test_instants_with_nanoseconds_are_shown_whole(tmp_path: Path, words: tuple[str, ...]) -> None:
    small = SmallTable(tmp_path)
    small.add("a", "2026-11-20", {"At": [1_795_089_600_000_000_123, None]})
    small.log().close()
    line = [sys.executable, "-m", "jobs.cli.main", "--root", str(tmp_path), *words, "--json"]
    done = subprocess.run(line, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["first"] == [{"At": "2026-11-19T12:00:00.000000123+00:00"}, {"At": None}]
