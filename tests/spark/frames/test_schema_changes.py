"""Schemas that change under Spark: what a data frame shows after each change, and what a write refuses. Real Spark."""

from __future__ import annotations

from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout
from sparkhaven.store.schema.deployed.deploy import deploy
from sparkhaven.store.schema.deployed.history import Version, decode_history, encode_history
from sparkhaven.store.schema.deployed.schema_changes import Consent

pytestmark = pytest.mark.spark

COLUMNS = {"A": "long", "B": "String", "C": "double"}


def schema(columns: dict[str, str]) -> bytes:
    head = '<Table namespace="NS" name="T" storageType="NestedPartitionedOnDisk">'
    head += '<Column name="Date" dataType="String" columnType="Partitioning"/>'
    return (head + "".join(f'<Column name="{n}" dataType="{t}"/>' for n, t in columns.items()) + "</Table>").encode()


def write(spark: SparkSession, root: Path, file: Path, row: dict[str, object], stream: str = "s") -> None:
    row = {**row, "Source": "0", "Day": "2026-11-20T08:00:00Z"}
    frame = spark.createDataFrame([tuple(row.values())], list(row))
    options = {"root": str(root), "schema": str(file), "stream": stream, "internal": "Source", "value": "Day"}
    frame.write.format("deephaven").mode("append").options(**options).save("NS.T")


def read(spark: SparkSession, root: Path, **options: str) -> DataFrame:
    return spark.read.format("deephaven").option("root", str(root)).options(**options).load("NS.T")


def test_a_frame_shows_each_change_and_a_stale_schema_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    root, file = tmp_path / "db", tmp_path / "NS.T.schema"
    file.write_bytes(schema(COLUMNS))
    write(spark, root, file, {"A": 1, "B": "x", "C": 0.5})
    layout = Layout(root)

    renamed = {"A": "long", "N": "String", "C": "double"}
    deploy(Fs(), layout, schema(renamed), consent=Consent(rename=(("B", "N"),)))
    with pytest.raises(Exception, match="drops or changes columns") as caught:  # the file has the old name
        write(spark, root, file, {"A": 9, "B": "stale", "C": 9.5})
    assert "version 1, an older one" in str(caught.value)
    file.write_bytes(schema(renamed))
    write(spark, root, file, {"A": 2, "N": "y", "C": 1.5})
    frame = read(spark, root)
    assert frame.columns == ["Date", "A", "N", "C"]
    assert [tuple(row) for row in frame.select("A", "N").sort("A").collect()] == [(1, "x"), (2, "y")]
    assert [row.A for row in frame.where(f.col("N") == "x").collect()] == [1]
    assert read(spark, root, where="N = 'y'").count() == 1

    dropped = {"A": "long", "C": "double"}
    deploy(Fs(), layout, schema(dropped), consent=Consent(drop=("N",)))
    assert read(spark, root).columns == ["Date", "A", "C"] and read(spark, root).count() == 2
    named = read(spark, root, columns="A,N").sort("A").collect()
    assert [tuple(row) for row in named] == [(1, "x"), (2, "y")]
    assert [row.A for row in read(spark, root, columns="A", where="N = 'x'").collect()] == [1]

    deploy(Fs(), layout, schema({**renamed, "D": "long"}), consent=Consent(restore=2))
    back = read(spark, root).sort("A").collect()
    assert [(row.A, row.N, row.D) for row in back] == [(1, "x", None), (2, "y", None)]


def test_a_table_with_columns_that_differ_in_case_only_is_read_by_choice(spark: SparkSession, tmp_path: Path) -> None:
    root, file = tmp_path / "db", tmp_path / "NS.T.schema"
    file.write_bytes(schema({"p": "double", "Q": "double"}))
    write(spark, root, file, {"p": 1.5, "Q": 0.02})
    history = Layout(root).schemas() / "NS.T.history.json"
    as_by_an_earlier_release(history, file, root)
    with pytest.raises(AnalysisException, match="Spark cannot tell two columns"):
        read(spark, root)
    assert [tuple(row) for row in read(spark, root, columns="P").collect()] == [(0.02,)]


def as_by_an_earlier_release(history: Path, file: Path, root: Path) -> None:
    """``Q`` becomes ``P``, by a rename that no release allows now."""
    text = schema({"p": "double", "P": "double"})
    (first,) = decode_history(history.read_bytes(), history)
    columns = tuple(replace(c, name="P") if c.name == "Q" else c for c in first.columns)
    history.write_bytes(encode_history([first, Version(2, sha256(text).hexdigest(), columns)]))
    (root / "Schemas" / "NS.T.schema").write_bytes(text)
