"""Damage to each file of an intraday location: no command is silently wrong; each does what the page says."""

from __future__ import annotations

import pytest

from tests.support.witness.damage import DAMAGES, LOCATION_KINDS, Kind, Trees
from tests.support.witness.page import check

pytestmark = pytest.mark.slow


@pytest.mark.campaign
@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("kind", LOCATION_KINDS, ids=lambda kind: kind.name)
def test_no_command_is_silently_wrong(trees: Trees, kind: Kind, damage: str) -> None:
    check(trees, kind, damage)
