"""Spark reads exported trees of every layout, and a tree that Spark has written is imported, in one session."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from sparkhaven.readers import open_table
from sparkhaven.store.format.parquet.trees import LAYOUTS
from sparkhaven.testing import assert_table_equal
from sparkhaven.writers.partitions import add_partition
from tests.support.writers import odd_values
from tests.support.writers.export_cases import export, found, two_days, wanted
from tests.support.writers.import_cases import bring, empty, small
from tests.support.writers.merge_cases import ARROW, TABLE
from tests.support.writers.merge_runs import FS

pytestmark = pytest.mark.spark
NEEDED = {
    "spark.sql.legacy.parquet.nanosAsLong": "true",  # Spark has no timestamps of nanoseconds
    "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
}


def test_spark_reads_every_layout_and_its_own_tree_is_imported(tmp_path: Path, spark: SparkSession) -> None:
    spark = spark.newSession()  # whose settings are its own
    for name, value in NEEDED.items():
        spark.conf.set(name, value)
    db, rows = two_days(tmp_path / "db")
    for layout in ("nested", "flat", "kv", "metadata", "hive"):
        out = tmp_path / layout
        export(db.root, out, layout=layout)
        if layout == "nested":
            frame = spark.read.parquet(f"{out}/*/*/{TABLE.table}/table.parquet")
            frame = frame.withColumn("Date", f.element_at(f.split(f.input_file_name(), "/"), -3))
        else:
            frame = spark.read.parquet(str(out))
        table = frame.select("Date", *ARROW).toArrow()
        assert found(table) == wanted(rows), layout
    for number, kind in enumerate(("INT96", "TIMESTAMP_MICROS")):
        spark.conf.set("spark.sql.parquet.outputTimestampType", kind)
        tree = tmp_path / kind
        query = "select concat('d:', id % 2) Date, concat('s', id % 3) Sym, timestamp_micros(1700000000000000 + id) X"
        spark.sql(f"{query} from range(20)").write.partitionBy("Date").parquet(str(tree))
        layout_ = small(tmp_path / f"db{number}", "Instant")
        assert [(each.value, each.given[0]) for each in bring(layout_, tree)] == [("d:0", 10), ("d:1", 10)]
        read = open_table(layout_.root, "NS.T").to_arrow(["X"])["X"].cast(pa.int64()).to_pylist()
        assert sorted(read) == [(1_700_000_000_000_000 + i) * 1000 for i in range(20)]


def test_a_tree_in_the_calendar_of_spark_2_is_imported_as_spark_reads_it(tmp_path: Path, spark: SparkSession) -> None:
    spark = spark.newSession()
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    for name in ("datetimeRebaseModeInWrite", "int96RebaseModeInWrite"):
        spark.conf.set(f"spark.sql.parquet.{name}", "LEGACY")
    days = ["0001-01-01", "0004-02-29", "1000-03-01", "1500-02-28", "1582-10-04", "1582-10-15", "1970-01-01"]
    query = f"select 'd' Date, 'a' Sym, explode(array({', '.join(map(repr, days))})) Text"
    for number, kind in enumerate(("INT96", "TIMESTAMP_MICROS")):
        spark.conf.set("spark.sql.parquet.outputTimestampType", kind)
        tree = tmp_path / kind
        spark.sql(f"select Date, Sym, cast(Text as date) X from ({query})").write.partitionBy("Date").parquet(str(tree))
        layout = small(tmp_path / f"days{number}", "LocalDate")
        bring(layout, tree)
        read = open_table(layout.root, "NS.T").to_arrow(["X"])["X"]
        assert sorted(map(str, read.to_pylist())) == days
        assert sorted(str(row.X) for row in spark.read.parquet(str(tree)).select("X").collect()) == days
        tree, early = tmp_path / f"{kind}-instants", "timestamp'1700-03-01 10:00:00'"
        spark.sql(f"select 'd' Date, 'a' Sym, {early} X").write.partitionBy("Date").parquet(str(tree))
        layout = small(tmp_path / f"instants{number}", "Instant")
        bring(layout, tree)
        (instant,) = open_table(layout.root, "NS.T").to_arrow(["X"])["X"].cast(pa.timestamp("us")).to_pylist()
        assert str(instant) == "1700-03-01 10:00:00"


def test_a_tree_that_spark_partitions_by_several_columns(tmp_path: Path, spark: SparkSession) -> None:
    layout = empty(
        tmp_path / "db",
        b"""<Table namespace="NS" name="T" storageType="NestedPartitionedOnDisk">
        <Partitions keyFormula="${autobalance_single}"/>
        <Column name="Date" dataType="String" columnType="Partitioning"/>
        <Column name="Sym" dataType="String"/><Column name="K" dataType="int"/>
        <Column name="Day" dataType="LocalDate"/><Column name="N" dataType="long"/></Table>""",
    )
    add_partition(FS, layout, "NS", "0")
    rows = spark.sql(
        "select if(id < 9, '2026-01-01', '2026:01') Date, case id % 4 when 0 then null when 1 then 'a/b=c' when 2 then"
        " 'é%20' else ' x' end Sym, if(id % 3 = 0, null, int(id % 3)) K, date_add(date'2026-01-01', int(id % 2)) Day,"
        " id N from range(20)"
    )
    rows.write.partitionBy("Sym", "Date", "K", "Day").parquet(str(tmp_path / "tree"))
    assert sum(each.given[0] for each in bring(layout, tmp_path / "tree")) == 20
    read = open_table(layout.root, "NS.T").to_arrow(["Date", "Sym", "K", "Day", "N"], dictionaries=False).to_pylist()
    assert sorted(map(repr, read)) == sorted(repr(row.asDict()) for row in rows.collect())
    assert_table_equal(spark, layout.root, "NS.T", rows)


def test_spark_reads_odd_partition_values_as_they_are(tmp_path: Path, spark: SparkSession) -> None:
    spark = spark.newSession()
    spark.conf.set("spark.sql.sources.partitionColumnTypeInference.enabled", "false")
    root = odd_values.make(tmp_path / "db", odd_values.ODD)
    for layout in LAYOUTS:
        out = odd_values.export(root, tmp_path / layout, layout)
        if layout == "nested":  # a pattern that matches a name with a colon is too much for Hadoop
            files = spark.read.option("recursiveFileLookup", "true").parquet(f"file:{out}")
            found_rows = files.select(f.input_file_name(), "X").collect()
            rows = [(unquote(file).split("/")[-3], x) for file, x in found_rows]
        else:
            rows = [(date, x) for date, x in spark.read.parquet(f"file:{out}").select("Date", "X").collect()]
        assert sorted(rows) == sorted((value, value) for value in odd_values.ODD), layout
