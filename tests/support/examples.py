"""How many examples property tests and campaigns try, and how long each example may take.

``SPARKHAVEN_EXAMPLES`` is a share from 0 to 1, all where it is not set. Campaigns are products of crash points, damages
or random inputs: of a parametrized test with the mark ``campaign`` a share of its cases is run, of a loop over
``some_of(...)`` a share of its rounds. The same share always chooses the same ones, spread over all of them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, settings

SETTINGS = "_hypothesis_internal_use_settings"  # where ``@settings`` leaves them
PROFILE = "sparkhaven"
EXAMPLES = "SPARKHAVEN_EXAMPLES"
CAMPAIGN = "campaign"
LEAST = 3  # cases of a campaign that are run in any case, if it has so many


T = TypeVar("T")


@dataclass(slots=True)
class Rounds:
    """Rounds of loops that ``some_of`` left out in this process."""

    left_out: int = 0


ROUNDS = Rounds()


def share() -> float:
    """The share that this run was given."""
    return float(os.environ.get(EXAMPLES) or 1)


def load_profile() -> None:
    """Sets what all property tests have in common. To be called before they are imported.

    None fails for the time that an example takes: a machine may have other work. A share of the examples is the same
    in each run, so that a change alone turns a run red; a run of all draws new ones.
    """
    same = share() < 1
    settings.register_profile(
        PROFILE, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=same, print_blob=not same
    )
    settings.load_profile(PROFILE)


def try_fewer_examples(test: Callable[..., Any], share: float) -> None:
    """Lets a property test try a share of its examples, at least ten of them; any other test stays as it is."""
    function = getattr(test, "__func__", test)
    if (own := getattr(function, SETTINGS, None)) is not None:
        fewer = min(own.max_examples, max(10, round(own.max_examples * share)))
        setattr(function, SETTINGS, settings(own, max_examples=fewer))


def share_of(count: int, least: int = LEAST) -> int:
    """How many of so many rounds this run tries: its share, at least ``least`` of them."""
    return min(count, max(least, round(count * share())))


def some_of(rounds: Iterable[T], least: int = LEAST) -> list[T]:
    """The rounds of a loop that this run tries: a share of them in their order, the first and the last among them."""
    everything = [*rounds]
    count = share_of(len(everything), least)
    ROUNDS.left_out += len(everything) - count
    if count < 2:
        return everything[:count]
    return [everything[n * (len(everything) - 1) // (count - 1)] for n in range(count)]


def stride(count: int, share: float) -> int:
    """One case in how many is run of a campaign with ``count`` cases; odd, since many parameters go to and fro."""
    return max(1, min(round(1 / share) | 1, (count // LEAST - 1) | 1))


def left_out(items: Sequence[pytest.Item], share: float) -> list[pytest.Item]:
    """The cases of campaigns that a run with this share leaves out."""
    campaigns: dict[object, list[pytest.Function]] = {}
    for item in items:
        if isinstance(item, pytest.Function) and hasattr(item, "callspec") and item.get_closest_marker(CAMPAIGN):
            campaigns.setdefault((item.path, item.cls, item.originalname), []).append(item)
    gone: list[pytest.Item] = []
    for cases in campaigns.values():
        every = stride(len(cases), share)
        gone += [case for case, number in zip(cases, _numbers(cases), strict=True) if number % every]
    return gone


def _numbers(cases: Sequence[pytest.Function]) -> list[int]:
    """The sum of each case's numbers along the parameters: divided, a product keeps cases of each value of each one."""
    marks = [_names(mark) for mark in cases[0].iter_markers("parametrize")]
    fixtures = cases[0].callspec.params.keys() - {name for names in marks for name in names}
    axes: list[tuple[list[str], dict[tuple[int, ...], int]]] = [
        (names, {}) for names in (*marks, *([f] for f in fixtures))
    ]
    numbers = []
    for case in cases:
        number = 0
        for names, axis in axes:
            number += axis.setdefault(tuple(id(case.callspec.params[name]) for name in names), len(axis))
        numbers.append(number)
    return numbers


def _names(mark: pytest.Mark) -> list[str]:
    """The names that a mark gives values together: they are one parameter."""
    names = mark.args[0]
    return [name.strip() for name in names.split(",")] if isinstance(names, str) else [*names]
