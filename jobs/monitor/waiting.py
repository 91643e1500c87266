"""What waits at the source of a stream: its amount, and what of it a person should look at, in words.

The ends of topic partitions are asked from the broker beside the stream, for lag and reachability. The ends of the
planner are as old as the running batch, and missing while the broker is away. So a thread asks about every second, and
a caller that needs current ends asks itself. Every answer has its age.
"""

from __future__ import annotations

import threading
import time
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import itemgetter

from sparkhaven.ingest.feeds.base import PassedFiles, Remote, Trial, Waiting, WaitingCounts
from sparkhaven.ingest.spec import DAY_S, Contract
from sparkhaven.jobs.monitor.epochs import field_words
from sparkhaven.jobs.settings.stream_file import StreamSettings, name_stream
from sparkhaven.store.epochs.state.replay import StreamState
from sparkhaven.store.errors import RetryableFeedError, SparkhavenError, counted
from sparkhaven.store.io.fs import Fs

PERIOD_SECONDS = 1.0
SHARE = 20  # a request is followed by a pause of at least so many times its duration
SAMPLES = 512
COARSE = 0.03  # relative error of a waiting time

Ask = Callable[[], Mapping[str, int]]


def ask_source(fs: Fs, settings: StreamSettings, state: StreamState | None, patience: float) -> Waiting:
    """What waits for a stream. The RetryableFeedError of a server that does not answer says how long it was asked."""
    try:
        return settings.feed.waiting(fs, state, patience)
    except SparkhavenError as error:
        name_stream(error, settings)
        if isinstance(error, RetryableFeedError) and settings.feed.remote() is not None:
            error.hint = f"{error.hint}. It had {patience:g} s to answer: `--wait` gives it more"
        raise


def watch_ends(
    remote: Remote,
    positions: Callable[[], Mapping[str, int]],
    on_change: Callable[[SourceState], None],
    clock: Callable[[], float] = time.monotonic,
) -> SourceWatch:
    """A watch over the topic partitions that have a position."""
    return SourceWatch(lambda: remote.ends(tuple(positions())), clock, on_change)


def older_line(count: int, paths: Sequence[str], max_file_age_s: float) -> str:
    """New files that are too old to be ingested, the newest of them by name, and what to do."""
    names = ", ".join(paths[-count:]) + (f" and {count - len(paths)} more" if count > len(paths) else "")
    days = max_file_age_s / DAY_S
    return (
        f"{count:,} new files are older than max_file_age ({days:g} d) and are not ingested: {names}."
        " Touch a file to have it ingested"
    )


def remarks_of(waiting: WaitingCounts, max_file_age_s: float) -> list[str]:
    """What of the waiting input a person should look at: files too old to be taken, and remarks of the feed."""
    count = waiting.get("older_files", 0)
    older = [older_line(count, waiting["older"], max_file_age_s)] if count else []
    return [*older, *waiting.get("remarks", ())]


def passed_lines(passed: Mapping[str, PassedFiles]) -> list[str]:
    """The files that a feed does not ingest, a line for each reason, with the first names."""
    lines = []
    for reason, files in passed.items():
        more = files["count"] - len(files["first"])
        names = ", ".join(files["first"]) + (f" and {more:,} more" if more > 0 else "")
        lines.append(
            f"{counted(files['count'], 'file')}, {reason}: {names}" if files["count"] else f"{reason}: {names}"
        )
    return lines


def other_fields(trial: Trial | None, contract: Contract) -> list[str]:
    """What the first rows that wait have beside the columns, and what they lack, as a dry run says it."""
    if trial is None or contract == "discard-value":
        return []
    lines = [f"fields without a column: {field_words(dict(trial.ignored))}"] if trial.ignored else []
    return lines + ([f"no field for columns: {field_words(dict(trial.absent))}"] if trial.absent else [])


@dataclass(frozen=True, slots=True)
class SourceState:
    """What is known of a source: the ends of its partitions by ``topic/partition``, asked at ``at`` (None: never).

    ``since``: from when on it answers, or does not; then ``reason`` says why.
    """

    ends: Mapping[str, int]
    at: float | None
    reachable: bool
    since: float
    reason: str = ""


class SourceWatch:
    """Asks ``ask`` for ends in a thread while it is open; calls ``on_change`` when the source becomes (un)reachable.

    ``ask`` raises SparkhavenError without an answer. ``clock`` is monotonic, in seconds.
    """

    def __init__(self, ask: Ask, clock: Callable[[], float], on_change: Callable[[SourceState], None]) -> None:
        self._ask, self._clock, self._on_change = ask, clock, on_change
        self._seen = SourceState({}, None, True, clock())
        self._lock = threading.Lock()
        self._begun = 0.0  # when the last request began
        self._waits = WaitingTimes()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def last(self) -> SourceState:
        """The result of the last request."""
        return self._seen

    def __enter__(self) -> SourceWatch:
        self._thread = threading.Thread(target=self._run, name="source-watch", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    def fresh(self, max_age: float = 0.0) -> SourceState:
        """The result of a request that began at most ``max_age`` seconds ago; waits for one that runs.

        While the source does not answer only the thread asks, and the last result is returned at once.
        """
        wanted = self._clock() - max_age
        if not self._seen.reachable and self._thread is not None:
            return self._seen
        with self._lock:
            if self._seen.at is None or self._begun < wanted:
                self._request()
            return self._seen

    def waiting_seconds(self, source: str, position: int, now: float) -> float:
        """For how long the message at a position is known to wait; 0 if there is none."""
        return self._waits.seconds(source, position, now)

    def _run(self) -> None:
        pause = 0.0
        while not self._stop.wait(pause):
            with self._lock:
                self._request()
                pause = max(PERIOD_SECONDS, SHARE * (self._clock() - self._begun) if self._seen.reachable else 0.0)

    def _request(self) -> None:
        before, self._begun = self._seen, self._clock()
        try:
            ends = self._ask()
        except SparkhavenError as error:
            since = before.since if not before.reachable else self._begun
            self._seen = replace(before, reachable=False, since=since, reason=_short(error))
        else:
            since = before.since if before.reachable else self._begun
            self._waits.add(ends, self._begun)
            self._seen = SourceState(ends, self._begun, True, since)
        if before.reachable != self._seen.reachable:
            self._on_change(self._seen)


@dataclass(slots=True)
class WaitingTimes:
    """When each end was first seen, which dates the messages before it.

    ``samples`` are (end, seconds) in order; they are replaced, never changed, since several threads read them.
    """

    samples: dict[str, tuple[tuple[int, float], ...]] = field(default_factory=dict)

    def add(self, ends: Mapping[str, int], now: float) -> None:
        """Adds the current ends. Of many samples those are dropped that are close together for their age."""
        for source, end in ends.items():
            known = self.samples.get(source, ())
            if known and end < known[-1][0]:  # another topic of that name, or a broker from a backup
                known = ()
            if not known or end > known[-1][0]:
                known = (*known, (end, now))
            self.samples[source] = known if len(known) <= SAMPLES else _thinned(known, now)

    def seconds(self, source: str, position: int, now: float) -> float:
        """Seconds since the message at ``position`` was first seen to exist; 0 if it was not."""
        known = self.samples.get(source, ())
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
