"""Standard JSON has no NaN and no infinities: they become texts."""

from __future__ import annotations

import math


def finite(value: object) -> object:
    """The value with texts for numbers that are not finite, also within dicts and lists."""
    if isinstance(value, dict):
        return {key: finite(child) for key, child in value.items()}
    if isinstance(value, list | tuple):
        return [finite(child) for child in value]
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value
