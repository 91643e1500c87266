"""Rules of resuming a file feed, statistics that stay bounded."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparkhaven.store.epochs.state.file_positions import NO_HORIZON, FileWindow, refuse_lost_log
from sparkhaven.store.epochs.state.log_values import FileId
from sparkhaven.store.epochs.state.packed_location import MERGE_ROWS, Stats
from sparkhaven.store.epochs.state.statistics import MAX_BOUND_BYTES
from sparkhaven.store.errors import PositionGapError
from sparkhaven.store.types.committed_columns import RangeStats

SECOND = 10**9
OLD, NEW = FileId("/feed/old", 10, 5 * SECOND), FileId("/feed/new", 20, 50 * SECOND)


def test_r1_r9_new_files_are_fresh_in_the_order_given() -> None:
    resolution = FileWindow().classify([NEW, OLD])
    assert (resolution.fresh, resolution.taken, resolution.below) == ((NEW, OLD), (), ())


def test_r2_r4_taken_files_are_dropped_and_the_rest_written() -> None:
    resolution = FileWindow([OLD]).classify([OLD, NEW])
    assert (resolution.fresh, resolution.taken) == ((NEW,), (OLD,))
    assert FileWindow([OLD, NEW]).classify([OLD, NEW]).fresh == ()


@pytest.mark.parametrize("changed", [FileId("/feed/old", 11, 5 * SECOND), FileId("/feed/old", 10, 6 * SECOND)])
def test_r3_a_changed_file_is_a_loud_error_with_both_sizes(changed: FileId) -> None:
    with pytest.raises(PositionGapError) as caught:
        FileWindow([OLD]).classify([NEW, changed])
    assert caught.value.where == "/feed/old"
    assert caught.value.expected == f"10 bytes, modified at {5 * SECOND} ns"
    assert caught.value.found == f"{changed.size} bytes, modified at {changed.mtime_ns} ns"


def test_r5_a_file_behind_the_horizon_is_never_taken() -> None:
    window = FileWindow([NEW], horizon=40 * SECOND)
    resolution = window.classify([OLD, NEW])
    assert (resolution.fresh, resolution.taken, resolution.below) == ((), (NEW,), (OLD,))
    assert window.status(FileId("/feed/late", 1, 40 * SECOND)) == "fresh"


def test_a_batch_that_names_a_file_twice_is_refused() -> None:
    with pytest.raises(PositionGapError, match="one file twice"):
        FileWindow().classify([NEW, FileId("/feed/new", 21, 50 * SECOND)])


def test_r8_a_lost_log_is_not_a_new_stream() -> None:
    with pytest.raises(PositionGapError, match="the commit log is empty"):
        refuse_lost_log("feed", 0, 3)
    refuse_lost_log("feed", 0, 0)
    refuse_lost_log("feed", 9, 3)


def test_the_horizon_follows_the_newest_taken_file_but_not_the_future() -> None:
    window = FileWindow()
    assert window.horizon == NO_HORIZON
    assert window.next_horizon([NEW], 1000 * SECOND, 7 * SECOND) == 43 * SECOND
    assert window.next_horizon([NEW], 20 * SECOND, 7 * SECOND) == 13 * SECOND
    assert window.next_horizon([], 20 * SECOND, 7 * SECOND) == NO_HORIZON
    window.take([NEW], 43 * SECOND)
    assert window.next_horizon([FileId("/feed/x", 1, 44 * SECOND)], 1000 * SECOND, 7 * SECOND) == 43 * SECOND


HOUR, YEAR = 3600 * SECOND, 365 * 86_400 * SECOND
NOW = 50 * YEAR


def test_a_file_from_the_future_does_not_raise_the_horizon() -> None:
    window = FileWindow()
    past, future = FileId("/feed/a", 1, NOW - YEAR), FileId("/feed/b", 1, NOW + 14 * YEAR)
    assert window.next_horizon([past, future], NOW, HOUR) == NOW - YEAR - HOUR
    assert window.next_horizon([future], NOW, HOUR) == NO_HORIZON
    assert window.next_horizon([FileId("/feed/c", 1, NOW + HOUR // 2)], NOW, HOUR) == NOW - HOUR


def test_a_horizon_in_the_future_is_refused_with_what_to_do() -> None:
    window = FileWindow([], horizon=NOW + 14 * YEAR)
    with pytest.raises(PositionGapError, match="files from the future") as caught:
        window.next_horizon([FileId("/feed/a", 1, NOW)], NOW, HOUR)
    assert caught.value.found == "2033-12-16 00:00:00+00:00"
    assert "epochs rollback" in str(caught.value)
    FileWindow([], horizon=NOW + HOUR // 2).require_past(NOW)


@settings(max_examples=60)
@given(st.lists(st.tuples(st.integers(0, 400), st.integers(0, 60)), max_size=60))
def test_the_window_holds_exactly_the_taken_files_after_the_horizon(files: list[tuple[int, int]]) -> None:
    window = FileWindow()
    taken: list[FileId] = []
    for number, (clock, age) in enumerate(files):
        file = FileId(f"/feed/{number}", 1, max(0, clock - age))
        if window.status(file) != "fresh":
            continue
        window.take([file], window.next_horizon([file], clock, 50))
        taken.append(file)
    assert set(window) == {file for file in taken if file.mtime_ns >= window.horizon}
    assert len(window) == len(list(window))
    assert FileWindow(window, window.horizon) == window


numbered = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 40)), max_size=25, unique_by=lambda pair: pair[0])


@pytest.mark.slow
@settings(max_examples=200)
@given(numbered, st.lists(st.tuples(st.integers(0, 40), numbered), max_size=4), st.integers(1, 4), st.booleans())
def test_a_window_that_is_read_later_is_that_of_a_dictionary(
    pairs: list[tuple[int, int]], takes: list[tuple[int, list[tuple[int, int]]]], size: int, asked: bool
) -> None:
    old = sorted((FileId(f"/feed/{n}", n, t) for n, t in pairs), key=lambda file: (file.mtime_ns, file.path))
    pieces = [old[at : at + 8 * size] for at in range(0, len(old), 8 * size)]
    taken = [([f.path for f in some], [f.size for f in some], [f.mtime_ns for f in some]) for some in pieces]
    window, model, horizon = FileWindow.later(lambda: taken, len(old), 0), {file.path: file for file in old}, 0
    copies: list[tuple[FileWindow, set[FileId]]] = []
    for until, files in takes:
        if asked:
            copies.append((window.copy(), set(model.values())))
        new = [FileId(f"/feed/{name}", name + 100, time) for name, time in files]
        new = [file for file in new if file.path not in model]
        window.take(new, until)
        horizon = max(horizon, until)
        model |= {file.path: file for file in new}
        model = {path: file for path, file in model.items() if file.mtime_ns >= horizon}
    by_age = sorted(model.values(), key=lambda file: (file.mtime_ns, file.path))
    assert list(window.stream()) == by_age
    for number in range(31):
        file = FileId(f"/feed/{number}", 7, 99)
        assert window.known(file.path) == model.get(file.path)
    assert list(window) == by_age
    assert (len(window), set(window.paths()), window.horizon) == (len(model), set(model), horizon)
    assert window == FileWindow(by_age, horizon) == window.copy()
    for copy, files_then in copies:
        assert set(copy) == files_then


def test_files_that_lie_in_another_order_are_forgotten_by_their_time() -> None:
    window = FileWindow.later(lambda: [(["/feed/b", "/feed/a"], [2, 1], [9, 3])], 2, 0)
    window.take([], 5)
    assert list(window) == [FileId("/feed/b", 2, 9)]
    assert (window.known("/feed/a"), window.known("/feed/b")) == (None, FileId("/feed/b", 2, 9))


@settings(max_examples=100)
@given(st.lists(st.tuples(st.integers(1, 50_000), st.integers(-99, 99), st.booleans()), min_size=1, max_size=60))
def test_ranges_are_joined_so_that_their_number_follows_the_rows(appends: list[tuple[int, int, bool]]) -> None:
    stats = Stats()
    row, nulls = 0, 0
    for rows, value, bare in appends:
        new = RangeStats(row, row + rows, rows if bare else 0, 0, None if bare else value, None if bare else value)
        stats = stats.extended({"N": new})
        row, nulls = row + rows, nulls + new.nulls
    ranges = stats["N"]
    assert (ranges[0].start, ranges[-1].stop, sum(r.nulls for r in ranges)) == (0, row, nulls)
    pairs = list(itertools.pairwise(ranges))
    assert all(a.stop == b.start and b.stop - a.start > MERGE_ROWS for a, b in pairs)
    values = [value for _, value, bare in appends if not bare]
    lows = [r.low for r in ranges if r.low is not None]
    assert (min(lows) if lows else None) == (min(values) if values else None)


def only(*appended: RangeStats) -> RangeStats:
    stats = Stats()
    for part in appended:
        stats = stats.extended({"T": part})
    (found,) = stats["T"]
    return found


def test_a_bound_that_one_side_does_not_know_is_unknown_but_nulls_bound_nothing() -> None:
    more = RangeStats(2, 3, 0, 0, "c", "d")
    unknown = only(RangeStats(0, 2, 0, 0), more)
    assert (unknown.low, unknown.high) == (None, None)
    known = only(RangeStats(0, 2, 1, 1), more)
    assert (known.low, known.high, known.nulls, known.nans) == ("c", "d", 1, 1)


@pytest.mark.slow
@given(st.lists(st.text(max_size=40) | st.text("ab\u00e9\U0010ffff\ud7ff", min_size=20, max_size=40), min_size=1))
def test_a_long_text_has_short_bounds_that_hold(texts: list[str]) -> None:
    found = only(RangeStats(0, 9, 0, 0, min(texts), max(texts)))
    if found.low is None:
        assert found.high is None and max(texts).startswith("\U0010ffff" * 6)
    else:
        assert isinstance(found.low, str) and isinstance(found.high, str)
        assert found.low <= min(texts) and max(texts) <= found.high
        assert max(len(bound.encode()) for bound in (found.low, found.high)) <= MAX_BOUND_BYTES
    if max(len(text.encode()) for text in texts) <= MAX_BOUND_BYTES:
        assert (found.low, found.high) == (min(texts), max(texts))
