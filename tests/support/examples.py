"""How many examples property tests try."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import settings

SETTINGS = "_hypothesis_internal_use_settings"  # where ``@settings`` leaves them


def try_fewer_examples(test: Callable[..., Any], share: float) -> None:
    """Lets a property test try a share of its examples, at least ten of them; any other test stays as it is."""
    function = getattr(test, "__func__", test)
    if (own := getattr(function, SETTINGS, None)) is not None:
        fewer = min(own.max_examples, max(10, round(own.max_examples * share)))
        setattr(function, SETTINGS, settings(own, max_examples=fewer))
