"""A table that was opened before history changed, and is read after: its rows of then, or an error, never others."""

from __future__ import annotations

import pickle
from collections import Counter
from pathlib import Path

import pytest

from sparkhaven.readers import Table, open_table
from sparkhaven.readers.arrow.table import pinned_of
from sparkhaven.store.errors import SnapshotMovedError
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
    assert Table(pickle.loads(shipped)).count() == 12
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
    assert rows_of(table, "history") == expected


def test_a_dropped_date_that_comes_back_is_not_seen(tmp_path: Path) -> None:
    root = tmp_path / "db"
    merged(root)
    done(root, "dates", "detach", NAME, "--dates", DAY, "--out", str(tmp_path / "out"))
    table = open_table(root, NAME)
    done(root, "dates", "attach", NAME, str(tmp_path / "out"))
    assert rows_of(table) == Counter() and rows_of(open_table(root, NAME)).total() == 12


@pytest.mark.parametrize("damage", ["gone", "cut"])
def test_a_lost_index_hides_nothing(tmp_path: Path, damage: str) -> None:
    """The index is not what history is, so a table that was opened beside a damaged one is read as it is."""
    root = tmp_path / "db"
    db = merged(root)
    index = db.layout.metadata_index(db.table)
    if damage == "gone":
        index.unlink()
    else:
        index.write_bytes(index.read_bytes()[:-3])
    table, expected = open_table(root, NAME), rows_of(open_table(root, NAME))
    done(root, "metadata", "update", NAME)
    assert rows_of(table) == expected
    index.unlink()
    assert rows_of(table) == expected
