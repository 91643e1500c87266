"""Merges of columns with codecs: rows, order, proof and readers, in both formats and back."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from sparkhaven.readers import open_table
from sparkhaven.readers.checks.verify import verify
from sparkhaven.store.errors import MergeError, SettingsError
from sparkhaven.store.expressions.formula.evaluation import parse_formula
from sparkhaven.store.layout import LocationKey
from sparkhaven.writers.merge.sources.merge_source import BlockSizes
from sparkhaven.writers.merge.sources.sort_keys import SortKey
from sparkhaven.writers.partitions import add_partition
from tests.support.tables.intraday_rows import IntradayRows
from tests.support.writers.coded_rows import DAY, SCHEMA, TABLE, coded_row, coded_table, plain_rows
from tests.support.writers.merge_runs import FS, merge

Row = dict[str, Any]


def made(root: Path, number: int, *, seed: int = 1) -> tuple[IntradayRows, list[Row]]:
    """Rows in two sources, one of which has two epochs, and two partitions to merge into."""
    rng = random.Random(seed)
    rows = [coded_row(rng, index) for index in range(number)]
    db = IntradayRows(root, SCHEMA, fs=FS, statistics=True)
    half = number // 2
    db.commit({("a", DAY): coded_table(db.schema, rows[: half // 2]), ("b", DAY): coded_table(db.schema, rows[half:])})
    db.commit({("a", DAY): coded_table(db.schema, rows[half // 2 : half])})
    for name in range(2):
        add_partition(FS, db.layout, "Test", str(name))
    return db, rows


def read(root: Path) -> pa.Table:
    return open_table(root, "Test.Coded").to_arrow().drop_columns(["Date"])


def test_intraday_reads_back(tmp_path: Path) -> None:
    _, rows = made(tmp_path, 200)
    assert plain_rows(read(tmp_path)) == rows


@pytest.mark.slow
@pytest.mark.parametrize("formats", [["deephaven"], ["parquet", "deephaven", "both"], ["both", "parquet", "parquet"]])
def test_history_has_the_same_rows_in_each_format_and_back(tmp_path: Path, formats: list[str]) -> None:
    db, rows = made(tmp_path, 300)
    for number, form in enumerate(formats):
        merge(db.layout, table=TABLE, format=form, rewrite=number > 0)
        assert plain_rows(read(tmp_path)) == rows
    report = verify(FS, db.layout, TABLE, deep=True)
    assert [str(finding) for finding in report.findings if finding.severity == "error"] == []


@pytest.mark.slow
def test_pieces_give_the_same_bytes_as_one(tmp_path: Path) -> None:
    one, _ = made(tmp_path / "one", 400)
    many, _ = made(tmp_path / "many", 400)
    sort = (SortKey("Px", True), SortKey("Day"), SortKey("Wide"))
    merge(one.layout, table=TABLE, sort=sort)
    merge(many.layout, table=TABLE, sort=sort, sizes=BlockSizes(rows=37), workers=2, parallel_rows=1)
    for path in sorted((tmp_path / "one").rglob("Systems/**/*.dat")):
        assert path.read_bytes() == (tmp_path / "many" / path.relative_to(tmp_path / "one")).read_bytes(), path.name


@pytest.mark.parametrize("name", ["Day", "Far", "Clock", "Short", "Px", "Wide", "Whole"])
@pytest.mark.parametrize("descending", [False, True], ids=["asc", "desc"])
def test_rows_are_in_the_order_of_the_values(tmp_path: Path, name: str, descending: bool) -> None:
    db, _ = made(tmp_path, 120)
    merge(db.layout, table=TABLE, sort=(SortKey(name, descending),))
    history = read(tmp_path)
    column = history.column(name).combine_chunks()
    numbers = (column.view(pa.int64()) if pa.types.is_time(column.type) else column).to_pylist()
    syms = history.column("Sym").to_pylist()
    groups: dict[str | None, list[Any]] = {}
    for sym, value in zip(syms, numbers, strict=True):
        groups.setdefault(sym, []).append(value)
    for values in groups.values():
        nulls = [value for value in values if value is None]
        others = sorted((value for value in values if value is not None), reverse=descending)
        assert values == (others + nulls if descending else nulls + others)


@pytest.mark.parametrize("name", ["Free", "Raw", "Key", "Doubles", "Tags", "Weights", "Thing"])
def test_what_has_no_order_is_not_sorted_by(tmp_path: Path, name: str) -> None:
    db, _ = made(tmp_path, 4)
    with pytest.raises(SettingsError, match="cannot sort by this column"):
        SortKey.parse(name, db.schema)


@pytest.mark.slow
def test_duckdb_finds_the_values_in_parquet(tmp_path: Path) -> None:
    db, rows = made(tmp_path, 200)
    merge(db.layout, table=TABLE, format="parquet")
    pattern = f"{db.layout.partitions('Test')}/*/{DAY}/Coded/table.parquet"
    found = duckdb.sql(
        "select N, Day, Px, Whole, Doubles, Texts, Raw, Tags, map_entries(Weights)"
        f" from read_parquet('{pattern}') order by N"
    ).fetchall()
    for row, values in zip(rows, found, strict=True):
        weights = None if row["Weights"] is None else [{"key": k, "value": v} for k, v in row["Weights"]]
        names = ("N", "Day", "Px", "Whole", "Doubles", "Texts", "Raw", "Tags")
        assert values == (*(row[name] for name in names), weights)


def test_texts_of_sets_that_no_location_could_hold_stop_the_merge(tmp_path: Path) -> None:
    db, _ = made(tmp_path, 2)
    rng = random.Random(3)
    for part, source in enumerate(("c", "d")):
        rows = [coded_row(rng, n) | {"Tags": [f"{part}-{n}-{m}" for m in range(8)]} for n in range(5)]
        db.commit({(source, DAY): coded_table(db.schema, rows)})
    with pytest.raises(MergeError, match="sets of column Tags have too many texts for one location"):
        merge(db.layout, table=TABLE)
    assert not db.layout.history_location(TABLE, LocationKey("0", DAY)).exists()


@pytest.mark.parametrize("name", ["Day", "Clock", "Px", "Whole"])
def test_a_key_formula_distributes_rows_by_values_with_a_codec(tmp_path: Path, name: str) -> None:
    formula = f"__WRITABLE_PARTITIONS__[abs({name}.hashCode()) % __NUM_WRITABLE_PARTITIONS__]"
    by_key = SCHEMA.replace(b"${autobalance_by_first_grouping_column}", formula.encode())
    rng = random.Random(3)
    rows = [coded_row(rng, number) for number in range(60)]
    db = IntradayRows(tmp_path, by_key, fs=FS)
    db.commit({("a", DAY): coded_table(db.schema, rows)})
    for number in range(2):
        add_partition(FS, db.layout, "Test", str(number))
    merge(db.layout, table=TABLE)
    parsed = parse_formula(formula, db.schema)
    for number in range(2):
        found = plain_rows(open_table(tmp_path, "Test.Coded").to_arrow(sources=[str(number)]).drop_columns(["Date"]))
        values = coded_table(db.schema, rows).column(name)
        chosen = parsed.assign("Test", "Coded", DAY, {name: values}, ["0", "1"])
        assert found == [row for row, index in zip(rows, chosen, strict=True) if index == number] != []
