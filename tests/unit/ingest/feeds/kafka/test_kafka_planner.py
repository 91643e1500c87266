"""Ranges of offsets are planned from positions and ends alone; every way to disagree has its own error."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparkhaven.ingest.feeds.kafka.broker.topics import OffsetBounds, TopicView
from sparkhaven.ingest.feeds.kafka.options import Start
from sparkhaven.ingest.feeds.kafka.planner import (
    Position,
    fair_amounts,
    first_offsets,
    lag,
    newcomers,
    next_ranges,
    read_before,
    share_out,
    verified,
)
from sparkhaven.store.epochs.state.log_values import LastMessage, OffsetRange
from sparkhaven.store.errors import FeedError, PositionGapError, SettingsError

VIEW = {"t": TopicView("one", {0: OffsetBounds(10, 100), 1: OffsetBounds(0, 50)})}


class At:
    """Answers of a broker about times and groups."""

    def at_time(self, places: list[tuple[str, int]], at_ms: int) -> dict[tuple[str, int], int | None]:
        return {place: at_ms if place[1] == 0 else None for place in places}

    def __init__(self, of_group: int = 33) -> None:
        self._of_group = of_group

    def committed(self, places: list[tuple[str, int]]) -> dict[tuple[str, int], int | None]:
        return {place: self._of_group if place[1] == 0 else None for place in places}


def test_positions_that_can_be_read_stay() -> None:
    positions = {("t", 0): Position(10, "one"), ("t", 1): Position(50), ("other", 0): Position(7, "x")}
    assert verified(positions, VIEW) == {("t", 0): Position(10, "one"), ("t", 1): Position(50, "one")}
    assert lag({("t", 0): Position(10), ("t", 1): Position(50)}, VIEW) == {("t", 0): 90, ("t", 1): 0}


def test_what_the_broker_should_still_have_is_compared() -> None:
    """Not what retention has taken, and nothing where no last message is known."""
    positions = {
        ("t", 1): Position(50, "one", LastMessage(30, 1, 2, 3)),
        ("t", 0): Position(11, "one", LastMessage(9, 1, 2, 3)),
        ("t", 2): Position(7, "one"),
    }
    assert read_before(positions, VIEW) == [OffsetRange("t", 1, 50, 50, "one")]
    assert read_before(positions, VIEW)[0].after == LastMessage(30, 1, 2, 3)


@pytest.mark.parametrize(
    ("position", "message", "allowed"),
    [
        (Position(9, "one"), "Retention has passed", Position(10, "one")),
        (Position(101, "one"), "ends before the committed position", None),
        (Position(60, "two"), "recreated", Position(10, "one")),
    ],
)
def test_each_disagreement_has_its_own_error(position: Position, message: str, allowed: Position | None) -> None:
    with pytest.raises(PositionGapError, match=message) as caught:
        verified({("t", 0): position}, VIEW)
    assert caught.value.hint
    if allowed is None:
        with pytest.raises(PositionGapError, match=message):
            verified({("t", 0): position}, VIEW, allow_gap=True)
    else:
        assert verified({("t", 0): position}, VIEW, allow_gap=True) == {("t", 0): allowed}


def test_a_partition_that_is_gone_is_an_error() -> None:
    with pytest.raises(FeedError, match="no such partition"):
        verified({("t", 7): Position(0, "one")}, VIEW)


def test_newcomers_are_partitions_without_a_position() -> None:
    view = {**VIEW, "u": TopicView("three", {0: OffsetBounds(0, 5)})}
    assert newcomers({("t", 0): Position(10)}, view) == [("t", 1), ("u", 0)]


@pytest.mark.parametrize(
    ("start", "first", "second"),
    [
        (Start(), 10, 0),
        (Start("latest"), 100, 50),
        (Start("timestamp", at_ms=70), 70, 50),
        (Start("committed"), 33, 0),
        (Start("offsets", offsets=(("t", 0, 17),)), 17, 0),
    ],
)
def test_start_rules(start: Start, first: int, second: int) -> None:
    found = first_offsets(start, [("t", 0), ("t", 1)], VIEW, At(), begun=False)  # type: ignore[arg-type]
    assert found == {("t", 0): Position(first, "one"), ("t", 1): Position(second, "one")}


@pytest.mark.parametrize(
    ("given_offset", "expected", "found"),
    [
        (("t", 0, 9), "offsets 10 to 100", "offset 9"),
        (("t", 0, 101), "offsets 10 to 100", "offset 101"),
        (("t", 5, 0), "a partition of t: 0 to 1", "partition 5, which is not there"),
        (("x", 0, 0), "a topic of this feed: t", "topic x, which is not there"),
    ],
)
def test_start_offsets_must_be_there(given_offset: tuple[str, int, int], expected: str, found: str) -> None:
    with pytest.raises(SettingsError, match="start offset") as caught:
        first_offsets(Start("offsets", offsets=(given_offset,)), [("t", 0)], VIEW, At(), begun=False)  # type: ignore[arg-type]
    assert (caught.value.expected, caught.value.found) == (expected, found)


def test_what_a_group_has_committed_must_be_there() -> None:
    """Retention may have passed it, which a gap allows; one behind the end is of another log of the topic."""
    start = Start("committed")
    with pytest.raises(PositionGapError, match="Retention has passed") as caught:
        first_offsets(start, [("t", 0)], VIEW, At(9), begun=False)  # type: ignore[arg-type]
    assert "allow_gap = true" in str(caught.value.hint)
    found = first_offsets(start, [("t", 0)], VIEW, At(9), begun=False, allow_gap=True)  # type: ignore[arg-type]
    assert found == {("t", 0): Position(10, "one")}
    for allow_gap in (False, True):
        with pytest.raises(SettingsError, match="start offset") as refused:
            first_offsets(start, [("t", 0)], VIEW, At(101), begun=False, allow_gap=allow_gap)  # type: ignore[arg-type]
        assert (refused.value.expected, refused.value.found) == ("offsets 10 to 100", "offset 101")
        assert "group.id" in str(refused.value.hint)


def test_shares_are_fair() -> None:
    waiting = {("t", 0): 1000, ("t", 1): 10, ("t", 2): 500, ("t", 3): 0}
    assert fair_amounts(waiting, 300) == {("t", 0): 145, ("t", 1): 10, ("t", 2): 145}
    assert fair_amounts(waiting, None) == {("t", 0): 1000, ("t", 1): 10, ("t", 2): 500}
    assert sum(fair_amounts(waiting, 2).values()) == 2


def test_a_new_partition_has_a_range_even_if_it_is_empty() -> None:
    positions = {("t", 0): Position(10, "one"), ("t", 1): Position(50, "one"), ("t", 2): Position(3, "one")}
    found = next_ranges(positions, {("t", 0): 5, ("t", 1): 0, ("t", 2): 0}, None, [("t", 1)])
    assert found == [OffsetRange("t", 0, 10, 15, "one"), OffsetRange("t", 1, 50, 50, "one")]


def test_a_partition_is_cut_only_where_runs_would_be_uneven() -> None:
    even = [OffsetRange("t", n, 0, 100_000) for n in range(4)]
    assert share_out(even, 2) == [tuple(even[:2]), tuple(even[2:])]
    three = even[:3]
    assert [[(r.partition, r.start, r.stop) for r in run] for run in share_out(three, 2)] == [
        [(0, 0, 100_000), (1, 0, 50_000)],
        [(1, 50_000, 100_000), (2, 0, 100_000)],
    ]
    assert len(share_out([OffsetRange("t", 0, 0, 10_000), OffsetRange("t", 1, 0, 9_000)], 2)) == 1
    assert share_out([], 4) == []


sizes = st.lists(st.integers(0, 300_000), min_size=1, max_size=6)


@pytest.mark.slow
@given(sizes, st.integers(1, 5))
@settings(max_examples=200)
def test_runs_hold_every_message_once_in_order(amounts: list[int], tasks: int) -> None:
    ranges = [OffsetRange("t", n, n, n + amount) for n, amount in enumerate(amounts)]
    runs = share_out(ranges, tasks)
    assert len(runs) <= tasks and all(runs)
    pieces = [piece for run in runs for piece in run]
    assert pieces == sorted(pieces)
    for item in ranges:
        mine = [piece for piece in pieces if piece.partition == item.partition]
        assert (mine[0].start, mine[-1].stop) == (item.start, item.stop)
        assert all(a.stop == b.start for a, b in pairwise(mine))


@pytest.mark.parametrize("at_ms", [-315_619_200_000, -1, 0])
def test_a_start_before_1970_is_the_beginning(at_ms: int) -> None:
    """A broker is not asked: -1 and -2 are names of offsets, and other negative times an error."""
    found = first_offsets(Start("timestamp", at_ms), [("t", 0)], VIEW, None, begun=False)  # type: ignore[arg-type]
    assert found == {("t", 0): Position(10, "one")}
