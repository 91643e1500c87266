"""Withdrawn rows and what chooses rows otherwise: filters, statistics, indexes, streams of epochs, live tables."""

from __future__ import annotations

import random
from collections.abc import Iterable
from functools import partial
from pathlib import Path

import pytest

from sparkhaven import sql
from sparkhaven.readers.arrow.opening import open_table
from sparkhaven.readers.arrow.snapshot import pinned_of
from sparkhaven.readers.compare import compare_tables
from sparkhaven.store.epochs.state.log_records import Withdrawn
from sparkhaven.store.epochs.undo import Withdrawal, plan_undo
from sparkhaven.store.errors import SnapshotMovedError
from sparkhaven.store.format.table import table_size
from sparkhaven.store.layout import LocationKey
from sparkhaven.store.types.row_ranges import RowRanges
from tests.support.tables.live_tables import Engine
from tests.support.tables.small_tables import SmallTable
from tests.unit.readers.spark.test_stream import Query

DAY = "2026-11-20"
KEY = LocationKey("a", DAY)


@pytest.fixture
def small(tmp_path: Path) -> SmallTable:
    return SmallTable(tmp_path / "db")


def withdraw(small: SmallTable, rows: Iterable[int], key: LocationKey = KEY) -> int:
    ranges = RowRanges.of((row, row + 1) for row in rows)
    location = small.log().state.locations[key]
    return small.log().withdraw(lambda: Withdrawal((), "chosen", (Withdrawn(key, location.since, ranges),)))


def undo(small: SmallTable, epoch: int) -> int:
    return small.log().withdraw(partial(plan_undo, small.place.of_stream("s"), [epoch]))


def test_filters_see_only_rows_that_are_left_whatever_statistics_say(small: SmallTable) -> None:
    rng = random.Random(5)
    values: list[int | None] = []
    for number in range(6):
        some = [rng.randrange(50) if rng.random() < 0.9 else None for _ in range(20)]
        small.add("a", DAY, {"Size": some, "Sym": [f"s{number}"] * 20})
        values += some
    gone = {row for row in range(len(values)) if rng.random() < 0.4} | set(range(40, 60))
    withdraw(small, gone)
    left = [(row, value) for row, value in enumerate(values) if row not in gone]
    table = open_table(small.root, "NS.T")
    for low in (0, 10, 49, 100):
        expected = [value for _, value in left if value is not None and value >= low]
        assert table.to_arrow("Size", where=f"Size >= {low}")["Size"].to_pylist() == expected
        assert table.count(where=f"Size >= {low}") == len(expected)
    assert table.count(where="Sym = 's2'") == 0
    assert table.count() == len(left)
    batches = table.to_batches("Size", batch_rows=7)
    assert [v for batch in batches for v in batch.column(0).to_pylist()] == [value for _, value in left]
    numbers = [value for _, value in left if value is not None]
    answer = sql(small.root, "SELECT count(*), count(Size), min(Size), max(Size), sum(Size) FROM NS.T").to_pylist()[0]
    assert [*answer.values()] == [len(left), len(numbers), min(numbers), max(numbers), sum(numbers)]


def test_two_roots_of_which_one_has_withdrawn_rows_are_compared_by_what_they_show(tmp_path: Path) -> None:
    one, other = SmallTable(tmp_path / "one"), SmallTable(tmp_path / "other")
    for small in (one, other):
        small.add("a", DAY, {"Size": [1, 2, 3, 4]})
    withdraw(one, [1])
    tables = [open_table(small.root, "NS.T") for small in (one, other)]
    differing = compare_tables(*map(pinned_of, tables))
    assert not differing.equal
    withdraw(other, [1])
    assert compare_tables(*(pinned_of(open_table(small.root, "NS.T")) for small in (one, other))).equal


def test_a_snapshot_that_was_opened_before_goes_on_with_its_rows(small: SmallTable) -> None:
    small.add("a", DAY, {"Size": [1, 2, 3]})
    before = open_table(small.root, "NS.T")
    withdraw(small, [0, 2])
    for _ in range(2):
        assert before.to_arrow("Size")["Size"].to_pylist() == [1, 2, 3]
    assert open_table(small.root, "NS.T").to_arrow("Size")["Size"].to_pylist() == [2]


