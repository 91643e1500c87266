"""A cluster that breaks under a stream, and under a merge; ``make crash`` breaks it fifty times."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.crash.spark.cluster_kills import FILES, KINDS, run_campaign
from tests.support.examples import share_of

pytestmark = pytest.mark.spark


def test_whatever_of_a_cluster_is_killed_every_row_is_there_once(tmp_path: Path) -> None:
    """Under dynamic allocation, and with speculation asked for."""
    kinds = ("master", "executor")[: share_of(2, 1)]  # the merge loses an executor in any case
    done = run_campaign(tmp_path, len(kinds), 5, kinds=kinds, dynamic=True)
    assert {kind: done.kills.get(kind, 0) for kind in KINDS} == dict.fromkeys(KINDS, 0) | dict.fromkeys(kinds, 1)
    assert done.tasks == FILES, "with an executor or two there is a task a file: tasks that wait bring executors"
    executors = [*(tmp_path / "cluster").glob("work-*/app-*/*/stderr")]
    applications = {path.parents[1].name for path in executors}
    assert len(applications) >= 2, "the stream and the merge have run on the cluster"
