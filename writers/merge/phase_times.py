"""How long each phase of a merge takes."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from sparkhaven.store.merges.merge_run import MergePhase

PhaseTimes = tuple[tuple[MergePhase, int], ...]  # milliseconds, in the order of the phases


class PhaseWatch:
    """Measures phases that follow each other, by a clock that no change of the time moves."""

    def __init__(self) -> None:
        self._times: list[tuple[MergePhase, int]] = []

    @property
    def times(self) -> PhaseTimes:
        """The phases that have ended well."""
        return tuple(self._times)

    @contextmanager
    def phase(self, phase: MergePhase) -> Iterator[None]:
        """Measures the body, if it raises nothing."""
        begun = time.monotonic()
        yield
        self._times.append((phase, round((time.monotonic() - begun) * 1000)))
