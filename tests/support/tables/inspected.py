"""A small table whose files are inspected."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sparkhaven.readers.inspect.any_file import Inspection, inspect_file
from tests.support.tables.small_tables import SmallTable

DATE = "2026-11-20"


@pytest.fixture
def small(tmp_path: Path) -> SmallTable:
    """Two epochs in one location."""
    made = SmallTable(tmp_path)
    made.add("a", DATE, {"Sym": ["X", "X", "Y"], "Size": [1, 2, None], "Note": ["hi", None, "é"], "At": [5, 6, 7]})
    made.add("a", DATE, {"Sym": ["Y"], "Size": [5], "Px": [float("nan")]})
    return made


def look(small: SmallTable, name: str) -> Inspection:
    """One file of the location; the result can be written as JSON and as lines."""
    found = inspect_file(small.fs, small.location("a", DATE) / name)
    json.dumps(found.to_json())
    assert found.lines()[0].startswith(found.path)
    return found


def reported(found: Inspection) -> list[tuple[str, str, str | None]]:
    """Severity, fault and byte of each finding."""
    return [(f.severity, f.what, f.at) for f in found.findings]
