"""A table that was opened before history changed, and is read after: its rows of then, or an error, never others."""

from __future__ import annotations

import pickle
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest

import sparkhaven
from sparkhaven.readers import Snapshot, open_table
from sparkhaven.readers.arrow.snapshot import pinned_of
from sparkhaven.store.errors import SnapshotMovedError, TableNotFoundError
from sparkhaven.writers.partitions import add_partition
from tests.support.readers.changed_history import (
    CHANGES,
    NAME,
    SCHEMA,
    done,
    filled,
    merged,
    rows_of,
    table_of,
    without_replaced,
)
from tests.support.tables.intraday_rows import IntradayRows
from tests.support.writers.merge_cases import DAY
from tests.support.writers.merge_runs import FS


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_of_history_is_not_seen(tmp_path: Path, change: str) -> None:
    words, other = CHANGES[change]
    root = tmp_path / "db"
    db = merged(root)
    table, expected = open_table(root, NAME), rows_of(open_table(root, NAME))
    shipped = pickle.dumps(pinned_of(table).detached())
    done(root, *filled(words, tmp_path))
    for tier in ("all", "all", "history"):
        assert rows_of(table, tier) == expected
    assert Snapshot(pickle.loads(shipped)).count() == 12
    assert (rows_of(open_table(root, NAME)) != expected) == other
    without_replaced(db)
    for _ in range(2):
        if other:
            with pytest.raises(SnapshotMovedError, match="open the table again"):
                table.to_arrow()
            with pytest.raises(SnapshotMovedError):
                table.count()
        else:
            assert rows_of(table) == expected
    assert table.count(tier="intraday") == 0


def test_a_table_that_was_opened_before_the_first_merge_has_all_rows(tmp_path: Path) -> None:
    root = tmp_path / "db"
    db = IntradayRows(root, SCHEMA, fs=FS)
    db.commit({("a", DAY): table_of(range(12))})
    add_partition(FS, db.layout, "Test", "0")
    table, expected = open_table(root, NAME), rows_of(open_table(root, NAME))
    done(root, "merge", NAME, "--dates", DAY, "--dedupe", "Sym")
    assert len(rows_of(open_table(root, NAME))) == 3
    assert rows_of(table) == expected
    done(root, "truncate", NAME, "--dates", DAY)
    done(root, "delete", NAME, "--dates", DAY, "--grace", "0")
    with pytest.raises(SnapshotMovedError):
        rows_of(table)


@pytest.mark.parametrize("merged_before", [False, True])
def test_a_table_that_was_opened_before_a_stream_began_shows_none_of_its_rows(
    tmp_path: Path, merged_before: bool
) -> None:
    root = tmp_path / "db"
    db = IntradayRows(root, SCHEMA, fs=FS)
    db.commit({("a", DAY): table_of(range(12))})
    add_partition(FS, db.layout, "Test", "0")
    if merged_before:
        done(root, "merge", NAME, "--dates", DAY)
    table, expected = open_table(root, NAME), rows_of(open_table(root, NAME))
    other = IntradayRows(root, SCHEMA, "later", FS)
    other.commit({("b", DAY): table_of(range(12, 15))})
    assert rows_of(table) == expected
    done(root, "merge", NAME, "--dates", DAY, "--rewrite")
    assert len(rows_of(open_table(root, NAME))) == 15
    assert rows_of(table) == expected
    db.log.close()
    other.log.close()
    done(root, "truncate", NAME, "--dates", DAY)
    assert rows_of(table) == expected
    done(root, "delete", NAME, "--dates", DAY, "--grace", "0")
    if merged_before:
        assert rows_of(table) == expected
        without_replaced(db)
    with pytest.raises(SnapshotMovedError):
        rows_of(table)


