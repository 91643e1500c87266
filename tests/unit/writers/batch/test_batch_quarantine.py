"""Rejected rows of a batch: written to quarantine whole before the commit, or nothing is committed."""

from __future__ import annotations

import json
from itertools import permutations
from pathlib import Path

import pytest

from sparkhaven.ingest.spec import BadRowBudget
from sparkhaven.store.errors import ErrorBudgetExceeded, FeedError
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import LocationKey
from sparkhaven.writers.batch.rejects import reject_late
from sparkhaven.writers.task import SplitNotes
from tests.support.streams.stream_kit import numbers, open_log, put_file, record, scratch_left
from tests.support.writers.quarantine_cases import DATE, Shelf, bad, spec, take, truncate

FS = Fs()


def test_bad_rows_are_parked_and_their_neighbours_committed(tmp_path: Path) -> None:
    one = put_file(tmp_path / "feed", "1", [record(0), bad(1), record(2)], 1)
    two = put_file(tmp_path / "feed", "2", [bad(3), record(4)], 2)
    shelf = Shelf()
    with open_log(FS, tmp_path) as log:
        outcome = take(FS, tmp_path, log, [[one], [two]], shelf)
        assert (outcome.rows, outcome.rejected, outcome.epoch) == (3, 2, 1)
        assert numbers(tmp_path, log.state) == [0, 2, 4]
    assert shelf.places == [("1", 2), ("2", 1)]
    row = shelf.rows["1", 2]
    assert (json.loads(row["Payload"]), row["Column"], row["Reason"]) == (bad(1), "N", "wrong-json-type")
    assert (row["Epoch"], row["SourceTime"]) == (1, 10**9)
    assert scratch_left(tmp_path) == []


def test_a_batch_without_bad_rows_asks_nobody(tmp_path: Path) -> None:
    one = put_file(tmp_path / "feed", "1", [record(0)], 1)
    shelf = Shelf()
    with open_log(FS, tmp_path) as log:
        take(FS, tmp_path, log, [[one]], shelf)
    assert shelf.calls == 0


def test_no_bad_row_is_committed_away_without_a_quarantine(tmp_path: Path) -> None:
    one = put_file(tmp_path / "feed", "1", [record(0), bad(1)], 1)
    with open_log(FS, tmp_path) as log:
        with pytest.raises(ErrorBudgetExceeded, match="the batch has 1 bad row") as caught:
            take(FS, tmp_path, log, [[one]], None)
        assert "line 2, column N" in str(caught.value)
        assert log.state.epoch == 0


@pytest.mark.parametrize(
    ("budget", "fits"),
    [
        (BadRowBudget(4, 1.0), True),
        (BadRowBudget(3, 1.0), False),
        (BadRowBudget(4, 0.4), True),
        (BadRowBudget(4, 0.39, min_rows=0), False),
        (BadRowBudget(0, 0.0), False),
    ],
)
def test_the_budget_of_a_batch_counts_all_its_tasks(tmp_path: Path, budget: BadRowBudget, fits: bool) -> None:
    rows = [[record(n), record(n + 1), record(n + 2), bad(n + 3), bad(n + 4)] for n in (0, 5)]
    files = [put_file(tmp_path / "feed", str(n), some, n + 1) for n, some in enumerate(rows)]
    shelf = Shelf()
    with open_log(FS, tmp_path) as log:
        if fits:
            assert take(FS, tmp_path, log, [[f] for f in files], shelf, given=spec(budget)).rejected == 4
            assert len(shelf.rows) == 4
            return
        with pytest.raises(ErrorBudgetExceeded, match="more bad rows than the budget allows") as caught:
            take(FS, tmp_path, log, [[f] for f in files], shelf, given=spec(budget))
        assert f"{files[0].path} line 4, column N: wrong JSON type (string)" in str(caught.value)
        assert (log.state.epoch, shelf.calls, numbers(tmp_path, log.state)) == (0, 0, [])


@pytest.mark.slow
def test_rows_for_a_truncated_date_are_parked_whole_whoever_meets_them(tmp_path: Path) -> None:
    first = put_file(tmp_path / "feed", "0", [record(100, "a")], 1)
    groups = [
        [put_file(tmp_path / "feed", f"{task}", [record(task * 10 + n, "ab"[n % 2]) for n in range(6)], task + 1)]
        for task in (1, 2, 3)
    ]
    expected = [(str(task), line) for task in (1, 2, 3) for line in (1, 3, 5)]
    for number, order in enumerate(permutations(range(3))):
        root = tmp_path / f"db{number}"
        root.mkdir()
        shelf = Shelf()
        with open_log(FS, root) as log:
            take(FS, root, log, [[first]], shelf)
            truncate(root, LocationKey("a", DATE))
            outcome = take(FS, root, log, groups, shelf, 1, order=order)
            assert (outcome.rows, outcome.rejected) == (9, 9)
            assert shelf.places == expected
            assert {row["Reason"] for row in shelf.rows.values()} == {"late"}
            assert [json.loads(shelf.rows[place]["Payload"])["N"] for place in expected] == [
                int(name) * 10 + line - 1 for name, line in expected
            ]


def test_late_rows_stop_the_batch_where_the_stream_says_so(tmp_path: Path) -> None:
    first, late = (put_file(tmp_path / "feed", str(n), [record(n)], n + 1) for n in (0, 1))
    shelf = Shelf()
    with open_log(FS, tmp_path) as log:
        take(FS, tmp_path, log, [[first]], shelf)
        truncate(tmp_path, LocationKey("a", DATE))
        with pytest.raises(ErrorBudgetExceeded, match="a date that the stream refuses") as caught:
            take(FS, tmp_path, log, [[late]], shelf, 1, given=spec(late="fail"))
        assert "1 line 1" in str(caught.value)
        assert (log.state.epoch, shelf.calls) == (1, 0)


def test_a_source_that_gives_other_rows_the_second_time_is_an_error(tmp_path: Path) -> None:
    split = put_file(tmp_path / "feed", "1", [record(0)], 1)

    class Forgetful:
        def late(self, split: object, keys: object, notes: object) -> int:
            return 0

    with pytest.raises(FeedError, match="other rows when it was read again"):
        reject_late(Forgetful(), split, {LocationKey("a", DATE): 3}, SplitNotes())


def test_a_replay_parks_nothing_twice(tmp_path: Path) -> None:
    one = put_file(tmp_path / "feed", "1", [bad(0), record(1), bad(2)], 1)
    shelf = Shelf()

    def power_off(files: object, epoch: int) -> None:
        shelf(files, epoch)  # type: ignore[arg-type]
        raise KeyboardInterrupt

    with open_log(FS, tmp_path) as log, pytest.raises(KeyboardInterrupt):
        take(FS, tmp_path, log, [[one]], power_off)
    with open_log(FS, tmp_path) as log:
        assert log.state.epoch == 0
        assert take(FS, tmp_path, log, [[one]], shelf).epoch == 1
        assert take(FS, tmp_path, log, [[one]], shelf, 1).epoch is None
        assert numbers(tmp_path, log.state) == [1]
    assert (shelf.places, shelf.calls) == ([("1", 1), ("1", 3)], 2)
