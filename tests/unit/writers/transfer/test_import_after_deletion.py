"""An import takes the place of a history without rows only where intraday does not show the rows that were deleted."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from sparkhaven.readers import open_table
from tests.support.commands import run
from tests.support.readers.changed_history import NAME, done, filled, merged, rows_of
from tests.support.writers.merge_cases import DAY


@pytest.mark.parametrize("command", ["import", "upsert"])
def test_deleted_rows_do_not_come_back_with_an_import(tmp_path: Path, command: str) -> None:
    """All rows of a date were deleted from history, and intraday still has them as merged ones."""
    root = tmp_path / "db"
    merged(root, removed=False)
    done(root, "delete-rows", NAME, "--where", "Size >= 0")
    words = {
        "import": ("import", NAME, "--from", "{tree}"),
        "upsert": ("import", NAME, "--from", "{tree}", "--upsert", "Sym,Size"),
    }[command]
    found = run(root, *filled(words, tmp_path))
    assert found.exit_code == 2, found.output
    assert f"truncate {NAME} --dates {DAY}, then run this again" in found.stderr
    assert rows_of(open_table(root, NAME)) == Counter()
    done(root, "truncate", NAME, "--dates", DAY)
    done(root, *filled(words, tmp_path))
    assert rows_of(open_table(root, NAME)).total() == 5
