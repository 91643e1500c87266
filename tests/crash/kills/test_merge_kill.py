"""A merging process that really dies by SIGKILL at a phase, with the real file system; then it is run again."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from sparkhaven.store.merges.merge_records import newest
from tests.support.places import REPOSITORY
from tests.support.writers.merge_cases import DAY
from tests.support.writers.merge_runs import check_tree, make, merge

pytestmark = pytest.mark.slow
CHILD = """
import os, signal, sys
from pathlib import Path
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout
from sparkhaven.store.places import TablePlace
from tests.support.writers.merge_cases import DAY, TABLE
from sparkhaven.writers.merge.date_merges import merge_dates
from sparkhaven.writers.merge.executor import LocalExecutor
from sparkhaven.writers.merge.plan.merge_plan import MergeOptions

class Dying(Fs):
    def step(self, name):
        if name == sys.argv[2]:
            os.kill(os.getpid(), signal.SIGKILL)

place = TablePlace(Dying(), Layout(Path(sys.argv[1])), TABLE)
list(merge_dates(place, [DAY], MergeOptions(), executor=LocalExecutor(), clock=lambda: 1.7e9))
"""


@pytest.mark.parametrize(
    "step", ["merge-stage:after", "merge-publish:before", "merge-index:after", "merge-clean:before"]
)
def test_a_merge_that_was_killed_ends_well_when_it_is_run_again(tmp_path: Path, step: str) -> None:
    db, _ = make(tmp_path, 60)
    root = REPOSITORY
    done = subprocess.run([sys.executable, "-c", CHILD, str(tmp_path), step], cwd=root, check=False)
    assert done.returncode == -signal.SIGKILL
    before = newest(db.place, DAY)
    assert (before is not None) == (step == "merge-clean:before")
    merge(db.layout)
    check_tree(db.layout)
    record = newest(db.place, DAY)
    assert record is not None
    assert (record.phase, record.generation, sum(o.rows for o in record.outputs)) == ("clean", 1, 60)
