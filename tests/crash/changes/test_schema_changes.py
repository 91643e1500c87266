"""Each change of a schema at one moment, with every reader and a whole night after it.

All moments of all changes: ``python -m tests.crash.results "schema changes" --full``.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.crash.changes.campaign import sampled
from tests.support.schemas.changes import CHANGES
from tests.support.schemas.moments import MOMENTS, tell

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)


def test_the_sample_has_every_possible_change_and_every_moment() -> None:
    assert {change for change, _, _ in sampled()} >= {name for name, change in CHANGES.items() if change.effective}
    assert {moment for _, moment, _ in sampled()} == set(MOMENTS)


@pytest.mark.campaign
@pytest.mark.parametrize(("change", "moment", "form"), sampled())
def test_no_cell_is_silent_and_nothing_is_lost(tmp_path: Path, change: str, moment: str, form: str) -> None:
    tell(tmp_path, change, moment, form)


def test_a_night_that_is_killed_again_and_again_loses_nothing(tmp_path: Path) -> None:
    assert tell(tmp_path, "rename, drop, add", "between", "deephaven", kill_every=5) > 8
