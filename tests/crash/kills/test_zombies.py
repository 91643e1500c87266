"""Two copies of a stream's driver, and tasks that outlive theirs; ``make crash`` plays all rounds, and Spark jobs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.crash.kills.zombies import driver_round, task_round

pytestmark = pytest.mark.slow


def test_a_stopped_driver_keeps_its_stream(tmp_path: Path) -> None:
    assert driver_round(tmp_path / "db", "commit-record:before", nth=1, forced=False) == "successor refused"


def test_a_driver_whose_lock_was_deleted_publishes_nothing_over_its_successor(tmp_path: Path) -> None:
    assert driver_round(tmp_path / "db", "publish:before", nth=1, forced=True) == "zombie refused"


def test_a_driver_in_the_middle_of_a_commit_is_not_overtaken(tmp_path: Path) -> None:
    assert driver_round(tmp_path / "db", "log-append:before", nth=1, forced=True).startswith("successor refused")


def test_a_task_without_a_driver_is_harmless(tmp_path: Path) -> None:
    assert task_round(tmp_path / "db", "decoded") == "task harmless"
