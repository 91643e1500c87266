"""Times, names and errors of facts, as words."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from sparkhaven.store.errors import SparkhavenError


def iso_time(time_ms: int, precision: str = "seconds") -> str:
    """A time as ISO text, UTC."""
    return datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec=precision)


def ago(seconds: float) -> str:
    """A duration, rounded to one unit."""
    for size, unit in ((86_400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:,.1f} {unit}"
    return f"{max(0.0, seconds):.0f} s"


def named(values: Sequence[object], shown: int = 3) -> str:
    """The first values by name, the number of the others."""
    text = ", ".join(map(str, values[:shown]))
    return text + (f" and {len(values) - shown:,} more" if len(values) > shown else "")


def headline(error: Exception) -> str:
    """An error in one line: what, where, found."""
    if not isinstance(error, SparkhavenError):
        return f"{type(error).__name__}: {error}"
    text = error.what + (f" ({error.where})" if error.where else "")
    return text + (f": found {error.found}" if error.found else "")
