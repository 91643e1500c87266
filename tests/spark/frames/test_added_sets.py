"""Rows of before a column of sets have the empty set, which has no null: in every reader, before and after a merge."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import sparkhaven
from sparkhaven.readers.live.live_table import LiveTable
from sparkhaven.store.layout import Layout, TableName
from sparkhaven.store.places import TablePlace
from sparkhaven.testing import make_table
from sparkhaven.writers.partitions import add_partition
from tests.support.commands import run
from tests.support.spark.readers import reader_of
from tests.support.writers.merge_runs import FS

pytestmark = pytest.mark.spark

NAME, OLD, NEW = "NS.T", "2026-11-20", "2026-11-21"
SCHEMA = """<Table namespace="NS" name="T" storageType="NestedPartitionedOnDisk">
  <Partitions keyFormula="${autobalance_single}"/>
  <Column name="Date" dataType="String" columnType="Partitioning"/>
  <Column name="N" dataType="long"/>
</Table>
"""
WIDER = SCHEMA.replace("</Table>", '  <Column name="Tags" dataType="StringSet"/>\n</Table>')
SHOWN = [(1, []), (2, []), (3, ["a"]), (4, [])]
MERGES = {
    "intraday": [],
    "added to column files": [("deephaven", OLD)],
    "added to a Parquet file": [("parquet", OLD)],
    "written anew": [("deephaven", OLD), ("deephaven", NEW)],
}


@pytest.fixture(scope="module", params=MERGES)
def root(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The first date was written before there was the column."""
    root = tmp_path_factory.mktemp("sets") / "db"
    make_table(root, NAME, {"N": [1, 2]}, date=OLD, schema=SCHEMA.encode())
    add_partition(FS, Layout(root), "NS", "0")
    first = MERGES[request.param][:1] if request.param.startswith("added") else []
    for form, date in first:
        merge(root, form, date)
    rows = pa.table({"N": [3, 4], "Tags": pa.array([["a"], None], pa.list_(pa.string()))})
    make_table(root, NAME, rows, date=NEW, schema=WIDER.encode())
    for form, date in MERGES[request.param][len(first) :]:
        merge(root, form, date)
    return root


def merge(root: Path, form: str, date: str) -> None:
    done = run(root, "merge", NAME, "--dates", date, "--local", "--format", form)
    assert done.exit_code == 0, done.output


def test_arrow_sql_and_an_engine(root: Path) -> None:
    for _ in range(2):
        opened = sparkhaven.open_table(root, NAME)
        found = opened.to_arrow(["N", "Tags"])
        assert sorted(zip(*found.to_pydict().values(), strict=True)) == SHOWN
        assert [opened.count(where=f"Tags is {word}") for word in ("null", "not null")] == [0, 4]
    counted = sparkhaven.sql(root, f"select count(*), count(Tags), sum(len(Tags)) from {NAME}").to_pydict()
    assert [values[0] for values in counted.values()] == [4, 4, 1]
    live = LiveTable(TablePlace(FS, Layout(root), TableName.parse(NAME)))
    served = [live.values(at, "Tags", 0, size, size).to_pylist() for at in live.places() if (size := live.size(at))]
    assert sorted(tags for part in served for tags in part) == [[], [], [], ["a"]]


@pytest.mark.parametrize("reader", ["jvm", "python"])
def test_frames(spark: SparkSession, root: Path, reader: str) -> None:
    with reader_of(spark, "auto"):
        sparkhaven.register(spark)
        frame = spark.read.format("deephaven").option("root", str(root)).option("reader", reader).load(NAME)
        assert sorted((row.N, row.Tags) for row in frame.select("N", "Tags").collect()) == SHOWN
        assert [frame.where(f"Tags is {word}").count() for word in ("null", "not null")] == [0, 4]
        assert frame.selectExpr("count(Tags)", "sum(size(Tags))").collect()[0][:] == (4, 1)
