"""A bounded sample of the campaign of random histories."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.crash.histories.campaign import campaign
from tests.support.examples import share_of


@pytest.mark.slow
def test_readers_show_the_rows_of_the_model_whatever_is_killed(tmp_path: Path) -> None:
    count = share_of(4, 2)
    kills, compared = (4, 100) if count == 4 else (1, 30)
    tally = campaign(tmp_path, first=1, count=count, length=14)
    assert not tally.wrong
    assert sum(times for name, times in tally.done.items() if name.endswith("killed")) >= kills
    assert tally.done["epochs compared"] > compared
