"""Three kills of a real streaming job; ``make crash`` does fifty."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.crash.spark_kill import run_campaign


@pytest.mark.spark
def test_a_killed_spark_job_loses_and_doubles_nothing(tmp_path: Path) -> None:
    found = run_campaign(tmp_path, kills=3, seed=5)
    assert found.kills == 3
    assert found.checkpoints_deleted == 1
