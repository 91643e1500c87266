"""A table followed into another one has each row once, whichever end is killed; ``make crash`` kills forty times."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.crash.spark.chain import ENDS, run_campaign
from tests.support.examples import share_of

pytestmark = pytest.mark.spark


def test_a_table_that_is_followed_has_each_row_once_whichever_end_is_killed(tmp_path: Path) -> None:
    ends = ENDS[-share_of(len(ENDS), 1) :]  # the query in any case: ends of a stream are killed elsewhere too
    done = run_campaign(tmp_path, len(ends), 3, ends=ends)
    assert done.kills == dict.fromkeys(ENDS, 0) | dict.fromkeys(ends, 1)
