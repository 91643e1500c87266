"""A bounded sample of the campaign of random histories: always the same ones; and what they draw and see."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.crash.histories.campaign import Campaign, State, campaign, run_kind
from tests.crash.histories.operations.table import STEPS
from tests.crash.histories.put_back import by_histories
from tests.support.every_command import calls_of
from tests.support.examples import share_of
from tests.support.places import REPOSITORY

pytestmark = pytest.mark.slow
CALLED = {  # steps that are called otherwise than the command that they run
    "undo": "epochs undo",
    "rollback": "epochs rollback",
    "correct": "rewrite-column",
    "restore": "drop",
    "restore over": "restore",
}
ELSEWHERE = {  # commands that no history draws, and where they are killed
    "quarantine requeue": "tests/crash/kills/test_requeue_crashes.py",
    "checkpoint repair": "tests/spark/test_checkpoint_repair.py",
}


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Campaign]:
    with campaign(tmp_path_factory.mktemp("histories")) as started:
        yield started


@pytest.mark.parametrize(("kind", "histories", "met"), [("plain", 60, 0), ("kill", 28, 7), ("full", 28, 7)])
def test_every_reader_shows_the_rows_of_the_model(running: Campaign, kind: str, histories: int, met: int) -> None:
    count = share_of(histories)
    done = run_kind(running, kind, State(None), lambda progress: progress.next > count, progress=False)
    assert not done.found, done.found[0].text
    assert done.met >= met * count // histories
    assert done.tally.done["epochs compared"] > 5 * count


def test_every_command_that_changes_something_is_drawn() -> None:
    drawn = {CALLED.get(step, step) for step in STEPS}
    assert calls_of(Path("base")).keys() - drawn == ELSEWHERE.keys()
    assert all((REPOSITORY / path).exists() for path in ELSEWHERE.values())


@pytest.mark.parametrize(("fault", "first"), [("A1 slices", 40), ("A2", 1), ("A3 copies", 44)])
def test_a_past_fault_is_seen(running: Campaign, fault: str, first: int) -> None:
    """Soon, from a history on that was the first to see it; of the others ``docs/evidence/histories.md`` tells."""
    assert by_histories(running, fault, 40, first).told
