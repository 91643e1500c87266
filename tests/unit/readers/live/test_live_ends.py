"""What takes rows back while a table is read live: it goes on with what it has shown, or ends."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from sparkhaven import open_table
from sparkhaven.store.errors import SnapshotMovedError
from tests.support.commands import run
from tests.support.tables.intraday_rows import IntradayRows
from tests.support.tables.live_rows import SMALL, compact, expected, more, remove, rows_of, small
from tests.support.tables.live_tables import Attached, Engine
from tests.support.writers.merge_cases import DAY, SCHEMA, TABLE
from tests.support.writers.merge_runs import FS, make, merge


def test_epochs_that_were_shown_and_rolled_back_end_the_table(tmp_path: Path) -> None:
    db, rows = make(tmp_path, 40)
    before = list(rows)
    more(db, rows, 5)
    engine = Engine(tmp_path, fs=FS)
    attached = engine.attach("Test_Every")
    db.log.rollback(2)
    db.symbols.clear()
    with pytest.raises(SnapshotMovedError, match="rolled back to epoch 2"):
        attached.column("Sym")  # the files are others already, whatever was noticed so far
    engine.look()
    assert [type(error) for error in attached.errors][:1] == [SnapshotMovedError]
    assert "Test.Every: the served table has ended" in engine.notes[0]
    engine.look()
    again = engine.attach("Test_Every")
    assert again.key != attached.key
    assert rows_of(again) == expected(before)


def replaced(root: Path) -> tuple[IntradayRows, Engine, Attached]:
    """An epoch that was shown is rolled back, and another one of as many rows has its number."""
    db = IntradayRows(root, SMALL)
    for epoch in range(1, 4):
        db.commit({("a", DAY): small(2, epoch)})
    engine = Engine(root)
    attached = engine.attach("NS_T")
    db.log.rollback(2)
    db.symbols[next(iter(db.log.state.locations)), "Sym"] = {"s1": 0, "s2": 1}
    db.commit({("a", DAY): small(2, 9)})
    return db, engine, attached


def test_a_rollback_and_as_many_other_rows_between_two_looks(tmp_path: Path) -> None:
    _, engine, attached = replaced(tmp_path)
    engine.look()
    assert [type(error) for error in attached.errors][:1] == [SnapshotMovedError]
    engine.look()
    assert engine.attach("NS_T").column("Sym") == ["s1", "s1", "s2", "s2", "s9", "s9"]


def test_epochs_that_were_never_shown_may_be_rolled_back(tmp_path: Path) -> None:
    db = IntradayRows(tmp_path, SMALL)
    db.commit({("a", DAY): small(2, 1)})
    engine = Engine(tmp_path)
    attached = engine.attach("NS_T")
    db.commit({("a", DAY): small(2, 2), ("b", DAY): small(3, 2)})
    db.log.rollback(1)
    engine.look()
    db.symbols[next(iter(db.log.state.locations)), "Sym"] = {"s1": 0}
    db.commit({("a", DAY): small(3, 7)})
    engine.look()
    assert attached.errors == []
    assert attached.column("Sym") == ["s1", "s1", "s7", "s7", "s7"]
    assert attached.column("Note") == ["n1", "n1", "n7", "n7", "n7"]


def test_a_log_that_is_compacted_between_two_looks(tmp_path: Path) -> None:
    db, rows = make(tmp_path, 30)
    engine = Engine(tmp_path, fs=FS)
    attached = engine.attach("Test_Every")
    for number in range(1, 4):
        more(db, rows, number)
    more(db, rows, 2, source="new")
    compact(db)
    engine.look()
    assert rows_of(attached) == expected(rows)
    more(db, rows, 1)
    engine.look()
    assert rows_of(attached) == expected(rows)
    assert attached.errors == [] and engine.notes == []


def test_a_rollback_that_a_compaction_has_folded_between_two_looks(tmp_path: Path) -> None:
    db, engine, attached = replaced(tmp_path)
    compact(db)
    engine.look()
    assert [type(error) for error in attached.errors][:1] == [SnapshotMovedError]


def test_a_location_that_came_and_went_between_two_looks_ends_the_table(tmp_path: Path) -> None:
    db, rows = make(tmp_path, 30)
    merge(db.layout)
    engine = Engine(tmp_path, fs=FS)
    attached = engine.attach("Test_Every")
    more(db, rows, 4, source="brief")
    merge(db.layout)
    remove(db)
    compact(db)
    engine.look()
    assert "rows that this table has not seen" in str(attached.errors[0])
    engine.look()
    assert rows_of(engine.attach("Test_Every")) == expected(rows)


def test_a_date_of_history_that_comes_from_elsewhere(tmp_path: Path) -> None:
    db, rows = make(tmp_path / "one", 30)
    merge(db.layout)
    other = IntradayRows(tmp_path / "two", SCHEMA, stream="other", fs=FS)
    mine: list[dict[str, Any]] = []
    more(other, mine, 3, day="2024-03-06")
    engine = Engine(tmp_path / "two", fs=FS)
    attached = engine.attach("Test_Every")
    shutil.copytree(db.layout.system("Test"), other.layout.system("Test"), symlinks=True)
    engine.look(0.3)
    assert rows_of(attached) == expected(rows + mine)
    assert set(attached.values.values()) == {DAY, "2024-03-06"}


@pytest.mark.filterwarnings("ignore::sparkhaven.store.errors.HistoryWarning")
def test_history_that_was_added_by_hand_is_shown_once_it_is_adopted(tmp_path: Path) -> None:
    db, _ = make(tmp_path, 30)
    merge(db.layout)
    db.log.close()
    date = db.layout.partitions("Test") / "0" / DAY
    shutil.copytree(date, date.with_name("2024-04-01"))
    copied = len(open_table(tmp_path, "Test.Every").to_arrow(["L"], dates="2024-04-01"))
    engine = Engine(tmp_path, fs=FS)
    before = engine.attach("Test_Every")
    assert len(rows_of(before)) == 30 + copied  # it stood there when the table was opened
    shutil.copytree(date, date.with_name("2024-04-02"))
    engine.look(0.3)
    assert len(rows_of(before)) == 30 + copied
    assert run(tmp_path, "dates", "adopt", "Test.Every").exit_code == 0
    engine.look(0.3)
    assert before.errors == []
    assert len(rows_of(before)) == 30 + 2 * copied
    assert set(before.values.values()) == {DAY, "2024-04-01", "2024-04-02"}


def test_rows_removed_before_they_could_be_mapped_end_the_table(tmp_path: Path) -> None:
    db, rows = make(tmp_path, 40)
    engine = Engine(tmp_path, fs=FS)
    attached = engine.attach("Test_Every")
    merge(db.layout)
    remove(db)  # both phases between two looks
    engine.look()
    assert [type(error) for error in attached.errors][:1] == [SnapshotMovedError]
    assert "before this table had mapped them" in str(attached.errors[0])
    engine.look()
    assert rows_of(engine.attach("Test_Every")) == expected(rows)


def test_history_that_was_replaced_and_cleaned_ends_the_table_when_it_is_asked_for(tmp_path: Path) -> None:
    db, rows = make(tmp_path, 30)
    merge(db.layout)
    engine = Engine(tmp_path, fs=FS)
    attached = engine.attach("Test_Every")
    attached.column("L")
    for place in attached.sizes:
        db.fs.remove_tree(db.layout.history_location(TABLE, place.at))
    attached.column("L")  # mapped before
    with pytest.raises(SnapshotMovedError, match="merged again"):
        attached.column("I")
    assert rows
