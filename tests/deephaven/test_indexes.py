"""Filters of a real engine on columns with an index: the same rows, and the column is read where it may match only."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from sparkhaven.store.io.fs import MAP_FROM
from sparkhaven.writers.partitions import add_partition
from tests.support.served import Served, require_engine, serving
from tests.support.tables.intraday_rows import IntradayRows
from tests.support.writers.merge_cases import DAY
from tests.support.writers.merge_runs import FS, merge

ROWS = MAP_FROM  # so that columns are mapped
LATER = "2024-03-06"
SCHEMA = b"""<Table namespace="Test" name="Every" storageType="NestedPartitionedOnDisk">
  <Partitions keyFormula="${autobalance_single}"/>
  <Column name="Date" dataType="String" columnType="Partitioning"/>
  <Column name="Sym" dataType="String" columnType="Grouping"/>
  <Column name="OrderId" dataType="long"/>
  <Column name="Px" dataType="double"/>
  <Column name="Size" dataType="int"/>
  <DataIndex columns="OrderId"/>
  <DataIndex columns="Px,Size"/>
</Table>
"""

pytestmark = pytest.mark.deephaven


def rows_of(seed: int) -> pa.Table:
    """Some hundred rows of each key, in no order, and nulls."""
    rng = np.random.default_rng(seed)
    orders = pa.array(rng.integers(0, 500, ROWS), mask=rng.random(ROWS) < 0.01)
    syms = pa.array([None if code < 0 else f"S{code}" for code in rng.integers(-1, 300, ROWS)])
    prices = pa.array(rng.integers(-100, 100, ROWS) / 4, mask=rng.random(ROWS) < 0.01)
    return pa.table({"Sym": syms, "OrderId": orders, "Px": prices, "Size": pa.array(range(ROWS), pa.int32())})


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Served, pa.Table]]:
    """A date in history with its indexes, and one that is intraday; and their rows."""
    require_engine()
    base = tmp_path_factory.mktemp("indexes")
    db = IntradayRows(base / "db", SCHEMA, fs=FS)
    first, later = rows_of(1), rows_of(2)
    db.commit({("a", DAY): first})
    add_partition(FS, db.layout, "Test", "0")
    merge(db.layout)
    db.commit({("a", LATER): later})
    with serving(base / "db", base) as found:
        found.attach("every", "Test_Every")
        yield found, pa.concat_tables([first, later])


def mapped(served: Served) -> set[str]:
    """Names of column files of history that the server has mapped."""
    lines = Path(f"/proc/{served.server.pid}/maps").read_text(encoding="utf-8").splitlines()
    paths = [Path(line.split(maxsplit=5)[-1]) for line in lines if "/Systems/" in line]
    return {path.name for path in paths if path.parent.name == "Every"}


def test_a_column_is_not_read_where_its_index_has_no_such_value(served: tuple[Served, pa.Table]) -> None:
    engine, _ = served
    for where in ("OrderId = -7", "OrderId in -7, -8", "Sym = `none`", "Px = 0.1"):
        assert engine.rows("every", where=[where]).num_rows == 0
    assert not mapped(engine)
    assert engine.rows("every", where=["OrderId > 1000"]).num_rows == 0  # no index serves it
    assert mapped(engine) == {"OrderId.dat"}


@pytest.mark.parametrize(
    ("where", "column", "values"),
    [
        ("OrderId = 17", "OrderId", [17]),
        ("OrderId in 3, 499, 1000", "OrderId", [3, 499]),
        ("OrderId = null", "OrderId", [None]),
        ("Sym = `S7`", "Sym", ["S7"]),
        ("Sym in `S1`, `S299`, `x`", "Sym", ["S1", "S299"]),
        ("isNull(Sym)", "Sym", [None]),
        ("Sym = null", "Sym", [None]),
        ("Px = -2.25", "Px", [-2.25]),
        ("Px = -0.0", "Px", [0.0]),
        ("Px = null", "Px", [None]),
        ("Size = 5", "Size", [5]),
    ],
)
def test_a_filter_keeps_the_rows_of_history_and_intraday(
    served: tuple[Served, pa.Table], where: str, column: str, values: list[object]
) -> None:
    engine, rows = served
    pairs = zip(rows["Size"].to_pylist(), rows[column].to_pylist(), strict=True)
    wanted = sorted(size for size, value in pairs if value in values)
    assert sorted(engine.rows("every", where=[where], columns=["Size"])["Size"].to_pylist()) == wanted
    small = engine.rows("every", where=["Size < 50000", where], columns=["Size"])["Size"].to_pylist()
    assert sorted(small) == [size for size in wanted if size < 50_000]


def test_other_filters_on_the_same_columns_are_compared_row_by_row(served: tuple[Served, pa.Table]) -> None:
    engine, rows = served
    syms = rows["Sym"].to_pylist()
    for where, wanted in {
        "Sym icase in `s7`": syms.count("S7"),
        "Sym != `S7`": len(syms) - syms.count("S7"),
        "Sym = `S7` || Size < 0": syms.count("S7"),
        "Sym.startsWith(`S29`)": sum(sym is not None and sym.startswith("S29") for sym in syms),
    }.items():
        where = where.replace("Sym.starts", "Sym != null && Sym.starts")
        assert engine.rows("every", where=[where], columns=["Size"]).num_rows == wanted, where
