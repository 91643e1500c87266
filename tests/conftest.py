"""What tests of all kinds share."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest
from typer import testing
from typer.main import get_command

LONGEST_FIRST = ({"spark", "kafka", "jvm"}, {"slow"})

# typer's runner builds the command line anew for every call, which takes longer than most commands
vars(testing)["_get_command"] = cache(get_command)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files with the longest tests come first, so that no process is left with one of them at the end."""
    rank: dict[Path, int] = {}
    for item in items:
        marks = {mark.name for mark in item.iter_markers()}
        found = next((n for n, names in enumerate(LONGEST_FIRST) if names & marks), len(LONGEST_FIRST))
        rank[item.path] = min(found, rank.get(item.path, found))
    items.sort(key=lambda item: rank[item.path])
