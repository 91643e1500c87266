"""Seconds of the steps of a job of ours, as it marks them itself."""

from __future__ import annotations

import time
from typing import Any

from sparkhaven.store.io.fs import Fs


class StepFs(Fs):
    """Notes how long each step takes, in the order in which they end; those of a retry are added."""

    def __init__(self) -> None:
        super().__init__()
        self.seconds: dict[str, float] = {}
        self._begun: dict[str, float] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        """Tasks in other processes note nothing."""
        return Fs, ()

    def step(self, name: str) -> None:
        """Begins a step at ``NAME:before``, ends it at ``NAME:after``."""
        step, _, moment = name.rpartition(":")
        if moment == "before":
            self._begun[step] = time.perf_counter()
        elif moment == "after":
            spent = time.perf_counter() - self._begun.pop(step)
            self.seconds[step] = self.seconds.get(step, 0.0) + spent
