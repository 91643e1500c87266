"""How many examples property tests try in a quick run, and that none fails for its time."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.examples import try_fewer_examples


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