def test_the_published_size_ends_before_the_first_withdrawn_row(small: SmallTable) -> None:
    small.add("a", DAY, {"Size": [1, 2, 3, 4, 5]})
    withdraw(small, [2])
    record = table_size.load(small.fs, small.location("a", DAY))
    assert record is not None
    assert (record.size, record.rows, record.withdrawn) == (2, 5, 1)


def test_a_stream_of_epochs_ends_at_rows_that_it_has_given_out(small: SmallTable) -> None:
    small.add("a", DAY, {"Size": [1, 2]})
    query = Query(small.root)
    query.run()
    small.add("a", DAY, {"Size": [3]})
    undo(small, 1)
    small.add("a", DAY, {"Size": [4]})
    with pytest.raises(SnapshotMovedError, match="withdrawn since") as caught:
        query.run()
    assert "skipWithdrawn=true" in str(caught.value)
    query.given["skipWithdrawn"] = "true"
    assert query.run() == [[3, 4]]
    assert Query(small.root).run() == [[3, 4]]


def test_rows_that_come_and_go_between_two_batches_were_never_given_out(small: SmallTable) -> None:
    small.add("a", DAY, {"Size": [1, 2]})
    query = Query(small.root)
    query.run()
    bad = small.add("a", DAY, {"Size": [90, 91]})
    small.add("a", DAY, {"Size": [3]})
    worse = small.add("b", DAY, {"Size": [92]})
    undo(small, bad)
    undo(small, worse)
    assert query.run() == [[3]]
    assert query.run() == []


def test_a_live_table_shows_what_is_left_and_grows(small: SmallTable) -> None:
    small.add("a", DAY, {"Size": [1, 2, 3, 4, 5, 6]})
    withdraw(small, [0, 2, 3])
    engine = Engine(small.root, "NS.T", fs=small.fs)
    attached = engine.attach("NS_T")
    assert attached.column("Size") == [2, 5, 6]
    assert sorted(attached.sizes.values()) == [1, 2]
    small.add("a", DAY, {"Size": [7]})
    engine.look()
    assert attached.column("Size") == [2, 5, 6, 7]
    assert not attached.errors


def test_a_live_table_whose_newest_rows_are_withdrawn_grows_behind_them(small: SmallTable) -> None:
    small.add("a", DAY, {"Size": [1, 2, 3]})
    withdraw(small, [1, 2])
    engine = Engine(small.root, "NS.T", fs=small.fs)
    attached = engine.attach("NS_T")
    assert attached.column("Size") == [1]
    small.add("a", DAY, {"Size": [4, 5]})
    engine.look()
    small.add("a", DAY, {"Size": [6]})
    engine.look()
    assert sorted(attached.column("Size")) == [1, 4, 5, 6]
    assert not attached.errors


def test_a_live_table_ends_when_shown_rows_are_withdrawn_and_opens_again_without_them(small: SmallTable) -> None:
    small.add("a", DAY, {"Size": [1, 2, 3]})
    small.add("b", DAY, {"Size": [8]})
    engine = Engine(small.root, "NS.T", fs=small.fs)
    attached = engine.attach("NS_T")
    withdraw(small, [1])
    engine.look()
    assert [type(error) for error in attached.errors][:1] == [SnapshotMovedError]
    assert "were withdrawn in epoch 3" in str(attached.errors[0])
    engine.look()
    assert sorted(engine.attach("NS_T").column("Size")) == [1, 3, 8]


def test_a_live_table_goes_on_where_rows_go_that_it_has_not_shown(small: SmallTable) -> None:
    small.add("a", DAY, {"Size": [1]})
    engine = Engine(small.root, "NS.T", fs=small.fs)
    attached = engine.attach("NS_T")
    bad = small.add("b", DAY, {"Size": [90, 91]})
    small.add("b", DAY, {"Size": [2]})
    undo(small, bad)
    engine.look()
    assert sorted(attached.column("Size")) == [1, 2]
    assert not attached.errors
    small.log().rollback(3)
    engine.look()
    assert [type(error) for error in attached.errors][:1] == [SnapshotMovedError]
    engine.look()
    assert sorted(engine.attach("NS_T").column("Size")) == [1, 2, 90, 91]
