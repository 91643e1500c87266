"""A bounded sample of the campaign of random histories."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.crash.histories.campaign import campaign


@pytest.mark.slow
def test_readers_show_the_rows_of_the_model_whatever_is_killed(tmp_path: Path) -> None:
    tally = campaign(tmp_path, first=1, count=4, length=14)
    assert not tally.wrong
    assert sum(times for name, times in tally.done.items() if name.endswith("killed")) >= 4
    assert tally.done["epochs compared"] > 100