@pytest.mark.parametrize(
    "gone", [("delete-rows", NAME, "--where", "Size >= 0"), ("dates", "drop", NAME, "--dates", DAY)]
)
def test_a_table_that_was_opened_before_a_merge_whose_rows_all_went_does_not_show_none(
    tmp_path: Path, gone: tuple[str, ...]
) -> None:
    root = tmp_path / "db"
    db = IntradayRows(root, SCHEMA, fs=FS)
    db.commit({("a", DAY): table_of(range(12))})
    add_partition(FS, db.layout, "Test", "0")
    table, expected = open_table(root, NAME), rows_of(open_table(root, NAME))
    shipped = pickle.dumps(pinned_of(table).detached())
    done(root, "merge", NAME, "--dates", DAY)
    done(root, "truncate", NAME, "--dates", DAY)
    done(root, "delete", NAME, "--dates", DAY, "--grace", "0")
    assert rows_of(table) == expected
    done(root, *gone)
    assert rows_of(open_table(root, NAME)) == Counter()
    for opened in (table, Snapshot(pickle.loads(shipped))):
        assert rows_of(opened) == expected  # their files stay for an hour
    without_replaced(db)
    for opened in (table, Snapshot(pickle.loads(shipped))):
        with pytest.raises(SnapshotMovedError, match="open the table again"):
            rows_of(opened)
    now = open_table(root, NAME)
    db.commit({("a", "2024-03-06"): table_of(range(3))})
    done(root, "merge", NAME, "--dates", "2024-03-06")
    assert rows_of(now) == Counter()  # a date without rows has none after a later publication of another one


def test_another_rule_of_duplicates_with_as_many_rows_is_not_seen(tmp_path: Path) -> None:
    """Late rows, and a rule that keeps the last where the first was kept: as many rows as before and the late ones."""
    root = tmp_path / "db"
    db = merged(root, removed=False)
    done(root, "merge", NAME, "--dates", DAY, "--dedupe", "Sym", "--keep", "first", "--rewrite")
    table, expected = open_table(root, NAME), rows_of(open_table(root, NAME))
    assert expected == Counter([("S0", 0), ("S1", 1), ("S2", 2)])
    db.commit({("b", DAY): pa.table({"Sym": ["S9"], "Size": pa.array([9], pa.int32())})})
    table, expected = open_table(root, NAME), rows_of(open_table(root, NAME))
    done(root, "merge", NAME, "--dates", DAY, "--dedupe", "Sym", "--keep", "last", "--rewrite")
    assert rows_of(open_table(root, NAME)) == Counter([("S0", 9), ("S1", 10), ("S2", 11), ("S9", 9)])
    assert rows_of(table) == expected
    without_replaced(db)
    done(root, "truncate", NAME, "--dates", DAY)
    done(root, "delete", NAME, "--dates", DAY, "--grace", "0")
    with pytest.raises(SnapshotMovedError, match="open the table again"):
        rows_of(table)


def test_a_merge_that_keeps_all_rows_is_read_once_the_older_one_is_gone(tmp_path: Path) -> None:
    """Late rows as a supplement, and a merge of all of them again."""
    root = tmp_path / "db"
    db = merged(root, removed=False)
    db.commit({("b", DAY): table_of(range(20, 25))})
    table, expected = open_table(root, NAME), rows_of(open_table(root, NAME))
    done(root, "merge", NAME, "--dates", DAY)
    assert rows_of(table) == expected
    done(root, "merge", NAME, "--dates", DAY, "--rewrite")
    without_replaced(db)
    assert rows_of(table) == expected
    done(root, "truncate", NAME, "--dates", DAY)
    done(root, "delete", NAME, "--dates", DAY, "--grace", "0")
    assert rows_of(table) == expected
    with pytest.raises(SnapshotMovedError, match="open the table again"):
        rows_of(table, "history")  # all locations now have the late rows too


