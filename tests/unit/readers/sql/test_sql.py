"""SQL over tables: results as of an independent evaluation, and what is read for them."""

from __future__ import annotations

import random
import threading
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import sparkhaven
from sparkhaven.readers import open_table
from sparkhaven.readers.sql.query import open_query
from sparkhaven.store.errors import CorruptFileError, RetryableStorageError, SnapshotMovedError
from tests.support.disks.model_fs import QuickFs
from tests.support.examples import share_of
from tests.support.tables.rising_table import D1, D2, D3, NOON, asked
from tests.support.tables.small_tables import SCHEMA, SmallTable
from tests.support.writers.merge_cases import ARROW, random_row
from tests.support.writers.merge_cases import SCHEMA as EVERY


@pytest.mark.slow
@pytest.mark.parametrize(
    ("condition", "read", "sizes"),
    [
        (f"Date = '{D2}'", 10, range(10, 20)),
        (f"Date > '{D1}'", 20, range(10, 30)),
        ("Date like '2026-11-2%'", 20, range(10, 30)),
        (f"Date in ('{D1}', '{D3}') and Size < 22", 15, [*range(10), 20, 21]),
        ("Size = 17", 5, [17]),
        ("Size + 1 = 18", 5, [17]),
        ("17 < Size and Size < 21", 10, range(18, 21)),
        ("Size between 4 and 5", 10, [4, 5]),
        ("Size in (3, 28)", 10, [3, 28]),
        ("Size = 3 or Px > 25.35", 10, [3, 29]),
        ("not (Size >= 5)", 5, range(5)),
        ("\"At\" >= '2026-11-21 12:00:00.000001003Z'", 5, [28, 29]),
        ("\"At\" > '2026-11-20 12:00:00.000000003Z' and \"At\" < '2026-11-20 13:00:00+01'", 0, []),
        ("Note = 'n15'", 5, [15]),
        ("Note like 'n2%'", 10, [20, 22, 25, 27]),
        ("Px = 10.2", 5, [12]),
        ("Size is null", 0, []),
        ("Live", 30, [n for n in range(30) if n % 5 in (0, 3)]),
        ("not Live and Size > 24", 5, [26, 29]),
        ("Sym = 'it''s \"q\"\\'", 30, range(3, 30, 5)),
        ("length(Sym) > 1 and Size < 10", 10, [3, 8]),
        ("Size % 10 = 7", 30, [7, 17, 27]),
        ("Size > Px + 1", 30, [n for n in range(30) if n % 5 > 1]),
        ("Size = 4 and 1 = 0", 0, []),
    ],
)
def test_conditions_are_pushed_down(kept: SmallTable, condition: str, read: int, sizes: Any) -> None:
    """Rows read are those of the commits that statistics cannot rule out."""
    rows, rows_read, _ = asked(kept.root, f"select Size from NS.T where {condition} order by 1")
    assert ([row[0] for row in rows], rows_read) == (list(sizes), read)


def test_only_the_columns_of_the_query_are_opened(kept: SmallTable) -> None:
    class Watching(QuickFs):
        seen: set[str] = set()

        def map(self, path: Path, length: int) -> pa.Buffer:
            self.seen.add(path.name)
            return super().map(path, length)

    rows, read, where = asked(kept.root, "select sum(Px) from NS.T where Size < 5", fs=Watching())
    assert (round(rows[0][0], 6), read, where) == (1.0, 5, '"Size" < 5')
    assert Watching.seen == {"Px.dat", "Size.dat"}
    Watching.seen.clear()
    assert asked(kept.root, "select count(*) from NS.T", fs=Watching())[0] == [(30,)]
    assert Watching.seen == set()


def test_conditions_pass_through_with_and_subqueries(kept: SmallTable) -> None:
    query = f"with d as (select * from NS.T where Date = '{D1}') select max(Size) from (select * from d) where Size < 3"
    assert asked(kept.root, query)[:2] == ([(2,)], 5)


def test_a_condition_behind_a_limit_is_not_pushed_down(kept: SmallTable) -> None:
    rows, _, where = asked(kept.root, "select Size from (select * from NS.T order by Size limit 3) where Size > 1")
    assert (rows, where) == ([(2,)], None)


