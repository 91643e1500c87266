"""Imports of trees of every layout, exported by us and written by pyarrow and DuckDB."""

from __future__ import annotations

import random
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from sparkhaven.readers import open_table
from sparkhaven.readers.checks.verify import verify
from sparkhaven.store.errors import CorruptFileError, SettingsError, TableExistsError, TableNotFoundError
from sparkhaven.store.layout import TableName
from sparkhaven.store.merges.merge_records import newest
from sparkhaven.store.places import TablePlace
from sparkhaven.writers.removal.removal_proof import prove
from sparkhaven.writers.validation.date_validation import validate_date
from tests.support.tables.intraday_rows import IntradayRows
from tests.support.writers.export_cases import NEXT, export, found, two_days, wanted
from tests.support.writers.import_cases import bring, empty, small, values, write
from tests.support.writers.merge_cases import DAY, SCHEMA, TABLE, as_table, random_row
from tests.support.writers.merge_runs import FS, merge

NS_T = TableName("NS", "T")


@pytest.mark.parametrize(
    ("layout", "leaf"),
    [*((layout, "parquet") for layout in ("nested", "flat", "kv", "metadata", "hive")), ("hive", "deephaven")],
)
def test_an_export_of_every_layout_comes_back(tmp_path: Path, layout: str, leaf: str) -> None:
    db, rows = two_days(tmp_path / "db")
    export(db.root, tmp_path / "out", layout=layout, leaf=leaf)
    other = empty(tmp_path / "other")
    done = bring(other, tmp_path / "out", table=str(TABLE))
    assert [(each.value, each.outcome, each.given[0]) for each in done] == [
        (DAY, "imported", 75),
        (NEXT, "imported", 15),
    ]
    assert found(open_table(other.root, str(TABLE)).to_arrow(dictionaries=False)) == wanted(rows)
    again = bring(other, tmp_path / "out", table=str(TABLE))
    assert [each.outcome for each in again] == ["unchanged", "unchanged"]


def test_history_of_an_import_is_verified_validated_supplemented_and_merged_again(tmp_path: Path) -> None:
    db, rows = two_days(tmp_path / "db")
    export(db.root, tmp_path / "out", layout="kv", dates=(DAY,))
    mine = [row for row in rows if row[0] == DAY]
    other = IntradayRows(tmp_path / "other", SCHEMA, fs=FS)
    late = [random_row(random.Random(5)) for _ in range(9)]
    other.commit({("a", DAY): as_table(late)})
    (done,) = bring(other.layout, tmp_path / "out", table=str(TABLE))
    assert (done.outcome, done.intraday) == ("imported", 9)
    record = newest(other.place, DAY)
    assert record is not None
    assert (record.source, [(i.stream, i.internal, i.rows) for i in record.inputs]) == ("import", [("", "import", 75)])
    assert record.proof is not None
    assert record.proof.digests_out == done.digests
    assert validate_date(other.place, DAY).passed
    assert [f for f in verify(FS, other.layout, TABLE, deep=True).findings if f.severity == "error"] == []
    both = mine + [(DAY, row) for row in late]
    assert found(open_table(other.root, str(TABLE)).to_arrow(dictionaries=False)) == wanted(both)
    assert [each.outcome for each in merge(other.layout)] == ["supplement"]
    proof = prove(other.place, DAY)  # what intraday has may be removed: the inputs are all of the rows
    assert [(each["rows"], each["generation"]) for each in (proof.evidence(),)] == [(84, 2)]
    assert found(open_table(other.root, str(TABLE)).to_arrow(tier="history", dictionaries=False)) == wanted(both)
    assert [each.outcome for each in merge(other.layout, rewrite=True)] == ["merged"]
    assert found(open_table(other.root, str(TABLE)).to_arrow(tier="history", dictionaries=False)) == wanted(both)
    record = newest(other.place, DAY)
    assert record is not None
    assert record.source == "history"
    assert validate_date(other.place, DAY).passed


def test_a_date_that_history_has_needs_replace(tmp_path: Path) -> None:
    layout = small(tmp_path / "db")
    write(tmp_path / "one" / "Date=d1" / "a.parquet", [1, 2])
    write(tmp_path / "two" / "Date=d1" / "a.parquet", [3])
    write(tmp_path / "two" / "Date=d2" / "a.parquet", [4])
    bring(layout, tmp_path / "one")
    with pytest.raises(TableExistsError, match="history has this date"):
        bring(layout, tmp_path / "two")
    assert values(layout) == [1, 2]  # and nothing of d2
    assert [each.outcome for each in bring(layout, tmp_path / "two", dry_run=True, dates=("d2",))] == ["planned"]
    done = bring(layout, tmp_path / "two", replace=True)
    assert [(each.outcome, each.generation) for each in done] == [("replaced", 2), ("imported", 1)]
    assert values(layout) == [3, 4]
    with pytest.raises(TableNotFoundError, match="no rows of this date"):
        bring(layout, tmp_path / "two", dates=("d3",))


def test_merged_rows_that_are_intraday_still_are_not_replaced(tmp_path: Path) -> None:
    db, _ = two_days(tmp_path / "db", 20)
    export(db.root, tmp_path / "out", layout="kv", dates=(DAY,))
    with pytest.raises(SettingsError, match="its rows are intraday as well"):
        bring(db.layout, tmp_path / "out", table=str(TABLE), replace=True)


