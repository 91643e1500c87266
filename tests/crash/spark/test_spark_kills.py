"""A real streaming job is killed, and its checkpoint deleted; ``make crash`` does that fifty times."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.crash.spark.kill import run_campaign


@pytest.mark.spark
def test_a_killed_spark_job_loses_and_doubles_nothing(tmp_path: Path) -> None:
    found = run_campaign(tmp_path, kills=1, seed=7, damage_every=2)
    assert (found.kills, found.during, found.checkpoints_deleted) == (1, 1, 1)
