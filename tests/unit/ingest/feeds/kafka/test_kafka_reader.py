"""Exact ranges by kept consumers, without a broker: when one is asked, assigned anew, waited for, or let go."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pytest
from kafka.errors import (
    CorruptRecordError,
    KafkaConnectionError,
    KafkaError,
    KafkaTimeoutError,
    LogTruncationError,
    OffsetOutOfRangeError,
    SaslAuthenticationFailedError,
    UnknownTopicOrPartitionError,
)

from sparkhaven.ingest.feeds.kafka.broker.errors import Troubles, recreated
from sparkhaven.ingest.feeds.kafka.broker.reader import WAIT_SECONDS, MessageRangeReader
from sparkhaven.ingest.feeds.kafka.options import ClientSettings, KafkaOptions, ReadLimits
from sparkhaven.store.epochs.state.log_values import LastMessage, OffsetRange
from sparkhaven.store.errors import FeedError, FeedSettingsError, PositionGapError, RetryableFeedError

FEED = KafkaOptions("nowhere:1", ("ticks",), client=ClientSettings((("sasl.password", "tiger"),)))


@dataclass
class Script:
    """What consumers bring: the offsets of each fetch, an error, or an end (by its negative). ``now`` is the time.

    A function is called, and brings nothing.
    """

    fetches: list[list[int] | KafkaError | Callable[[], None]] = field(default_factory=list)
    calls: list[tuple[object, ...]] = field(default_factory=list)
    bounds: tuple[int, int] | KafkaError = (0, 100)
    now: float = 0.0
    passes: float = 0.0  # with each fetch
    crc: int = 1  # of all messages


class Client:
    """A consumer that plays a script."""

    def __init__(self, script: Script, topic: str, partition: int) -> None:
        self._script, self._name, self.last, self.end = script, f"{topic}/{partition}", -1, -1
        self._held: list[int] = []
        self._note("open")

    def _note(self, *call: object) -> None:
        self._script.calls.append((self._name, *call))

    def assign(self, offset: int, epoch: int = -1) -> None:
        self._note("assign", offset)
        self._held, self.last, self.end = [], -1, -1

    def fetch(self, count: int, seconds: float) -> None:
        self._note("fetch", count)
        assert seconds == WAIT_SECONDS
        self._script.now += self._script.passes
        found = self._script.fetches.pop(0) if self._script.fetches else []
        if callable(found):
            found()
            found = []
        if isinstance(found, KafkaError):
            raise found
        for at in found:
            if at < 0:
                self.end = -at
            else:
                self._held.append(at)
                self.last = at

    def skip(self, start: int) -> bool:
        self._note("skip", start)
        left = [at for at in self._held if at >= start]
        if left:
            self._held = left
        return bool(left)

    def take(self, stop: int, *, whole: bool) -> list[int] | None:
        if not whole and len(self._held) < 3:
            return None
        found = [at for at in self._held if at < stop]
        self._held = self._held[len(found) :]
        return found or None

    def bounds(self, patience: float) -> tuple[int, int]:
        self._note("bounds", patience)
        if isinstance(self._script.bounds, KafkaError):
            raise self._script.bounds
        return self._script.bounds

    def close(self) -> None:
        self._note("close")


class Reader(MessageRangeReader[list[int]]):
    """Of offsets. ``ids``: those of topics now, and how often they were asked for."""

    def __init__(self, script: Script, *, allow_gap: bool = False, **limits: int) -> None:
        feed = replace(FEED, limits=ReadLimits(**limits), allow_gap=allow_gap)
        super().__init__(feed, patience=10.0, clock=lambda: script.now)
        self.script = script
        self.ids: dict[str, str] = {}
        self.asked = 0

    def _open(self, wanted: OffsetRange) -> Client:
        return Client(self.script, wanted.topic, wanted.partition)

    def _prove(self, wanted: OffsetRange) -> None:
        self.asked += 1
        if self.ids[wanted.topic] != wanted.topic_id:
            raise recreated(wanted.topic, wanted.topic_id, self.ids[wanted.topic])

    def _last(self, some: list[int]) -> LastMessage:
        return LastMessage(some[-1], -1, -1, self.script.crc)

    @property
    def troubles(self) -> Troubles:
        return self._troubles

    def called(self) -> list[tuple[object, ...]]:
        """The calls since this was asked last."""
        found, self.script.calls = self.script.calls, []
        return found


def wanted(start: int, stop: int, topic: str = "t", topic_id: str = "") -> OffsetRange:
    return OffsetRange(topic, 0, start, stop, topic_id)


def offsets(reader: Reader, *given: object, **more: str) -> list[list[int]]:
    return list(reader.read(wanted(*given, **more)))  # type: ignore[arg-type]


def test_a_range_that_follows_costs_neither_a_seek_nor_a_second_fetch() -> None:
    reader = Reader(Script([[0, 1], [2, 3, 4, 5], [6]]))
    assert offsets(reader, 0, 4) == [[0, 1, 2, 3]]
    assert reader.called() == [("t/0", "open"), ("t/0", "assign", 0), ("t/0", "fetch", 4), ("t/0", "fetch", 2)]
    assert offsets(reader, 4, 6) == [[4, 5]] and reader.called() == []
    assert offsets(reader, 6, 7) == [[6]] and reader.called() == [("t/0", "fetch", 1)]


def test_a_range_of_nothing_asks_nobody() -> None:
    reader = Reader(Script())
    assert not offsets(reader, 5, 5) and not offsets(reader, 6, 5) and not reader.called()


def test_jumps() -> None:
    reader = Reader(Script([[0, 1, 2, 3, 4, 5, 6, 7, 8], [20], [7, 8], [8]]))
    assert offsets(reader, 0, 3) == [[0, 1, 2]]
    reader.called()
    assert offsets(reader, 5, 7) == [[5, 6]] and reader.called() == [("t/0", "skip", 5)]
    assert offsets(reader, 20, 21) == [[20]]
    assert reader.called() == [("t/0", "skip", 20), ("t/0", "assign", 20), ("t/0", "fetch", 1)]
    assert offsets(reader, 7, 9) == [[7, 8]]
    assert reader.called() == [("t/0", "assign", 7), ("t/0", "fetch", 2)]  # backwards: not what is held
    assert offsets(reader, 8, 9) == [[8]]
    assert reader.called() == [("t/0", "assign", 8), ("t/0", "fetch", 1)]


def test_portions_and_how_many_are_asked_for() -> None:
    reader = Reader(Script([[10, 11, 12, 13, 14], [17], [18, 19, 21]]))
    assert offsets(reader, 10, 20) == [[10, 11, 12, 13, 14], [17, 18, 19]]
    assert [call[2] for call in reader.called() if call[1] == "fetch"] == [10, 5, 2]


def test_a_hole_up_to_the_end_of_the_range() -> None:
    reader = Reader(Script([[1], [-8], [9]]))
    assert offsets(reader, 0, 8) == [[1]]
    assert len(reader.called()) == 4
    assert offsets(reader, 8, 10) == [[9]]  # the end lies behind this range no more
    assert [call[1] for call in reader.called()] == ["fetch"]


def test_an_end_before_the_range_does_not_finish_it() -> None:
    reader = Reader(Script([[1, -7], [2, 7]]))
    assert offsets(reader, 0, 8) == [[1, 2, 7]]


def test_each_partition_and_topic_has_its_consumer_and_few_are_kept() -> None:
    reader = Reader(Script([[0], [0], [1], [0], [1]]), consumers=2)
    for topic, start in (("a", 0), ("b", 0), ("a", 1), ("c", 0)):  # b is the one that was not used for longest
        assert offsets(reader, start, start + 1, topic) == [[start]]
    assert [call for call in reader.called() if call[1] in ("open", "close")] == [
        ("a/0", "open"), ("b/0", "open"), ("b/0", "close"), ("c/0", "open"),
    ]  # fmt: skip
    reader.close()
    assert reader.called() == [("a/0", "close"), ("c/0", "close")]
    reader.close()
    assert reader.called() == []


def test_the_topic_is_proven_after_its_messages() -> None:
    reader = Reader(Script([[0, 1, 2], [0], [1]]))
    reader.ids["t"] = "one"
    assert offsets(reader, 0, 1) == [[0]]
    asked = [reader.asked]  # a plan without an id has nothing to prove
    reader.close()
    reader.called()
    assert offsets(reader, 0, 1, topic_id="one") == [[0]] and offsets(reader, 1, 2, topic_id="one") == [[1]]
    assert [*asked, reader.asked] == [0, 2]
    reader.ids["t"] = "two"
    reader.script.fetches = [[2]]
    with pytest.raises(PositionGapError, match="recreated") as caught:
        offsets(reader, 2, 3, topic_id="one")
    assert "topic id two" in str(caught.value.found) and "topic id one" in str(caught.value.expected)
    assert reader.called()[-1] == ("t/0", "close")


def test_a_client_of_the_old_topic_is_not_used_for_the_new_one() -> None:
    reader = Reader(Script([[0, 1, 2], [1]]))
    reader.ids["t"] = "one"
    assert offsets(reader, 0, 1, topic_id="one") == [[0]]
    reader.ids["t"] = "two"
    reader.called()
    assert offsets(reader, 1, 2, topic_id="two") == [[1]]
    assert reader.called() == [("t/0", "close"), ("t/0", "open"), ("t/0", "assign", 1), ("t/0", "fetch", 1)]


@pytest.mark.parametrize("way", ["error", "abandoned"])
def test_a_consumer_that_stands_somewhere_is_let_go(way: str) -> None:
    reader = Reader(Script([[0, 1, 2], KafkaConnectionError("gone")] if way == "error" else [[0, 1, 2]]))
    reading = reader.read(wanted(0, 9))
    assert next(reading) == [0, 1, 2]
    if way == "error":
        with pytest.raises(RetryableFeedError, match="cannot be read"):
            next(reading)
    else:
        reading.close()  # type: ignore[attr-defined]
    assert reader.called()[-1] == ("t/0", "close")
    reader.script.fetches = [[3]]
    assert offsets(reader, 3, 4) == [[3]] and ("t/0", "assign", 3) in reader.called()


def test_patience_ends_when_nothing_comes() -> None:
    reader = Reader(Script([[1], [], [], [], [2], [], [], [], [-7]], passes=3.0))
    with pytest.raises(RetryableFeedError, match="no message came for 10 seconds") as caught:
        offsets(reader, 0, 9)
    fetches = [call for call in reader.called() if call[1] == "fetch"]
    assert len(fetches) == 5 + 4  # 3 s each: the fourth is beyond
    assert str(caught.value.where).startswith("t/0")
    assert "known to end at 7" in str(caught.value.found)


def after(offset: int, start: int, stop: int, crc: int = 1) -> OffsetRange:
    return replace(wanted(start, stop), after=LastMessage(offset, 3, -1, crc))


def test_a_client_begins_with_the_message_before_a_range() -> None:
    reader = Reader(Script([[4, 5], [6], [4, 5], [5, 6]]))
    assert list(reader.read(after(4, 5, 7))) == [[5, 6]]
    assert [call[1:] for call in reader.called()] == [("open",), ("assign", 4), ("fetch", 1), ("fetch", 1)]
    reader.script.fetches = [[7]]
    assert list(reader.read(after(6, 7, 8))) == [[7]] and [call[1] for call in reader.called()] == ["fetch"]
    reader.script.crc, reader.script.fetches = 2, [[7, 8]]
    with pytest.raises(PositionGapError, match="another message at an offset that was read before") as caught:
        list(reader.read(after(7, 8, 9, crc=3)))
    assert caught.value.where == "t/0" and "checksum 00000003" in str(caught.value.expected)
    assert "checksum 00000002" in str(caught.value.found) and reader.called()[-1] == ("t/0", "close")


@pytest.mark.parametrize("found", [[6], [-7], [5, 6], [-6, 6]])
def test_a_message_that_compaction_has_taken_is_not_compared(found: list[int]) -> None:
    reader = Reader(Script([[], found, [6]], crc=2))
    reader.compare(after(4, 5, 5))
    reader.script.fetches = [[6]]
    assert list(reader.read(after(4, 6, 7))) == [[6]]


def test_a_message_that_retention_has_taken_is_not_compared() -> None:
    reader = Reader(Script([OffsetOutOfRangeError(), [5]], bounds=(5, 6)))
    assert list(reader.read(after(3, 5, 6))) == [[5]]
    assert [call[1:] for call in reader.called() if call[1] == "assign"] == [("assign", 3), ("assign", 5)]
    reader = Reader(Script([LogTruncationError({}, "epoch 3")], bounds=(0, 9)))
    with pytest.raises(PositionGapError, match="another message at an offset that was read before"):
        list(reader.read(after(3, 5, 6)))


def test_a_client_that_is_cut_off_hands_out_what_it_had_and_compares() -> None:
    reader = Reader(Script())
    lost = KafkaConnectionError("lost")
    reader.script.fetches = [[0, 1], lambda: reader.troubles.note(lost), [1, 2, 3], [4]]
    assert offsets(reader, 0, 5) == [[0, 1], [2, 3, 4]]
    assert [call[2] for call in reader.called() if call[1] == "assign"] == [0, 1]
    reader.script.fetches, reader.script.crc = [[4, 5]], 2  # cut off between two ranges
    reader.troubles.note(lost)
    with pytest.raises(PositionGapError, match="another message at an offset that was read before"):
        offsets(reader, 5, 6)


def test_time_of_whoever_takes_the_messages_is_not_counted() -> None:
    script = Script([[1, 2, 3], [], [4]], passes=3.0)
    reading = Reader(script).read(wanted(0, 5))
    assert next(reading) == [1, 2, 3]
    script.now += 1000
    assert next(reading) == [4]


def test_the_last_trouble_says_why_nothing_came() -> None:
    reader = Reader(Script(passes=6.0))
    reader.troubles.note(KafkaConnectionError("tiger was refused"))
    with pytest.raises(RetryableFeedError) as caught:
        offsets(reader, 0, 9)
    assert "was refused" in str(caught.value.found) and "tiger" not in str(caught.value)


def test_access_that_is_denied_is_not_waited_for() -> None:
    reader = Reader(Script([[0], []]))
    for _ in range(2):
        reader.troubles.note(SaslAuthenticationFailedError("tiger is wrong"))
    assert offsets(reader, 0, 1) == [[0]]  # while messages come, it is of no interest
    with pytest.raises(FeedSettingsError, match="refuses access") as caught:
        offsets(reader, 1, 2)
    assert "tiger" not in str(caught.value)


@pytest.mark.parametrize("error", [OffsetOutOfRangeError("no tiger"), LogTruncationError({}, "no tiger")])
@pytest.mark.parametrize(
    ("bounds", "what", "found"),
    [
        ((6, 100), "Retention has passed", "first message has offset 6. 1 offsets are lost"),
        ((0, 8), "ends before the committed position", "end at offset 8"),
        ((5, 9), "did not find the committed position", "no ***"),
    ],
)
def test_a_position_that_is_not_there(error: KafkaError, bounds: tuple[int, int], what: str, found: str) -> None:
    reader = Reader(Script([error], bounds=bounds))
    with pytest.raises(PositionGapError, match=what) as caught:
        offsets(reader, 5, 9)
    assert found in str(caught.value.found)
    assert ("t/0", "bounds", 10.0) in reader.called()


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (UnknownTopicOrPartitionError("tiger"), FeedSettingsError),
        (CorruptRecordError("tiger"), FeedError),
        (KafkaConnectionError("tiger"), RetryableFeedError),
    ],
)
def test_other_errors_do_not_ask_where_the_partition_begins(error: KafkaError, kind: type[Exception]) -> None:
    reader = Reader(Script([error]))
    with pytest.raises(kind) as caught:
        offsets(reader, 5, 9)
    assert type(caught.value) is kind and "tiger" not in str(caught.value)
    assert "bounds" not in [call[1] for call in reader.called()]


def test_bounds_that_cannot_be_had() -> None:
    reader = Reader(Script([OffsetOutOfRangeError()], bounds=KafkaTimeoutError("tiger is late")))
    with pytest.raises(RetryableFeedError, match="cannot be read") as caught:
        offsets(reader, 5, 9)
    assert "is late" in str(caught.value.found) and "tiger" not in str(caught.value)


def test_retention_that_passes_a_range_while_it_waits_is_a_gap_for_the_next_start() -> None:
    """Which plans behind the gap, where that is allowed; a stream that goes on does so by itself."""
    reader = Reader(Script([OffsetOutOfRangeError()], bounds=(6, 100)), allow_gap=True)
    with pytest.raises(RetryableFeedError, match="while they waited to be read") as caught:
        offsets(reader, 5, 9)
    assert "1 offsets are lost" in str(caught.value.found) and "allow_gap = true" not in str(caught.value.hint)