def test_an_alias_that_is_the_name_of_another_column_misleads_nobody(kept: SmallTable) -> None:
    query = (
        "select count(*) from (select Size as Px, Px as Size from NS.T) where Size::double > 20.25 and Px::bigint < 29"
    )
    assert asked(kept.root, query)[0] == [(6,)]


def test_a_table_that_is_named_twice_is_read_by_what_either_needs(kept: SmallTable) -> None:
    query = f"select count(*) from NS.T a join NS.T b on a.Sym = b.Sym where a.Date = '{D1}' and b.Date = '{D3}'"
    rows, read, where = asked(kept.root, query)
    assert rows == [(16,)] and read == 40
    assert where is not None and D1 in where and D3 in where
    one_whole = "select count(*) from NS.T a, (select max(Size) m from NS.T where Size < 5) b where a.Size > b.m"
    assert asked(kept.root, one_whole)[::2] == ([(25,)], None)


@pytest.mark.parametrize(("seed", "queries"), [(8, 8), pytest.param(7, 80, marks=pytest.mark.slow)])
def test_random_conditions_give_the_rows_that_they_give_on_a_plain_table(
    tmp_path: Path, seed: int, queries: int
) -> None:
    """Against DuckDB on an Arrow table of all rows, where nothing is pushed into our scans."""
    rng = random.Random(seed)
    made = SmallTable(tmp_path, EVERY.decode())
    for number in range(6):
        listed = [random_row(rng) for _ in range(12)]
        rows = {name: pa.array([row[name] for row in listed], ARROW[name]).to_pylist() for name in ARROW}
        made.add("ab"[number % 2], (D1, D2)[number % 4 // 2], rows)
    made.merge_by_hand(D1)
    plain = open_table(tmp_path, "Test.Every").to_arrow(dictionaries=False)
    skipped = 0
    with duckdb.connect() as connection:
        connection.register("plain", plain)
        connection.execute("set TimeZone = 'UTC'")
        for _ in range(queries := share_of(queries, 8)):
            condition = random_condition(rng, plain, 2)
            query = "select Date, I, L, Sym from {} where " + condition + " order by all"
            expected = connection.sql(query.format("plain")).fetchall()
            found, read, where = asked(tmp_path, query.format("Test.Every"))
            assert repr(found) == repr(expected), (condition, where)
            skipped += read < plain.num_rows
    assert skipped > queries // 10


def random_condition(rng: random.Random, table: pa.Table, depth: int) -> str:
    """A condition over the columns of a table, with constants that are near its values."""
    if depth and rng.random() < 0.5:
        sign = rng.choice(["and", "or", "and not", "or not"])
        return f"({random_condition(rng, table, depth - 1)} {sign} {random_condition(rng, table, depth - 1)})"
    name = rng.choice(table.column_names)
    sign = rng.choice(["=", "<>", "<", "<=", ">", ">="])
    one, two = constant(rng, table[name]), constant(rng, table[name])
    ends = [f"{sign} {one}"] * 3 + [f"in ({one}, {two})", f"between {one} and {two}", "is null", "is not null"]
    return f'"{name}" {rng.choice(ends)}'


def constant(rng: random.Random, column: pa.ChunkedArray) -> str:
    """One of the values of a column as a constant of SQL."""
    value = rng.choice(column.drop_null().to_pylist())
    if pa.types.is_timestamp(column.type):
        return f"'{value}'"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return (
            f"'{value}'::double"
            if pa.types.is_float64(column.type)
            else f"{value!r}::float"
            if value - value == 0
            else "1.1"
        )
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else str(value)


def test_a_join_of_two_tables_over_both_tiers(small: SmallTable) -> None:
    other = SmallTable(small.root, SCHEMA.replace('name="T"', 'name="Names"'))
    other.add("a", D1, {"Sym": ["X", "Y", "Z"], "Note": ["ex", "why", "zed"]})
    small.merge_by_hand(D2)
    small.add("a", D2, {"Sym": ["X"], "Size": [100]})
    query = """select n.Note, t.Date, sum(t.Size)::bigint s from NS.T t join NS.Names n using (Sym)
               where t.Size >= 10 group by all order by all"""
    rows = open_table(small.root, "NS.T").to_arrow(["Sym", "Date", "Size"]).to_pylist()
    names = {"X": "ex", "Y": "why"}
    sums: dict[tuple[str, str], int] = {}
    for row in rows:
        if row["Size"] >= 10 and row["Sym"] in names:
            key = names[row["Sym"]], row["Date"]
            sums[key] = sums.get(key, 0) + row["Size"]
    with open_query(small.root, query) as result:
        found = result.batches.read_all().to_pylist()
        read = {scan.table.name: scan.rows_read for scan in result.scans}
    assert [((row["Note"], row["Date"]), row["s"]) for row in found] == sorted(sums.items())
    assert read == {"NS.Names": 3, "NS.T": 21}
    by_tier = [asked(small.root, "select count(*) from NS.T", tier=tier)[0] for tier in ("intraday", "history", "all")]
    assert by_tier == [[(31,)], [(10,)], [(31,)]]


def test_all_of_a_query_sees_one_snapshot(small: SmallTable) -> None:
    class Busy(QuickFs):
        """A writer commits whenever a data file is opened."""

        commits = 0
        one_by_one = threading.Lock()

        def map(self, path: Path, length: int) -> pa.Buffer:
            found = super().map(path, length)
            with self.one_by_one:  # DuckDB reads on threads of its own
                self.commits += 1
                small.add("a", D3, {"Size": [1000 + self.commits]})
            return found

    busy = Busy()
    query = "select count(*), max(a.Size), max(b.Size) from NS.T a full join NS.T b on a.Size = b.Size"
    rows, _, _ = asked(small.root, query, fs=busy)  # one side is read before the other
    assert busy.commits > 3
    assert rows == [(30, 29, 29)]
    assert asked(small.root, "select count(*) from NS.T")[0] == [(30 + busy.commits,)]


def test_types_are_exact(small: SmallTable) -> None:
    made = SmallTable(small.root, EVERY.decode())
    made.add("a", D1, {"T": [NOON + 123, None], "C": [65, None], "F": [1.1, float("nan")], "D": [float("nan"), -0.0]})
    query = """select T, C, chr(C) letter, F, D, epoch_ns(T) ns from Test.Every
               where (T = '2026-11-19T12:00:00.000000123Z' and F <= 1.1) or F > 1e30 order by C"""
    found = sparkhaven.sql(small.root, query)
    assert found.schema.field("T").type == pa.timestamp("ns", "UTC")
    assert found["T"].cast(pa.int64()).to_pylist() == [NOON + 123, None] == found["ns"].to_pylist()
    assert (found["C"].to_pylist(), found["letter"].to_pylist()) == ([65, None], ["A", None])
    assert found["F"].type == pa.float32() and found.num_rows == 2


def test_errors_of_reading_keep_their_class(small: SmallTable) -> None:
    (small.location("b", D2) / "Size.dat").unlink()
    with pytest.raises(CorruptFileError, match="a committed file is missing"):
        sparkhaven.sql(small.root, "select sum(Size) from NS.T")
    assert sparkhaven.sql(small.root, f"select sum(Size) s from NS.T where Date > '{D2}'")["s"].to_pylist() == [245]


def test_rows_that_left_the_snapshot_are_reported(small: SmallTable) -> None:
    class RolledBack(QuickFs):
        def map(self, path: Path, length: int) -> pa.Buffer:
            if small.log().state.epoch == 6:
                small.log().rollback(1)
            return super().map(path, length)

    with pytest.raises(SnapshotMovedError):
        asked(small.root, f"select Size from NS.T where Date = '{D3}'", fs=RolledBack())


def test_memory_is_bounded(tmp_path: Path) -> None:
    made = SmallTable(tmp_path)
    made.add("a", D1, {"Note": [f"{number:0100}" for number in range(60_000)]})
    query = "select list(Note order by Note desc) from NS.T"
    with pytest.raises(RetryableStorageError, match="exceeds its memory"):
        sparkhaven.sql(tmp_path, query, memory=4 << 20)


def test_an_empty_table_and_a_query_without_one(tmp_path: Path) -> None:
    made = SmallTable(tmp_path)
    made.log().close()
    assert (
        sparkhaven.sql(tmp_path, "select * from NS.T").schema.names == open_table(tmp_path, "NS.T").arrow_schema().names
    )
    assert sparkhaven.sql(tmp_path, "with a as (select 1 x) select x, x from a").to_pylist() == [{"x": 1, "x_1": 1}]
