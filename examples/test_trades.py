"""How to test a Spark job over tables: small tables from rows, and data frames compared by chispa.

``spark`` is a fixture of pytest that gives a SparkSession, as your own ``conftest.py`` has one.
"""

from pathlib import Path

from chispa import assert_df_equality
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

import sparkhaven
from sparkhaven.testing import assert_table_equal, make_table

TRADES = {"Sym": ["AAPL", "IBM", "AAPL"], "Price": [268.5, 307.25, 268.75], "Size": [100, 50, 300]}


def turnover(trades: DataFrame) -> DataFrame:
    """The job that is tested: the money that was turned over, a row a symbol."""
    return trades.groupBy("Sym").agg(f.sum(trades.Price * trades.Size).alias("Turnover"))


def test_turnover(spark: SparkSession, tmp_path: Path) -> None:
    make_table(tmp_path, "Equity.Trade", TRADES, date="2026-11-20")
    expected = spark.createDataFrame([("AAPL", 107475.0), ("IBM", 15362.5)], "Sym string, Turnover double")
    trades = sparkhaven.read_frame(spark, tmp_path, "Equity.Trade")
    assert_df_equality(turnover(trades), expected, ignore_row_order=True, ignore_nullable=True)


def test_a_job_that_writes(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.createDataFrame([("AAPL", 268.5), ("IBM", None)], "Sym string, Price double")
    make_table(tmp_path, "Equity.Trade", {"Sym": ["MSFT"], "Price": [478.0]})
    internal, date = {"fixed": "job"}, {"fixed": "2026-11-20"}
    sparkhaven.write_frame(frame, tmp_path, "Equity.Trade", "job", internal=internal, value=date)
    assert_table_equal(spark, tmp_path, "Equity.Trade", frame, dates="2026-11-20")