def test_history_of_a_table_that_is_open_has_no_row_of_a_later_merge(tmp_path: Path) -> None:
    root = tmp_path / "db"
    db = IntradayRows(root, SCHEMA, fs=FS)
    add_partition(FS, db.layout, "Test", "0")
    db.commit({("a", DAY): table_of(range(12))})
    none, every = open_table(root, NAME), table_of(range(12)).num_rows
    done(root, "merge", NAME, "--dates", DAY)
    db.commit({("a", DAY): table_of(range(20, 25))})
    some, same = open_table(root, NAME), []
    for words in ((), ("--rewrite",)):
        done(root, "merge", NAME, "--dates", DAY, *words)
        same.append((none.count(tier="history"), some.count(tier="history"), some.count(), none.dates(tier="history")))
        with pytest.raises(TableNotFoundError):
            none.to_arrow(dates=DAY, tier="history")
        assert none.count(dates=DAY) == none.count(dates=DAY, tier="intraday") == every
    assert same == [(0, every, every + 5, [])] * 2
    assert open_table(root, NAME).count(tier="history") == every + 5
    without_replaced(db)
    assert (none.count(tier="history"), none.count(), some.count()) == (0, every, every + 5)
    with pytest.raises(SnapshotMovedError, match="open the table again"):
        some.count(tier="history")


@pytest.mark.parametrize("tier", ["all", "history"])
def test_a_date_that_came_as_history_is_as_unknown_as_before(tmp_path: Path, tier: str) -> None:
    root = tmp_path / "db"
    IntradayRows(root, SCHEMA, fs=FS).commit({("a", DAY): table_of(range(12))})
    table, rows = open_table(root, NAME), table_of(range(3))
    sparkhaven.Database(root).table(NAME).merge_frame(rows, "2026-12-24")
    assert open_table(root, NAME).count(dates="2026-12-24", tier=tier) == 3
    with pytest.raises(TableNotFoundError, match="has no partition"):
        table.count(dates="2026-12-24", tier=tier)


def test_a_dropped_date_that_comes_back_is_not_seen(tmp_path: Path) -> None:
    root = tmp_path / "db"
    merged(root)
    done(root, "dates", "detach", NAME, "--dates", DAY, "--out", str(tmp_path / "out"))
    table = open_table(root, NAME)
    done(root, "dates", "attach", NAME, str(tmp_path / "out"))
    assert rows_of(table) == Counter() and rows_of(open_table(root, NAME)).total() == 12


@pytest.mark.parametrize("damage", ["gone", "cut"])
def test_a_lost_index_hides_nothing(tmp_path: Path, damage: str) -> None:
    """The index is not what history is. What it was beside a damaged one nobody knows once that is another file."""
    root = tmp_path / "db"
    db = merged(root)
    index = db.layout.metadata_index(db.table)
    if damage == "gone":
        index.unlink()
    else:
        index.write_bytes(index.read_bytes()[:-3])
    table, expected = open_table(root, NAME), rows_of(open_table(root, NAME))
    assert rows_of(table) == expected
    done(root, "metadata", "update", NAME)
    if damage == "cut":
        with pytest.raises(SnapshotMovedError, match="open the table again"):
            rows_of(table)
        return
    assert rows_of(table) == expected
    index.unlink()
    assert rows_of(table) == expected
    done(root, "rewrite-column", NAME, "--dates", DAY, "--set", "Size = 11 - Size")
    assert rows_of(table) == expected != rows_of(open_table(root, NAME))


@pytest.mark.parametrize("opened", ["before the merge", "after it"])
def test_a_removed_stream_leaves_its_rows_in_history(tmp_path: Path, opened: str) -> None:
    root = tmp_path / "db"
    db = merged(root, removed=False)
    if opened == "before the merge":
        db.commit({("b", DAY): table_of(range(20, 25))})
    table, expected = open_table(root, NAME), rows_of(open_table(root, NAME))
    done(root, "merge", NAME, "--dates", DAY)
    done(root, "truncate", NAME, "--dates", DAY)
    done(root, "delete", NAME, "--dates", DAY, "--grace", "0")
    db.log.close()
    done(root, "streams", "remove", NAME, db.place.stream)
    assert rows_of(table) == expected
    done(root, "rewrite-column", NAME, "--dates", DAY, "--set", "Size = Size + 1000")
    without_replaced(db)
    with pytest.raises(SnapshotMovedError, match="open the table again"):
        rows_of(table)
