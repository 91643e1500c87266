"""A bounded sample of the campaign of random histories: always the same ones."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.crash.histories.campaign import Campaign, State, campaign, run_kind
from tests.support.examples import share_of

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Campaign]:
    with campaign(tmp_path_factory.mktemp("histories")) as started:
        yield started


@pytest.mark.parametrize(("kind", "histories", "met"), [("plain", 100, 0), ("kill", 40, 10), ("full", 40, 10)])
def test_every_reader_shows_the_rows_of_the_model(running: Campaign, kind: str, histories: int, met: int) -> None:
    count = share_of(histories)
    done = run_kind(running, kind, State(None), lambda progress: progress.next > count, progress=False)
    assert not done.found, done.found[0].text
    assert done.met >= met * count // histories
    assert done.tally.done["epochs compared"] > 5 * count
