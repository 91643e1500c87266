"""When a planner in this process looks at its source."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sparkhaven.ingest.feeds.base import Source
from sparkhaven.ingest.feeds.spark_planning import MOST_PAUSE_S, Following
from sparkhaven.readers.spark.source_api import SupportsTriggerAvailableNow

Offset = dict[str, int]


class Numbers(SupportsTriggerAvailableNow):  # type: ignore[misc]
    """A source of numbered splits, and of when it was looked at."""

    def __init__(self) -> None:
        self.there, self.looks, self.frozen = 0, 0, False

    def __call__(self, options: Mapping[str, str]) -> Numbers:
        return self

    def schema(self) -> str:
        return "n int"

    def streamReader(self, schema: Any) -> Numbers:
        return self

    def getDefaultReadLimit(self) -> None:
        """None."""

    def initialOffset(self) -> Offset:
        return {"n": 0}

    def latestOffset(self, start: Offset, limit: Any) -> Offset:
        self.looks += 1
        return {"n": self.there}

    def reportLatestOffset(self) -> Offset:
        return {"looks": self.looks}

    def partitions(self, start: Offset, end: Offset) -> Sequence[range]:
        return [range(start["n"], end["n"])]

    def read(self, split: range) -> Iterator[tuple[int]]:
        yield from ((number,) for number in split)

    def prepareForTriggerAvailableNow(self) -> None:
        self.frozen = True

    def stop(self) -> None:
        """Nothing is open."""


class Ticking:
    """A clock and a wait in one: time passes only while somebody waits, and then something may come."""

    def __init__(self, source: Numbers, comes: float) -> None:
        self.now, self.waits = 0.0, list[float]()
        self._source, self._comes = source, comes
        self._stopped = threading.Event()

    def __call__(self) -> float:
        return self.now

    def wait(self, seconds: float) -> bool:
        self.now += seconds
        self.waits.append(round(seconds, 9))
        self._source.there = int(self.now >= self._comes)
        return False

    def is_set(self) -> bool:
        return self._stopped.is_set()

    def set(self) -> None:
        self._stopped.set()


def follow(trigger_s: float, comes: float) -> tuple[Following, Numbers, Ticking]:
    source = Numbers()
    ticking = Ticking(source, comes)
    return Following(Source(source, {}), trigger_s, ticking, stopped=ticking), source, ticking  # type: ignore[arg-type]


def test_the_first_plan_is_there_at_once_and_the_next_one_has_rows() -> None:
    planner, source, ticking = follow(0, comes=3.0)
    assert planner.plan() == [] and not ticking.waits
    assert planner.plan() == [{"n": 0}] and not source.frozen
    assert 3.0 <= ticking.now < 3.0 + MOST_PAUSE_S
    assert ticking.waits == sorted(ticking.waits) and ticking.waits[-1] == MOST_PAUSE_S  # the longer, the less often
    assert planner.report() == {"looks": source.looks}


def test_a_trigger_is_kept_to_between_looks() -> None:
    planner, source, ticking = follow(2.0, comes=5.0)
    planner.plan()
    assert planner.plan() == [{"n": 0}]
    assert ticking.waits == [2.0, 2.0, 2.0] and source.looks == 4


def test_a_stop_ends_a_plan_that_waits() -> None:
    planner, _, ticking = follow(0, comes=1e9)
    planner.plan()
    planner.stop()
    assert planner.plan() == [] and len(ticking.waits) <= 1