@pytest.mark.parametrize("layout", ["flat", "kv", "escaped"])
def test_trees_of_duckdb_and_pyarrow(tmp_path: Path, layout: str) -> None:
    db = small(tmp_path / "db", "Instant")
    tree = tmp_path / "tree"
    query = """select 'd ' || (i % 3) || ':00' as Date, case when i % 5 > 0 then 's' || (i % 7) end as Sym,
        case when i % 4 > 0 then to_timestamp(i * 1000 + 0.000001) end as X from range(60) t(i)"""
    rows = duckdb.sql(query).to_arrow_table()
    tree.mkdir()
    if layout == "flat":
        duckdb.sql(query).write_parquet(str(tree / "x.parquet"), row_group_size=16)
    elif layout == "kv":
        duckdb.sql(f"copy ({query}) to '{tree}' (format parquet, partition_by (Date), overwrite_or_ignore)")
    else:
        ds.write_dataset(rows, tree, format="parquet", partitioning=ds.partitioning(
            pa.schema([("Date", pa.string())]), flavor="hive"))  # fmt: skip
        assert any("%" in path.name for path in tree.iterdir())
    done = bring(db, tree)
    assert [each.value for each in done] == ["d 0:00", "d 1:00", "d 2:00"]
    wanted_rows = sorted(map(repr, rows.cast(pa.schema([("Date", pa.string()), ("Sym", pa.string()), (
        "X", pa.timestamp("ns", "UTC"))])).cast(pa.schema([("Date", pa.string()), ("Sym", pa.string()), (
            "X", pa.int64())])).to_pylist()))  # fmt: skip
    table = open_table(db.root, "NS.T").to_arrow(dictionaries=False)
    table = table.set_column(2, "X", table["X"].cast(pa.int64()))
    assert sorted(map(repr, table.to_pylist())) == wanted_rows


def test_rows_without_a_date_get_the_one_that_is_named(tmp_path: Path) -> None:
    layout = small(tmp_path / "db")
    write(tmp_path / "tree" / "b.parquet", [3, 4])
    write(tmp_path / "tree" / "a.parquet", [1, None])
    with pytest.raises(Exception, match="lacks a column"):
        bring(layout, tmp_path / "tree")
    (done,) = bring(layout, tmp_path / "tree", dates=("2024-01-01",))
    assert (done.value, done.given[0]) == ("2024-01-01", 4)
    assert values(layout) == [1, None, 3, 4]


def test_dates_of_type_date_and_of_columns_beside_their_directory(tmp_path: Path) -> None:
    layout = small(tmp_path / "db")
    days = pa.array([19723, 19724, 19723], pa.int32()).cast(pa.date32())
    write(tmp_path / "flat" / "a.parquet", [1, 2, 3], Date=days)
    assert [(e.value, e.given[0]) for e in bring(layout, tmp_path / "flat")] == [
        ("2024-01-01", 2),
        ("2024-01-02", 1),
    ]
    assert values(layout) == [1, 3, 2]
    write(tmp_path / "kv" / "Date=2024-02-01" / "a.parquet", [4], Date=["2024-02-01"])
    bring(layout, tmp_path / "kv")
    write(tmp_path / "bad" / "Date=2024-03-01" / "a.parquet", [4], Date=["2024-03-02"])
    with pytest.raises(Exception, match="another partition value than their directory"):
        bring(layout, tmp_path / "bad")


def test_nested_trees_and_raw_values(tmp_path: Path) -> None:
    layout = small(tmp_path / "db")
    for internal, day, x in (("0", "d1", 1), ("1", "d1", 2), ("0", "d2", 3)):
        write(tmp_path / "nested" / internal / day / "T" / "table.parquet", [x])
        write(tmp_path / "nested" / internal / day / "Other" / "table.parquet", [x])
    bring(layout, tmp_path / "nested")
    assert values(layout) == [1, 2, 3]
    write(tmp_path / "kv" / "Date=a%3Ab" / "a.parquet", [4])
    (done,) = bring(layout, tmp_path / "kv", raw_values=True)
    assert done.value == "a%3Ab"
    (done,) = bring(layout, tmp_path / "kv")
    assert done.value == "a:b"
    write(tmp_path / "again" / "0.g2" / "d3" / "T" / "table.parquet", [1])
    with pytest.raises(SettingsError, match="merged again"):
        bring(layout, tmp_path / "again")


def test_an_exported_file_with_other_values_is_refused(tmp_path: Path) -> None:
    db, _ = two_days(tmp_path / "db", 20)
    out = tmp_path / "out"
    export(db.root, out, layout="kv")
    (leaf,) = (out / f"Date={NEXT}").iterdir()
    table = pq.read_table(leaf, partitioning=None)
    changed = table.set_column(table.schema.get_field_index("L"), "L", pa.array([7] * len(table), pa.int64()))
    pq.write_table(changed, leaf)
    other = empty(tmp_path / "other")
    with pytest.raises(CorruptFileError, match="column L of an exported file has other values"):
        bring(other, out, table=str(TABLE))
    assert newest(TablePlace(FS, other, TABLE), NEXT) is None
    (out / "Date=x").mkdir()
    pq.write_table(table, out / "Date=x" / "more.parquet")
    with pytest.raises(CorruptFileError, match="not those of its manifest"):
        bring(other, out, table=str(TABLE))
