"""One executor killed under a frame with a shuffle; ``make crash`` kills twenty-five."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.crash.spark.frame_copies import run_campaign
from tests.support.spark.one_session import end_shared_session

pytestmark = pytest.mark.spark


def test_tasks_that_run_beside_earlier_attempts_of_themselves(tmp_path: Path) -> None:
    end_shared_session()  # this process can have only one
    done = run_campaign(tmp_path, 1, 3, ["mixed"])
    assert (done.rounds, done.kills) == (1, 1) and done.repeated > 0
