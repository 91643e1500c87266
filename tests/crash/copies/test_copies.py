"""A bounded sample of the campaign of snapshots."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.crash.copies.campaign import campaign
from tests.support.examples import share_of


@pytest.mark.slow
def test_snapshots_have_the_rows_of_their_epochs_whatever_is_killed(tmp_path: Path) -> None:
    tally = campaign(tmp_path / "copies", snapshots=share_of(4, 2))
    assert tally.wrong == []
    assert tally.done["restored"] >= share_of(4, 2)
