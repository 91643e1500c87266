"""How tests are spread over processes: all that need a JVM share one, so that one Spark or broker runs at a time."""

from __future__ import annotations

import pytest

NEEDS_JVM = frozenset({"jvm", "spark", "kafka"})


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist reads the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Groups of pytest-xdist's ``--dist loadgroup``; without it they change nothing."""
    for item in items:
        if NEEDS_JVM & {mark.name for mark in item.iter_markers()}:
            item.add_marker(pytest.mark.xdist_group("jvm"))
