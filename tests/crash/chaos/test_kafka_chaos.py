"""The driver of a stream from a real topic is killed, beside an older checkpoint; ``make crash`` kills hundreds."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.crash.chaos.campaign import LARGE, Chaos

pytestmark = [pytest.mark.jvm, pytest.mark.kafka, pytest.mark.spark]


def test_whatever_is_killed_every_message_is_there_once(tmp_path: Path) -> None:
    with ExitStack() as opened:
        chaos = Chaos(tmp_path, opened, seed=7, sizes=(LARGE,), rest=6.0)
        chaos.round("driver, random moment", "older copy")
        chaos.finish()
    found = chaos.found
    assert found.bad == 0, found.table()
    assert found.kills == found.rounds == 1
    assert found.checkpoints == {"older copy": 1}
    assert found.looks > 10 and found.rows >= 2 * LARGE
