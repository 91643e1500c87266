"""What is known of the ends of a topic: how old it is, since when a message waits, and when the broker is away."""

from __future__ import annotations

import threading

from sparkhaven.jobs.monitor.waiting import SAMPLES, SourceState, SourceWatch, WaitingTimes
from sparkhaven.jobs.streams.stream_run import Reminders
from sparkhaven.store.errors import RetryableFeedError


class Broker:
    """Ends that the tests change; ``away`` raises instead."""

    def __init__(self) -> None:
        self.now, self.asked, self.away = 100.0, 0, False
        self.ends = {"t/0": 5}
        self.reported: list[SourceState] = []
        self.changed = threading.Semaphore(0)
        self.watch = SourceWatch(self.ask, lambda: self.now, self.tell)

    def ask(self) -> dict[str, int]:
        self.asked += 1
        if self.away:
            raise RetryableFeedError("the broker cannot be read", found="refused")
        return dict(self.ends)

    def tell(self, seen: SourceState) -> None:
        self.reported.append(seen)
        self.changed.release()


def test_ends_are_asked_again_when_they_are_older_than_wanted() -> None:
    broker = Broker()
    assert broker.watch.last == SourceState({}, None, True, 100.0)
    assert broker.watch.fresh(5).ends == {"t/0": 5}
    broker.ends, broker.now = {"t/0": 9}, 104.0
    assert broker.watch.fresh(5) == SourceState({"t/0": 5}, 100.0, True, 100.0) and broker.asked == 1
    assert broker.watch.fresh(3) == SourceState({"t/0": 9}, 104.0, True, 100.0)
    broker.now = 104.5
    assert broker.watch.fresh().at == 104.5 and broker.asked == 3


def test_silence_is_reported_once_with_its_reason_and_so_is_the_next_answer() -> None:
    broker = Broker()
    broker.watch.fresh()
    broker.away = True
    for broker.now in (110.0, 120.0):
        seen = broker.watch.fresh()
    assert seen == SourceState({"t/0": 5}, 100.0, False, 110.0, "the broker cannot be read: refused")
    broker.away, broker.now = False, 160.0
    assert broker.watch.fresh() == SourceState({"t/0": 5}, 160.0, True, 160.0)
    assert [(seen.reachable, seen.since) for seen in broker.reported] == [(False, 110.0), (True, 160.0)]


def test_the_thread_asks_by_itself_and_nobody_else_waits_for_a_broker_that_is_away() -> None:
    broker = Broker()
    broker.away = True
    with broker.watch as watch:
        assert broker.changed.acquire(timeout=30)
        while watch.last.reachable:  # it is reported a moment before it is there to see
            pass
        asked = broker.asked
        assert not watch.fresh().reachable and broker.asked in (asked, asked + 1)
    assert not watch._thread.is_alive()  # type: ignore[union-attr]


def test_since_when_a_message_waits() -> None:
    waits = WaitingTimes()
    for now, end in ((10.0, 5), (11.0, 5), (12.0, 8), (13.0, 20)):
        waits.add({"t/0": end}, now)
    found = [waits.seconds("t/0", position, 20.0) for position in (0, 4, 5, 7, 8, 19, 20, 21)]
    assert found == [10.0, 10.0, 8.0, 8.0, 7.0, 7.0, 0.0, 0.0]
    assert waits.seconds("t/1", 0, 20.0) == 0.0
    waits.add({"t/0": 3}, 21.0)  # made again
    assert waits.seconds("t/0", 2, 22.0) == 1.0
    for n in range(5000):
        waits.add({"t/0": n + 100}, 100.0 + n)
    assert len(waits.samples["t/0"]) <= SAMPLES
    assert 4750 < waits.seconds("t/0", 200, 5100.0) <= 5000  # old times become coarse


def test_a_stream_that_has_stopped_is_reported_again_and_again() -> None:
    reminders = Reminders(60)
    assert reminders.due(["a"], 0.0) == reminders.due(["a"], 59.0) == []
    assert reminders.due(["a", "b"], 60.0) == [("a", 60.0)]
    assert reminders.due(["a", "b"], 119.0) == []
    assert reminders.due(["b", "a"], 121.0) == [("b", 61.0), ("a", 121.0)]
