"""A bounded sample of the campaign of commands beside a stream and beside maintenance."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.crash.beside.campaign import COMMANDS, campaign
from tests.support.examples import share_of


@pytest.mark.slow
def test_no_command_reports_damage_beside_a_stream_or_maintenance(tmp_path: Path) -> None:
    tally = campaign(
        tmp_path / "beside",
        epochs=share_of(60, 20),
        locations=30,
        calls=100,
        rounds=share_of(3, 1),
        least=share_of(2, 1),
    )
    assert tally.wrong == []
    assert set(tally.calls) == set(COMMANDS)
