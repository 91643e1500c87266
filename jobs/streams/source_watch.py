"""The ends of a stream's topic partitions as the broker tells them, asked beside the stream: for lag and reachability.

What the planner knows is as old as the running batch, and nothing while the broker is away. So a thread asks every
second or so, and whoever needs the ends of now asks itself. Every answer has its age.
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from operator import itemgetter
from types import TracebackType

from store.errors import SparkhavenError

PERIOD_SECONDS = 1.0
SHARE = 20  # a look that took long is followed by a pause of so many times as long
SAMPLES = 512
COARSE = 0.03  # error of a waiting time, as part of it

Ask = Callable[[], Mapping[str, int]]


@dataclass(frozen=True, slots=True)
class Seen:
    """What is known of a source: the ends of its partitions by ``topic/partition``, asked at ``at`` (None: never).

    ``since``: from when on it answers, or does not; then ``reason`` says why.
    """

    ends: Mapping[str, int]
    at: float | None
    reachable: bool
    since: float
    reason: str = ""


class SourceWatch:
    """Asks ``ask`` for ends, in a thread while it is open. ``told`` hears of each change between answer and silence.

    ``ask`` raises SparkhavenError where there is no answer. ``clock`` gives seconds that never go back.
    """

    def __init__(self, ask: Ask, clock: Callable[[], float], told: Callable[[Seen], None]) -> None:
        self._ask, self._clock, self._told = ask, clock, told
        self._seen = Seen({}, None, True, clock())
        self._lock = threading.Lock()
        self._begun = 0.0  # when the last look began
        self._waits = WaitingTimes()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def last(self) -> Seen:
        """What the last look has found."""
        return self._seen

    def __enter__(self) -> SourceWatch:
        self._thread = threading.Thread(target=self._run, name="source-watch", daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    def fresh(self, max_age: float = 0.0) -> Seen:
        """What a look finds that began at most ``max_age`` seconds ago; who comes while one runs waits for the next.

        While the source is silent only the thread asks, and what it knows is given at once.
        """
        wanted = self._clock() - max_age
        if not self._seen.reachable and self._thread is not None:
            return self._seen
        with self._lock:
            if self._seen.at is None or self._begun < wanted:
                self._look()
            return self._seen

    def waiting_seconds(self, place: str, position: int, now: float) -> float:
        """How long the message at a position is known to wait; 0 if there is none."""
        return self._waits.seconds(place, position, now)

    def _run(self) -> None:
        pause = 0.0
        while not self._stop.wait(pause):
            with self._lock:
                self._look()
                pause = max(PERIOD_SECONDS, SHARE * (self._clock() - self._begun) if self._seen.reachable else 0.0)

    def _look(self) -> None:
        before, self._begun = self._seen, self._clock()
        try:
            ends = self._ask()
        except SparkhavenError as error:
            since = before.since if not before.reachable else self._begun
            self._seen = replace(before, reachable=False, since=since, reason=_short(error))
        else:
            since = before.since if before.reachable else self._begun
            self._waits.add(ends, self._begun)
            self._seen = Seen(ends, self._begun, True, since)
        if before.reachable != self._seen.reachable:
            self._told(self._seen)


@dataclass(slots=True)
class WaitingTimes:
    """When each end was seen first, so that it can be told since when a message has been there.

    ``samples`` are (end, seconds) in order; they are replaced, never changed, since several threads look at them.
    """

    samples: dict[str, tuple[tuple[int, float], ...]] = field(default_factory=dict)

    def add(self, ends: Mapping[str, int], now: float) -> None:
        """Ends as they are now. Of many samples those are forgotten that lie close together for their age."""
        for place, end in ends.items():
            known = self.samples.get(place, ())
            if known and end < known[-1][0]:  # another topic of that name, or a broker from a backup
                known = ()
            if not known or end > known[-1][0]:
                known = (*known, (end, now))
            self.samples[place] = known if len(known) <= SAMPLES else _thinned(known, now)

    def seconds(self, place: str, position: int, now: float) -> float:
        """Since when the message at ``position`` has been seen to exist; 0 if it has not."""
        known = self.samples.get(place, ())
        first = bisect_right(known, position, key=itemgetter(0))
        return max(0.0, now - known[first][1]) if first < len(known) else 0.0


def _thinned(samples: tuple[tuple[int, float], ...], now: float) -> tuple[tuple[int, float], ...]:
    kept = [samples[0]]
    for sample in samples[1:-1]:
        if sample[1] - kept[-1][1] >= COARSE * (now - sample[1]):
            kept.append(sample)
    return (*kept, samples[-1])


def _short(error: SparkhavenError) -> str:
    return error.what + (f": {error.found}" if error.found else "")
