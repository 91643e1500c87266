"""Power cuts under jobs are counted right: with a sink without Spark; ``make power-cut-spark`` does the others."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.crash.disk.images import missing
from tests.crash.spark.power_cuts import SinkJob, cut_sink

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(missing()), reason=f"no power cuts on real file systems: {missing()}"),
]


def test_a_sink_that_syncs_its_rows_keeps_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SinkJob, "program", "tests.crash.spark.simple_sink")
    tally = cut_sink(tmp_path / "cut", "ext4", "synced", 2, 1)
    # a power cut between rows and note doubles them: it has no epochs
    assert (tally.rounds, tally.gone, tally.lost, tally.unreadable, tally.stuck) == (2, 0, 0, 0, 0), tally
    assert tally.acknowledged > 0


def test_a_sink_that_forgets_to_is_found_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SinkJob, "program", "tests.crash.spark.simple_sink")
    tally = cut_sink(tmp_path / "cut", "ext4", "forgetful", 2, 1)
    assert tally.rounds == 2
    assert tally.bad, tally
