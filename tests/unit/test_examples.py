"""How many examples property tests and campaigns try in a quick run, and that none fails for its time."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.examples import EXAMPLES, ROUNDS, some_of, stride, try_fewer_examples
from tests.support.places import REPOSITORY

CAMPAIGN = """
import pytest
from tests.support.examples import some_of

@pytest.mark.campaign
@pytest.mark.parametrize("damage", range(5))
@pytest.mark.parametrize(("kind", "path"), [(n, str(n)) for n in range(8)])
def test_product(kind, path, damage):
    some_of(range(10))

@pytest.mark.parametrize("kind", range(8))
def test_plain(kind): ...
"""
CONFTEST = """
from tests.support.campaigns import Campaigns

def pytest_configure(config):
    config.pluginmanager.register(Campaigns())
"""
CASE = re.compile(r"test_product\[(\d)-\d-(\d)\] PASSED|PASSED.*test_product\[(\d)-\d-(\d)\]")


@pytest.mark.parametrize(("share", "tried"), [(1.0, 60), (0.25, 15), (0.01, 10)])
def test_a_share_of_the_examples_is_tried(share: float, tried: int) -> None:
    found: list[int] = []

    @settings(max_examples=60, deadline=None, database=None)
    @given(st.integers())
    def property_of_numbers(number: int) -> None:
        found.append(number)

    try_fewer_examples(property_of_numbers, share)
    property_of_numbers()
    assert len(found) == tried


def test_other_tests_stay_as_they_are() -> None:
    def plain() -> None: ...

    try_fewer_examples(plain, 0.25)
    assert vars(plain) == {}


def test_no_example_fails_for_its_time() -> None:
    own = settings(max_examples=60)
    assert own.deadline is None
    assert HealthCheck.too_slow in own.suppress_health_check


@pytest.mark.parametrize(("given_share", "tried"), [("1", 40), ("0.25", 10), ("0.01", 3)])
def test_a_share_of_the_rounds_is_tried_spread_over_all(
    monkeypatch: pytest.MonkeyPatch, given_share: str, tried: int
) -> None:
    monkeypatch.setenv(EXAMPLES, given_share)
    monkeypatch.setattr(ROUNDS, "left_out", 0)  # not told of this run
    rounds = some_of(range(40))
    assert len({*rounds}) == tried and sorted(rounds) == rounds
    assert (rounds[0], rounds[-1]) == (0, 39)
    assert ROUNDS.left_out == 40 - tried
    assert max(b - a for a, b in pairwise(rounds)) <= 39 // (tried - 1) + 1
    assert some_of([7, 8]) == [7, 8] and some_of([]) == [] and some_of(range(9), 1)[:1] == [0]


def test_without_a_share_every_round_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(EXAMPLES, raising=False)
    assert some_of("abcdefg") == [*"abcdefg"]


@pytest.mark.parametrize(
    ("count", "share", "expected"),
    [(40, 0.25, 5), (40, 1.0, 1), (40, 0.5, 3), (12, 0.25, 3), (11, 0.25, 3), (6, 0.25, 1), (2, 0.1, 1)],
)
def test_three_cases_are_run_in_any_case(count: int, share: float, expected: int) -> None:
    assert stride(count, share) == expected


def passed(directory: Path, share: str, *options: str) -> tuple[list[tuple[str, str]], list[str]]:
    """The cases of the campaign that a run of pytest says to have passed, and its lines."""
    (directory / "conftest.py").write_text(CONFTEST)
    (directory / "test_campaign.py").write_text(CAMPAIGN)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-v", "-p", "no:cacheprovider", "-o", "markers=campaign", *options],
        capture_output=True,
        text=True,
        check=True,
        cwd=directory,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY), EXAMPLES: share},
    )
    assert len(re.findall(r"test_plain.*PASSED|PASSED.*test_plain", done.stdout)) == 8
    return [(a or c, b or d) for a, b, c, d in CASE.findall(done.stdout)], done.stdout.splitlines()


@pytest.mark.slow
@pytest.mark.parametrize("options", [["-n", "0"], ["-n", "2"]], ids=["here", "in two processes"])
def test_a_run_leaves_cases_out_and_says_so(tmp_path: Path, options: list[str]) -> None:
    cases, lines = passed(tmp_path, "0.25", *options)
    assert len(cases) == 8
    assert {kind for kind, _ in cases} == {*"01234567"} and {damage for _, damage in cases} == {*"01234"}
    (told,) = [line for line in lines if line.startswith("campaigns: ")]
    assert told == "campaigns: 32 cases and 56 rounds were left out; all of them: make test SPARKHAVEN_EXAMPLES=1"
