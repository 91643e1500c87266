"""How many examples property tests try, and how long each may take."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, settings

SETTINGS = "_hypothesis_internal_use_settings"  # where ``@settings`` leaves them
PATIENT = "patient"


def wait_for_slow_examples() -> None:
    """No property test fails for the time that an example takes: a machine may have other work. To be called first."""
    settings.register_profile(PATIENT, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    settings.load_profile(PATIENT)


def try_fewer_examples(test: Callable[..., Any], share: float) -> None:
    """Lets a property test try a share of its examples, at least ten of them; any other test stays as it is."""
    function = getattr(test, "__func__", test)
    if (own := getattr(function, SETTINGS, None)) is not None:
        fewer = min(own.max_examples, max(10, round(own.max_examples * share)))
        setattr(function, SETTINGS, settings(own, max_examples=fewer))
