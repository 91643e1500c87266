"""Damage to each file of a detached date: no command is silently wrong; each does what the page says."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.witness.commands import CORRECT
from tests.support.witness.damage import DAMAGES, Kind
from tests.support.witness.detached import KINDS, Away, line, make_away, outcomes
from tests.support.witness.page import PAGE, wrong

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def away(tmp_path_factory: pytest.TempPathFactory) -> Away:
    return make_away(tmp_path_factory.mktemp("away"))


def test_both_parts_come_back(away: Away, tmp_path: Path) -> None:
    results = outcomes(away, tmp_path, KINDS[0], "none")
    assert results is not None and {result.word for result in results.values()} == {CORRECT}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_no_command_is_silently_wrong(away: Away, tmp_path: Path, kind: Kind) -> None:
    lines, faults = [], []
    for damage in DAMAGES:
        if (results := outcomes(away, tmp_path, kind, damage)) is not None:
            lines.append(line(kind, damage, results))
            faults += wrong(kind, damage, results)
    assert faults == []
    page = PAGE.read_text(encoding="utf-8").splitlines()
    said = [text for text in page if text.startswith(f"| {kind.name} |")]
    assert said == lines, "`python -m tests.support.witness.page` writes the page anew"
