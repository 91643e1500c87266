"""A bounded sample of the campaign of random histories: always the same ones; and what they draw and see."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from sparkhaven import open_table
from tests.crash.histories.campaign import SPARK_EVERY, Campaign, State, campaign, run_kind
from tests.crash.histories.columns import Col, Rows
from tests.crash.histories.faults import FAULTS, planted
from tests.crash.histories.history import LENGTH, SPARK, Tally
from tests.crash.histories.operations.table import STEPS
from tests.crash.histories.put_back import by_a_history
from tests.crash.histories.readers import shown
from tests.crash.histories.spark_reader import SparkReader
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


@pytest.mark.parametrize(("kind", "histories", "met"), [("plain", 40, 0), ("kill", 28, 7), ("full", 28, 7)])
def test_every_reader_shows_the_rows_of_the_model(running: Campaign, kind: str, histories: int, met: int) -> None:
    count = share_of(histories)
    done = run_kind(running, kind, State(None), lambda progress: progress.next > count, progress=False)
    assert not done.found, done.found[0].text
    assert done.met >= met * count // histories
    assert done.tally.done["epochs compared"] > 5 * count


class LosesARow(SparkReader):
    """A reader of Spark, but for Spark, that does not show one row."""

    def __init__(self) -> None:
        """No session."""

    def rows(self, root: Path, table: str, columns: Sequence[Col], where: str, reader: str) -> Rows:
        names = [column.name for column in columns]
        found = open_table(root, table).to_arrow(names, where=where or None)
        return shown(columns, found.slice(1))


def test_the_fewest_steps_are_those_that_the_same_reader_needs(running: Campaign, tmp_path: Path) -> None:
    found = Campaign(tmp_path, running.apart, LosesARow(), tries=8).run("plain", SPARK_EVERY, Tally())
    assert found is not None
    assert found.story.splitlines()[-1].startswith(f"  {SPARK} auto")
    assert len(found.steps) < LENGTH // 2


def test_every_command_that_changes_something_is_drawn() -> None:
    drawn = {CALLED.get(step, step) for step in STEPS}
    assert calls_of(Path("base")).keys() - drawn == ELSEWHERE.keys()
    assert all((REPOSITORY / path).exists() for path in ELSEWHERE.values())


FIRST = {
    "A1 slices": (40, 12),
    "A2": (37, 12),
    "A3 compare": (82, 12),
    "A3 copies": (34, 10),
    "A7": (17, 12),
    "A11": (2, 10),
}
"""By fault, the first history that sees it, and after how many steps."""


@pytest.mark.parametrize("fault", FIRST)
def test_a_past_fault_is_seen(running: Campaign, fault: str) -> None:
    assert by_a_history(running, fault, *FIRST[fault]) is not None


@pytest.mark.parametrize("fault", FAULTS)
def test_a_past_fault_can_be_put_back(fault: str) -> None:
    """What it changes is still there."""
    with planted(fault):
        assert all(getattr(changed.holder, changed.name) for changed in FAULTS[fault].changed())


def test_every_past_fault_has_what_sees_it() -> None:
    """A history, or a test; ``put_back`` looks for those whose history is not named above."""
    assert FIRST.keys() <= {name for name, fault in FAULTS.items() if not fault.test}
    assert all((REPOSITORY / fault.test).exists() for fault in FAULTS.values() if fault.test)
