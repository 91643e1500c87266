"""Rows of Arrow as history: one date or several, replaced, joined, refused; what they leave, and what comes after."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from sparkhaven.readers import open_table
from sparkhaven.readers.checks.verify import verify
from sparkhaven.store.errors import (
    InvalidNameError,
    SchemaMismatchError,
    SettingsError,
    TableExistsError,
    TableNotFoundError,
)
from sparkhaven.store.layout import Layout, TableName
from sparkhaven.store.merges.merge_records import newest
from sparkhaven.store.places import TablePlace
from sparkhaven.writers.foreign_values import AllowedConversions
from sparkhaven.writers.merge.publish.staged_locations import taken_rows
from sparkhaven.writers.removal.history_removal import drop_history
from sparkhaven.writers.removal.removal_proof import prove
from sparkhaven.writers.validation.date_validation import validate_date
from tests.support.tables.intraday_rows import IntradayRows
from tests.support.writers.frame_cases import NOW_S, take
from tests.support.writers.import_cases import empty
from tests.support.writers.merge_cases import DAY, SCHEMA, TABLE, as_table, random_row
from tests.support.writers.merge_runs import FS, merge

NEXT = "2024-03-06"
NS_T = TableName("NS", "T")
KEYED = b"""<Table namespace="NS" name="T" storageType="NestedPartitionedOnDisk">%s
  <Column name="Date" dataType="String" columnType="Partitioning"/>
  <Column name="Sym" dataType="String" columnType="Grouping"/>
  <Column name="Id" dataType="long"/>
  <Column name="X" dataType="int"/></Table>"""


def keyed(root: Path, rule: bytes = b"") -> Layout:
    return empty(root, KEYED % rule)


def rows(ids: list[int], x: int, sym: str = "a", **more: list[Any]) -> pa.Table:
    return pa.table({"Sym": [sym] * len(ids), "Id": ids, "X": pa.array([x] * len(ids), pa.int32()), **more})


def found(layout: Layout, *dates: str, tier: str = "history") -> list[tuple[int, int]]:
    table = open_table(layout.root, "NS.T").to_arrow(["Id", "X"], tier=tier, dates=dates or None)
    return sorted(zip(table["Id"].to_pylist(), table["X"].to_pylist(), strict=True))


def sound(layout: Layout, table: TableName, *dates: str) -> None:
    """Verified and validated, with nothing left beside history."""
    place = TablePlace(FS, layout, table)
    assert [f for f in verify(FS, layout, table, deep=True).findings if f.severity == "error"] == []
    assert [validate_date(place, date).passed for date in dates] == [True] * len(dates)
    assert FS.stat(taken_rows(place)) is None


def test_rows_of_several_dates_become_history_once(tmp_path: Path) -> None:
    layout = empty(tmp_path / "db", SCHEMA)
    rng = random.Random(3)
    given = [random_row(rng) for _ in range(2500)]
    dates = [rng.choice([DAY, NEXT]) for _ in given]
    frame = as_table(given).append_column("Date", pa.array(dates))
    assert [(r.value, r.outcome, r.rows_in) for r in take(layout, frame, dry_run=True)] == [
        (DAY, "planned", dates.count(DAY)),
        (NEXT, "planned", dates.count(NEXT)),
    ]
    assert not list(layout.root.glob("Systems/Test/Partitions/*"))
    done = take(layout, frame, task_memory=1 << 16)  # many files a date
    assert [(r.value, r.outcome, r.rows_out, r.generation) for r in done] == [
        (DAY, "imported", dates.count(DAY), 1),
        (NEXT, "imported", dates.count(NEXT), 1),
    ]
    sound(layout, TABLE, DAY, NEXT)
    table = open_table(layout.root, str(TABLE)).to_arrow(dictionaries=False)
    names = [name for name in frame.column_names if name != "Date"]
    wanted = sorted(map(str, zip(dates, *(frame[name].to_pylist() for name in names), strict=True)))
    columns = [table[name].to_pylist() for name in ("Date", *names)]
    assert sorted(map(str, zip(*columns, strict=True))) == wanted
    order = pa.array(rng.sample(range(len(given)), len(given)))
    assert {r.outcome for r in take(layout, frame.take(order))} == {"unchanged"}, "the same rows in another order"
    record = newest(TablePlace(FS, layout, TABLE), DAY)
    assert record is not None
    assert [(i.stream, i.internal, i.epoch, i.rows) for i in record.inputs] == [("", "import", -1, dates.count(DAY))]
    assert record.run.imported is not None
    assert (record.run.imported.root, record.run.imported.layout) == ("the frame", "frame")


def test_values_that_change_places_are_other_rows(tmp_path: Path) -> None:
    layout = keyed(tmp_path / "db")
    take(layout, pa.concat_tables([rows([1], 5), rows([2], 6)]), DAY, table=NS_T)
    with pytest.raises(TableExistsError, match="history has this date already"):
        take(layout, pa.concat_tables([rows([1], 6), rows([2], 5)]), DAY, table=NS_T)
    assert found(layout) == [(1, 5), (2, 6)]


def test_a_date_that_history_has_is_replaced_or_joined_when_told(tmp_path: Path) -> None:
    layout = keyed(tmp_path / "db")
    place = TablePlace(FS, layout, NS_T)
    take(layout, rows([1, 2, 3], 0), DAY, table=NS_T)
    with pytest.raises(TableExistsError) as refused:
        take(layout, rows([9], 1, Date=[DAY]), table=NS_T)
    assert refused.value.hint == "rewrite or upsert"
    (joined,) = take(layout, rows([2, 4], 1), DAY, table=NS_T, upsert="Id")
    assert (joined.rows_in, joined.rows_out, joined.left_out, joined.identical) == (5, 4, 1, 0)
    assert found(layout) == [(1, 0), (2, 1), (3, 0), (4, 1)]
    record = newest(place, DAY)
    assert record is not None and record.proof is not None
    assert (record.proof.rows_in, [i.rows for i in record.inputs]) == (5, [5])
    sound(layout, NS_T, DAY)
    assert [r.outcome for r in take(layout, rows([2, 4], 1), DAY, table=NS_T, upsert="Id")] == ["unchanged"]
    (again,) = take(layout, rows([4, 4], 2), DAY, table=NS_T, upsert="Id")
    assert (again.rows_in, again.left_out, again.identical) == (6, 2, 1)
    assert found(layout) == [(1, 0), (2, 1), (3, 0), (4, 2)]
    sound(layout, NS_T, DAY)
    (replaced,) = take(layout, rows([7, 7], 3), DAY, table=NS_T, rewrite=True, dedupe="none", format="both")
    assert (replaced.outcome, replaced.generation, replaced.format) == ("replaced", 4, "both")
    assert found(layout) == [(7, 3), (7, 3)]
    sound(layout, NS_T, DAY)
    assert [r.outcome for r in merge(layout, table=NS_T, rewrite=True, format="parquet")] == ["merged"]
    assert found(layout) == [(7, 3), (7, 3)]


def test_rules_of_duplicates_hold_for_given_rows(tmp_path: Path) -> None:
    layout = keyed(tmp_path / "db", b'<MergeAttributes dedupeKeys="Id" keep="last"/>')
    (one,) = take(layout, pa.concat_tables([rows([1, 2], 1), rows([2], 2)]), DAY, table=NS_T)
    assert (one.rows_in, one.rows_out, one.left_out) == (3, 2, 1)
    assert found(layout) == [(1, 1), (2, 2)], "the rule of the schema"
    other = pa.concat_tables([rows([2], 9), rows([2], 8), rows([2], 8)])
    (two,) = take(layout, other, NEXT, table=NS_T, dedupe="Id", keep="first", order_by="X")
    assert (two.rows_out, two.left_out, two.identical) == (1, 2, 1)
    assert found(layout, NEXT) == [(2, 8)]
    take(layout, other, NEXT, table=NS_T, dedupe="none", rewrite=True)
    assert found(layout, NEXT) == [(2, 8), (2, 8), (2, 9)]
    reverse = pa.concat_tables([rows([2], 2), rows([1, 2], 1)])
    with pytest.raises(TableExistsError):  # other rows would be kept
        take(layout, reverse, DAY, table=NS_T)
    sound(layout, NS_T, DAY, NEXT)


def test_rows_that_are_intraday_stay_and_are_merged_later(tmp_path: Path) -> None:
    db = IntradayRows(tmp_path / "db", KEYED % b"", fs=FS)
    db.commit({("a", DAY): rows([1, 2], 1)})
    (done,) = take(db.layout, rows([8], 8), DAY, table=NS_T)
    assert (done.rows_out, done.intraday) == (1, 2)
    assert found(db.layout, tier="all") == [(1, 1), (2, 1), (8, 8)]
    assert found(db.layout) == [(8, 8)]
    (joined,) = take(db.layout, rows([1], 7), DAY, table=NS_T, upsert="Id")
    assert (joined.intraday, found(db.layout, tier="all")) == (2, [(1, 1), (1, 7), (2, 1), (8, 8)])
    (merged,) = merge(db.layout, table=NS_T)
    assert merged.outcome == "merged", "the rule is an upsert: what is intraday is newer"
    assert found(db.layout, tier="all") == found(db.layout) == [(1, 1), (2, 1), (8, 8)]
    assert prove(db.place, DAY).evidence()["rows"] == 3
    with pytest.raises(SettingsError, match="its rows are intraday as well"):
        take(db.layout, rows([5], 5), DAY, table=NS_T, rewrite=True)
    (more,) = take(db.layout, rows([2, 3], 3), DAY, table=NS_T, upsert="Id")
    assert (more.intraday, found(db.layout, tier="all")) == (0, [(1, 1), (2, 3), (3, 3), (8, 8)])
    sound(db.layout, NS_T, DAY)
    assert prove(db.place, DAY).evidence()["rows"] == 4, "merged rows may be removed from intraday"


def test_a_dropped_date_and_a_filled_one_take_rows_as_new_ones(tmp_path: Path) -> None:
    layout = keyed(tmp_path / "db")
    place = TablePlace(FS, layout, NS_T)
    take(layout, rows([1], 1), DAY, table=NS_T)
    list(drop_history(place, [DAY], "wrong", clock=lambda: NOW_S))
    assert found(layout) == []
    take(layout, rows([2], 2), DAY, table=NS_T)
    merge(layout, NEXT, table=NS_T, fill_missing=True)
    assert [(r.outcome, r.generation) for r in take(layout, rows([3], 3), NEXT, table=NS_T)] == [("imported", 2)]
    assert found(layout) == [(2, 2), (3, 3)]
    sound(layout, NS_T, DAY, NEXT)


def _cast(name: str, kind: pa.DataType, value: Any) -> pa.Table:
    return rows([1], 1).set_column({"Sym": 0, "Id": 1, "X": 2}[name], name, pa.array([value], kind))


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (pa.table({"Sym": ["a"]}), "lack columns of the table(.|\n)*expected: Id, X"),
        (rows([1], 1, Other=[1], More=[2]), "columns that the table lacks(.|\n)*found: Other, More"),
        (_cast("X", pa.int64(), 1 << 40), "stored exactly in column X(.|\n)*the frame, column X, row 0"),
        (_cast("X", pa.int32(), -(2**31)), "it is the null of its type"),
        (_cast("X", pa.string(), "1"), "column X has another type"),
        (_cast("Sym", pa.string(), "\U0001f600"), "the charset of the column"),
    ],
)
def test_what_does_not_fit_is_refused_and_leaves_nothing(tmp_path: Path, frame: pa.Table, message: str) -> None:
    latin = (KEYED % b"").replace(b'"Sym" dataType="String"', b'"Sym" dataType="String" encoding="ISO_8859_1"')
    layout = empty(tmp_path / "db", latin)
    with pytest.raises(SchemaMismatchError, match=message):
        take(layout, frame, DAY, table=NS_T)
    assert not list(layout.root.glob("Systems/NS/Partitions/*"))
    sound(layout, NS_T)


def test_dates_are_chosen_named_and_checked(tmp_path: Path) -> None:
    layout = keyed(tmp_path / "db")
    with pytest.raises(SchemaMismatchError, match=r"lack columns(.|\n)*expected: Date(.|\n)*--dates"):
        take(layout, rows([1], 1), table=NS_T)
    with pytest.raises(SchemaMismatchError, match="no partition value"):
        take(layout, rows([1], 1, Date=pa.array([None], pa.string())), table=NS_T)
    with pytest.raises(InvalidNameError):
        take(layout, rows([1], 1, Date=["a/b"]), table=NS_T)
    three = rows([1, 2, 3], 1, Date=pa.array([19785, 19786, 19787], pa.date32()))
    with pytest.raises(TableNotFoundError, match="no rows of this date"):
        take(layout, three, "2024-04-01", table=NS_T)
    assert take(layout, three, "2024-04-01", table=NS_T, allow_empty=True) == []
    assert [r.value for r in take(layout, three, "2024-03-04", "2024-03-05", table=NS_T)] == ["2024-03-04", DAY]
    with pytest.raises(TableNotFoundError, match="there are no rows"):
        take(layout, three.slice(0, 0), table=NS_T)
    ignoring = AllowedConversions(ignored=frozenset({"More"}))
    assert take(layout, rows([1], 1, More=[[1]]), NEXT, table=NS_T, conversions=ignoring)[0].rows_out == 1
    sound(layout, NS_T, "2024-03-04", DAY, NEXT)
