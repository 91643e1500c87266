"""Trees with directories of several columns: the values that paths name are rows' values, exactly or not at all."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sparkhaven.readers import open_table
from sparkhaven.store.format.parquet.trees import HIVE_NULL
from sparkhaven.writers.partitions import add_partition
from tests.support.commands import run
from tests.support.writers.import_cases import bring, empty
from tests.support.writers.merge_runs import FS

TABLE = """<Table namespace="NS" name="T" storageType="NestedPartitionedOnDisk">
  <Partitions keyFormula="${{autobalance_single}}"/>
  <Column name="Date" dataType="String" columnType="Partitioning"/>
  <Column name="C" dataType="{}"/><Column name="N" dataType="long"/></Table>"""
DECIMAL = 'BigDecimal" objectCodec="io.deephaven.util.codec.BigDecimalCodec" objectCodecArguments="9,2'
TAKEN: dict[str, tuple[str, list[tuple[str, Any]]]] = {
    "String": ("String", [("a:b/c", "a:b/c"), ("é x", "é x"), ("%", "%"), ("=", "="), ("null", "null")]),
    "long": ("long", [("-9223372036854775807", -(2**63) + 1), ("07", 7)]),
    "byte": ("byte", [("-127", -127), ("127", 127)]),
    "double": ("double", [("0.1", 0.1), ("-1e300", -1e300), ("Infinity", float("inf"))]),
    "float": ("float", [("0.5", 0.5)]),
    "Boolean": ("Boolean", [("true", True), ("False", False)]),
    "char": ("char", [("x", 120)]),
    "Instant": ("Instant", [("2026-01-02T03:04:05.000000006Z", 1_767_323_045_000_000_006)]),
    "LocalDate": ("LocalDate", [("2026-01-02", "2026-01-02")]),
    "BigDecimal": (DECIMAL, [("-12.50", "-12.50"), ("7", "7.00")]),
}
REFUSED: dict[str, tuple[str, str]] = {
    "no number": ("long", "x"),
    "beyond a long": ("long", "9223372036854775808"),
    "the null of a long": ("long", "-9223372036854775808"),
    "beyond a byte": ("byte", "128"),
    "a fraction": ("int", "1.0"),
    "no number with a point": ("double", "1,5"),
    "no truth": ("Boolean", "1"),
    "no zone": ("Instant", "2026-01-02 03:04:05"),
    "no day": ("LocalDate", "2026-02-30"),
    "digits behind the point": (DECIMAL, "1.234"),
    "two characters": ("char", "xy"),
    "an array": ("long[]", "[1]"),
}


def put(path: Path, *numbers: int, **more: list[Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"N": pa.array(numbers, pa.int64()), **more}), path)


def made(tmp_path: Path, kind: str) -> tuple[Any, Path]:
    layout = empty(tmp_path / "db", TABLE.format(kind).encode())
    add_partition(FS, layout, "NS", "0")
    return layout, tmp_path / "tree"


@pytest.mark.parametrize("name", TAKEN)
@pytest.mark.parametrize("order", ["below", "above"])
def test_values_of_each_type(tmp_path: Path, name: str, order: str) -> None:
    kind, values = TAKEN[name]
    layout, tree = made(tmp_path, kind)
    for number, (text, _) in enumerate([*values, (HIVE_NULL, None)]):
        parts = [f"Date=2026-01-0{number % 2 + 1}", f"C={quote(text, safe='')}"]
        put(tree.joinpath(*(parts if order == "below" else parts[::-1]), "a.parquet"), number)
    results = bring(layout, tree)
    assert sum(each.given[0] for each in results) == len(values) + 1
    table = open_table(layout.root, "NS.T").to_arrow(["C", "N"], dictionaries=False)
    column = table["C"]
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.int64())
    elif not (pa.types.is_string(column.type) or pa.types.is_floating(column.type) or pa.types.is_boolean(column.type)):
        column = column if pa.types.is_integer(column.type) else column.cast(pa.string())
    found = dict(zip(table["N"].to_pylist(), column.to_pylist(), strict=True))
    assert [found[number] for number in range(len(values) + 1)] == [*(value for _, value in values), None]


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_no_value_of_the_column(tmp_path: Path, case: str) -> None:
    kind, text = REFUSED[case]
    layout, tree = made(tmp_path, kind)
    put(tree / "Date=d" / f"C={quote(text, safe='')}" / "a.parquet", 1)
    found = run(layout.root, "import", "NS.T", "--from", str(tree))
    assert found.exit_code == 2 and str(tree / "Date=d") in found.stderr, found.stderr
    assert "expected: " in found.stderr and "to do: " in found.stderr
    assert open_table(layout.root, "NS.T").count() == 0


def test_levels_that_differ_or_that_files_have_too(tmp_path: Path) -> None:
    layout, tree = made(tmp_path, "String")
    put(tree / "Date=d" / "C=x" / "a.parquet", 1)
    put(tree / "Date=e" / "a.parquet", 1, C=["y"])
    found = run(layout.root, "import", "NS.T", "--from", str(tree))
    assert found.exit_code == 1 and "as of Date=d/C=x/a.parquet" in found.stderr and "Date=e" in found.stderr
    (tree / "Date=e" / "a.parquet").unlink()
    put(tree / "Date=e" / "C=x" / "a.parquet", 1, C=["y"])
    found = run(layout.root, "import", "NS.T", "--from", str(tree))
    assert found.exit_code == 2 and "has a column that its directories give too" in found.stderr
    put(tree / "Date=e" / "C=x" / "a.parquet", 1)
    put(tree / "Date=e" / "b.parquet", 1)
    assert run(layout.root, "import", "NS.T", "--from", str(tree)).exit_code == 1


def test_the_date_of_several_keys_beside_a_column(tmp_path: Path) -> None:
    layout, tree = made(tmp_path, "String")
    put(tree / "year=2026" / "C=x" / "month=3" / "a.parquet", 1, 2)
    done = run(layout.root, "import", "NS.T", "--from", str(tree), "--value", "{year}-{month:02}")
    assert done.exit_code == 0, done.stderr
    rows = open_table(layout.root, "NS.T").to_arrow(["Date", "C", "N"], dictionaries=False).to_pylist()
    assert sorted(rows, key=lambda row: row["N"]) == [{"Date": "2026-03", "C": "x", "N": n} for n in (1, 2)]


def test_raw_values_are_names_as_they_are(tmp_path: Path) -> None:
    layout, tree = made(tmp_path, "String")
    put(tree / "Date=d" / "C=a%3Ab" / "a.parquet", 1)
    assert run(layout.root, "import", "NS.T", "--from", str(tree), "--raw-values").exit_code == 0
    assert open_table(layout.root, "NS.T").to_arrow(["C"], dictionaries=False)["C"].to_pylist() == ["a%3Ab"]
