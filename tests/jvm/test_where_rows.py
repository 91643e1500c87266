"""The option ``where`` by the Spark reader in Java: the rows of Python's reader, of ``open_table``, and of DuckDB."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from sparkhaven.readers.arrow.opening import open_table
from sparkhaven.store.layout import LocationKey
from tests.contracts.codings.coded_readers import CODED_NAME, CodedSnapshot
from tests.spark.frames.test_random_queries import POOL, random_table
from tests.support.conditions import Literals, literal_of, random_condition
from tests.support.examples import share_of
from tests.support.spark.java_rows import by_java, by_python, options_of, plan_of
from tests.support.streams.schema_site import TABLE as SITE_TABLE
from tests.support.tables.small_tables import SmallTable
from tests.support.writers.coded_rows import COLUMNS
from tests.unit.readers.test_withdrawn_rows import withdraw
from tests.unit.writers.merge.test_widened_merge import MIDDLE, WIDE, Widening

pytestmark = pytest.mark.jvm

CONDITIONS, FEWEST = 25, 8  # of a table, and in a sample
DAY = "2026-11-20"
FUNCTIONS = [
    "L % 2 = 0",
    "isnan(D)",
    "length(Note) > 2",
    "Sym LIKE '%z'",
    "Sym LIKE 'a%'",
    "I = D",
    "Sym < Note",
    "Flag",
]


def same(root: Path, name: str, conditions: Sequence[str], scratch: Path, **chosen: str) -> list[int]:
    """Rows by condition: Java's are Python's, and as many as ``open_table`` has."""
    reads = [options_of(root, name, where=condition, **chosen) for condition in conditions]
    table, counts = open_table(root, name), []
    for condition, options, rows in zip(conditions, reads, by_java(reads, scratch), strict=True):
        assert rows == by_python(options), condition
        assert len(rows) == table.count(where=condition), condition
        counts.append(len(rows))
    return counts


def kept(table: pa.Table, condition: str) -> int:
    """How many rows DuckDB keeps of plain ones."""
    with duckdb.connect() as connection:
        connection.execute("SET timezone = 'UTC'")
        connection.register("plain", table)
        found = connection.execute(f"SELECT count(*) FROM plain WHERE {condition}").fetchone()
    assert found is not None
    return int(found[0])


@pytest.mark.parametrize("seed", range(4))
def test_random_conditions_over_history_and_intraday(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    small = random_table(rng, tmp_path / "db")
    literals = {name: [*map(literal_of, values)] for name, values in POOL.items()}
    conditions = [random_condition(rng, literals, FUNCTIONS) for _ in range(share_of(CONDITIONS, FEWEST))]
    conditions += ["L IS NULL OR L IS NOT NULL", "L IS NULL AND L IS NOT NULL"]  # all rows, and none
    counts = same(small.root, "NS.T", conditions, tmp_path)
    plain = open_table(small.root, "NS.T").to_arrow(dictionaries=False)
    assert counts == [kept(plain, condition) for condition in conditions]
    assert counts[-2:] == [len(plain), 0] and len(plain)


def test_random_conditions_over_every_type_of_both_formats(coded_snapshot: CodedSnapshot, tmp_path: Path) -> None:
    rng = random.Random(5)
    rows = coded_snapshot.rows
    literals: dict[str, list[str]] = {name: [] for name in COLUMNS}
    for name in ("Day", "Far"):
        literals[name] = [f"'{row[name]}'" for row in rows if row[name] is not None][:9]
    for name in ("Px", "Wide", "Whole"):
        literals[name] = ["0", "-0.5", *(str(row[name]) for row in rows if row[name] is not None)][:9]
    literals |= {"N": [*map(str, range(0, 60, 7))], "Date": ["'2024-03-06'"], "Clock": ["'12:00:00'"]}
    others = ["len(Ints) > 2", "Key = from_base64('AAAAAA==')", "len(Texts) = 1", "N % 3 = 1"]
    conditions = [random_condition(rng, literals, others) for _ in range(share_of(CONDITIONS, FEWEST))]
    fitting = ",".join(["N", "Date", *(name for name in COLUMNS if name != "Wide")])
    counts = same(coded_snapshot.root, CODED_NAME, conditions, tmp_path, columns=fitting, char="int", instant="long")
    assert any(0 < count < len(rows) for count in counts)


def test_random_conditions_over_renamed_and_widened_columns(tmp_path: Path) -> None:
    site = Widening.of_two_streams(tmp_path / "site")
    numbers = ["0", "-0.0", "2", "2.5", "5", "30000", "'NaN'::DOUBLE"]
    for number, (forms, form) in enumerate(((MIDDLE, "parquet"), (WIDE, "deephaven"))):
        site.declare(forms)
        site.deploy()
        site.batch("t", 30_000)
        site.merge("--format", form)
        site.batch("t", 30_000)
        rng = random.Random(number)
        literals: Literals = {**dict.fromkeys("AGIF", numbers), "T": ["'text 3'", "''", "'ä'"]}
        conditions = [
            random_condition(rng, literals, ["I = G", "F > I", "T LIKE 'text%'"])
            for _ in range(share_of(CONDITIONS, FEWEST))
        ]
        counts = same(site.root, SITE_TABLE, conditions, tmp_path)
        plain = open_table(site.root, SITE_TABLE).to_arrow(dictionaries=False)
        assert counts == [kept(plain, condition) for condition in conditions]
    text = site.file.read_text().replace('name="I"', 'name="J"').replace('columns="I"', 'columns="J"')
    site.write(text)
    site.deploy("--rename", "I=J")
    renamed = [
        condition.replace('"I"', '"J"').replace("I = G", "J = G").replace("F > I", "F > J") for condition in conditions
    ]
    assert same(site.root, SITE_TABLE, renamed, tmp_path) == counts


def scattered(root: Path) -> SmallTable:
    """60,000 rows of one location, of which every seventh is withdrawn."""
    small = SmallTable(root)
    small.add("a", DAY, {"Size": [*range(60_000)], "Sym": [f"s{n % 3}" for n in range(60_000)]})
    withdraw(small, [*range(0, 60_000, 7)], LocationKey("a", DAY))
    return small


def test_scattered_rows_are_read_in_batches(tmp_path: Path) -> None:
    """Half of the rows, ranges far apart, one row, none."""
    small = scattered(tmp_path / "db")
    conditions = ["Size % 2 = 0", "Size % 1000 < 3", "Size = 4097", "Size < 0", "Size >= 0", "Size // 4096 % 2 = 0"]
    left = [size for size in range(60_000) if size % 7]
    assert same(small.root, "NS.T", conditions, tmp_path, columns="Size") == [
        sum(size % 2 == 0 for size in left),
        sum(size % 1000 < 3 for size in left),
        1,
        0,
        len(left),
        sum(size // 4096 % 2 == 0 for size in left),
    ]
    half, one = (len(plan_of(options_of(small.root, "NS.T", where=where))) for where in (conditions[0], conditions[2]))
    assert half - one < 60_000 / 8 + 100, "a bit a row"


def test_a_value_that_spark_cannot_have_may_be_left_out(tmp_path: Path) -> None:
    xml = """<Table namespace="NS" name="T" storageType="NestedPartitionedOnDisk">
      <Partitions keyFormula="${autobalance_single}"/><Column name="Date" dataType="String" columnType="Partitioning"/>
      <Column name="N" dataType="int"/><Column name="C" dataType="char"/></Table>"""
    small = SmallTable(tmp_path / "db", xml)
    small.add("a", DAY, {"N": [*range(50)], "C": [0xD800 if n % 5 == 3 else 65 + n for n in range(50)]})
    assert same(small.root, "NS.T", ["N % 5 <> 3", "N % 5 = 0", "N < 3"], tmp_path) == [40, 10, 3]
    refused = options_of(small.root, "NS.T", where="N > 1")
    (java,), python = by_java([refused], tmp_path), by_python(refused)
    assert "half of a character" in java[0] and python[0].splitlines()[0] == java[0].splitlines()[0]


def test_statistics_spare_a_plan_the_reading_of_rows(tmp_path: Path) -> None:
    """Of dates that match as a whole nothing is evaluated; what would be too much is left to Python's tasks."""
    small = SmallTable(tmp_path / "db")
    for first in range(3):
        small.add("a", f"2026-11-2{first}", {"Size": [*range(100 * first, 100 * first + 100)]})
    for condition in ("Size < 250", f"Date = '{DAY}'", f"Date IN ('{DAY}') OR Size >= 100", "Size IS NOT NULL"):
        assert isinstance(plan_of(options_of(small.root, "NS.T", where=condition), most=100), bytes), condition
    reason = plan_of(options_of(small.root, "NS.T", where="Size % 2 = 0"), most=100)
    assert isinstance(reason, str)
    assert "300 rows" in reason and "100 at most" in reason
