"""Every cell of the table of conversions that takes a Spark type, through ``df.write``. Real Spark."""

from __future__ import annotations

import math
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession, functions
from pyspark.sql.types import StructType

import sparkhaven
from sparkhaven.readers import open_table
from sparkhaven.store.conversions.conversion_table import COLUMNS, PARTITION, rule, spark_source
from sparkhaven.store.errors import ErrorBudgetExceeded, SchemaMismatchError
from tests.support.ingest.conversions.values import BAD, DECIMALS, EDGES, FLOATS, TEXTS, expected

pytestmark = pytest.mark.spark
EVERY = [column for column in COLUMNS if column != PARTITION]


def _whole(bits: int) -> list[int]:
    edges = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1)
    return [*edges, *(value for value in EDGES if edges[0] < value < edges[1])]


VALUES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "boolean": (pa.bool_(), [True, False]),
    "tinyint": (pa.int8(), _whole(8)),
    "smallint": (pa.int16(), _whole(16)),
    "int": (pa.int32(), _whole(32)),
    "bigint": (pa.int64(), _whole(64)),
    "float": (pa.float32(), [0.5, -0.0, 2.0**-149, 16_777_216.0, math.nan, math.inf]),
    "double": (pa.float64(), FLOATS),
    "decimal(38,2)": (pa.decimal128(38, 2), [Decimal(text) for text in DECIMALS]),
    "string": (pa.string(), TEXTS),
    "void": (pa.null(), [None]),
}
ROUTE = {"internal": '{"fixed": "0"}', "value": '{"fixed": "2026-11-20"}'}


def _cells(lossy: bool) -> dict[str, tuple[str, str, list[Any], list[Any]]]:
    """By name: Spark's type, that of the column, the values that it takes, and what is stored of them."""
    given = frozenset({"lossy"} if lossy else ())
    cells = {}
    for spark, (kind, values) in VALUES.items():
        for column in EVERY:
            if (column == "Instant" and spark == "bigint") or not rule(spark_source(spark), column).takes():
                continue
            pairs = [(value, expected(value, kind, column, given)) for value in values]
            good = [(value, made) for value, made in pairs if made is not BAD]
            name = f"{spark.partition('(')[0]}_{column}"
            cells[name] = (spark, column, [value for value, _ in good], [made for _, made in good])
    return cells


def _schema(place: Path, columns: dict[str, str]) -> Path:
    lines = "".join(f'<Column name="{name}" dataType="{kind}"/>' for name, kind in columns.items())
    path = place / "F.T.schema"
    path.write_text(
        '<Table namespace="F" name="T" storageType="NestedPartitionedOnDisk">'
        f'<Column name="Date" dataType="String" columnType="Partitioning"/>{lines}</Table>'
    )
    return path


def _frame(spark: SparkSession, columns: dict[str, tuple[str, list[Any]]]) -> DataFrame:
    """A frame with a number ``n`` for each row, and null where a column has fewer values."""
    most = max(len(values) for _, values in columns.values())
    typed = {name: kind for name, (kind, _) in columns.items() if kind != "void"}
    ddl = ", ".join(["n bigint", *(f"{name} {kind}" for name, kind in typed.items())])
    rows = [(n, *(columns[name][1][n] if n < len(columns[name][1]) else None for name in typed)) for n in range(most)]
    frame = spark.createDataFrame(rows, StructType.fromDDL(ddl))
    return frame.select("*", *(functions.lit(None).alias(name) for name in columns if name not in typed))


def _same(found: Any, wanted: Any) -> bool:
    if isinstance(wanted, float) and math.isnan(wanted):
        return isinstance(found, float) and math.isnan(found)
    return type(found) is type(wanted) and found == wanted


@pytest.mark.parametrize("lossy", [False, True])
def test_each_cell_stores_what_it_takes(spark: SparkSession, tmp_path: Path, lossy: bool) -> None:
    cells = _cells(lossy)
    schema = _schema(tmp_path, {"n": "long"} | {name: column for name, (_, column, _, _) in cells.items()})
    frame = _frame(spark, {name: (kind, values) for name, (kind, _, values, _) in cells.items()})
    options = {"root": str(tmp_path / "db"), "schema": str(schema), "stream": "s", **ROUTE}
    options |= {"lossy": "true"} if lossy else {}
    frame.write.format("deephaven").mode("append").options(**options).save("F.T")
    table = open_table(tmp_path / "db", "F.T").to_arrow().sort_by("n")
    for name, (_, column, _, wanted) in cells.items():
        array = table[name].cast(pa.int64()) if column == "Instant" else table[name]
        found = array.to_pylist()
        assert all(map(_same, found, wanted)), name
        assert found[len(wanted) :] == [None] * (len(found) - len(wanted))


REFUSED: list[tuple[str, Any, str]] = [
    ("double", 0.1, "float"),
    ("bigint", 2**53 + 1, "double"),
    ("int", 2**24 + 1, "float"),
    ("double", 3.5, "int"),
    ("decimal(9,2)", Decimal("0.10"), "double"),
]
FIXED: dict[str, Any] = {"internal": {"fixed": "0"}, "value": {"fixed": "2026-11-20"}}


def test_what_a_column_does_not_hold_exactly_commits_nothing(spark: SparkSession, tmp_path: Path) -> None:
    for number, (kind, value, column) in enumerate(REFUSED):
        place = tmp_path / str(number)
        place.mkdir()
        frame, where = _frame(spark, {"v": (kind, [value])}), _schema(place, {"n": "long", "v": column})
        with pytest.raises(ErrorBudgetExceeded, match="more bad rows"):
            sparkhaven.write_frame(frame, place / "db", "F.T", "s", schema=where, **FIXED)
        if column != "int":
            sparkhaven.write_frame(frame, place / "db", "F.T", "s", schema=where, lossy=["v"], **FIXED)
            wanted = expected(value, _kind(kind), column, frozenset({"lossy"}))
            assert open_table(place / "db", "F.T").to_arrow()["v"].to_pylist() == [wanted]


def _kind(spark: str) -> pa.DataType:
    return pa.decimal128(9, 2) if spark.startswith("decimal") else VALUES[spark][0]


NEEDS = ["timestamp_ntz", "date", "binary", "array<int>", "interval day"]


@pytest.mark.parametrize("kind", NEEDS)
def test_types_that_need_an_option_are_refused_before_a_task(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    frame = spark.sql(f"select 1L n, cast(null as {kind}) v")
    schema = _schema(tmp_path, {"n": "long", "v": "Instant" if kind in ("timestamp_ntz", "date") else "String"})
    options = {"root": str(tmp_path / "db"), "schema": str(schema), "stream": "s", **ROUTE}
    with pytest.raises(PySparkException, match="cannot be stored as"):
        frame.write.format("deephaven").mode("append").options(**options).save("F.T")


def test_a_column_twice_is_refused_by_name(spark: SparkSession, tmp_path: Path) -> None:
    frame, schema = spark.sql("select 1L n, 2L n"), _schema(tmp_path, {"n": "long"})
    with pytest.raises(SchemaMismatchError, match="a column twice"):
        sparkhaven.write_frame(frame, tmp_path / "db", "F.T", "s", schema=schema, **FIXED)
