"""Leaves cases of campaigns out of a run, and says at its end how many."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from tests.support.examples import ROUNDS, left_out, share

REPORT = "campaigns"  # what a process that runs tests leaves for the one that hands them out
ALL = "make test SPARKHAVEN_EXAMPLES=1"


class Campaigns:
    """The plugin. Processes that run tests have all collected the same cases, and each counts rounds of its own."""

    def __init__(self) -> None:
        self._cases, self._rounds = 0, 0

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        gone = left_out(items, share())
        if gone:
            self._cases = len(gone)
            unwanted = set(gone)
            items[:] = [item for item in items if item not in unwanted]
            config.hook.pytest_deselected(items=gone)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        self._rounds += ROUNDS.left_out
        if hasattr(session.config, "workeroutput"):
            session.config.workeroutput[REPORT] = {"cases": self._cases, "rounds": self._rounds}

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        told: Mapping[str, int] = getattr(node, "workeroutput", {}).get(REPORT, {})
        self._cases = max(self._cases, told.get("cases", 0))
        self._rounds += told.get("rounds", 0)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self._cases or self._rounds:
            counts = f"{self._cases:,} cases and {self._rounds:,} rounds were left out"
            terminalreporter.write_line(f"campaigns: {counts}; all of them: {ALL}")
