"""One round with a real Spark job that is overtaken in its sleep; ``make crash`` plays fifteen."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.crash.spark.zombies import KINDS, zombie_round

pytestmark = pytest.mark.spark


def test_a_spark_job_that_was_overtaken_is_refused(tmp_path: Path) -> None:
    outcome = zombie_round(tmp_path / "round", KINDS[1], random.Random(1))
    assert outcome.endswith("zombie refused")
