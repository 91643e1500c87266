"""What goes wrong in Spark: our error comes first and is found again; tables of Spark's catalog. Real Spark."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

import sparkhaven
from sparkhaven import errors
from sparkhaven.store.layout import Layout, LocationKey, TableName
from sparkhaven.testing import make_table

pytestmark = pytest.mark.spark

DAY = "2026-11-20"
RULES = {"stream": "x", "internal": '{"fixed": "a"}', "value": f'{{"fixed": "{DAY}"}}'}
Caught = tuple[errors.SparkhavenError, str]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    where = tmp_path_factory.mktemp("errors") / "db"
    for name in ("T", "Broken", "From"):
        make_table(where, f"NS.{name}", {"N": [1, 2, 3]}, date=DAY)
    directory = Layout(where).intraday_location(TableName("NS", "Broken"), LocationKey("0", DAY))
    (directory / "N.dat").write_bytes(b"x")
    return where


def load(spark: SparkSession, root: Path, name: str = "NS.T", **options: str) -> DataFrame:
    return spark.read.format("deephaven").option("root", str(root)).options(**options).load(name)


def follow(spark: SparkSession, root: Path, name: str = "NS.T", **options: str) -> DataFrame:
    return spark.readStream.format("deephaven").option("root", str(root)).options(**options).load(name)


def save(frame: DataFrame, root: Path, **options: str) -> None:
    given = {"root": str(root), **RULES, **options}
    frame.write.format("deephaven").mode("append").options(**given).save("NS.T")


def waited(query: StreamingQuery) -> None:
    query.awaitTermination(120)


def caught(call: Callable[[], Any]) -> Caught:
    """The error of ours that a call ends with, and the text that Spark shows."""
    with pytest.raises(Exception) as raised:
        call()
    found = errors.from_spark(raised.value)
    assert found is not None, str(raised.value)
    return found, str(raised.value)


def test_our_error_comes_first_and_is_found_again(spark: SparkSession, root: Path, tmp_path: Path) -> None:
    def numbers() -> DataFrame:
        return spark.range(3).withColumnRenamed("id", "N")

    def sink(frame: DataFrame, **options: str) -> Callable[[], None]:
        given = {"root": str(root), **RULES, "checkpointLocation": str(tmp_path / "sink"), **options}
        writing = frame.writeStream.format("deephaven").options(**given).trigger(availableNow=True)
        return lambda: waited(writing.start("NS.T"))

    calls: dict[str, tuple[Callable[[], Any], type[errors.SparkhavenError], str]] = {
        "an option of load": (lambda: load(spark, root, tiers="all"), errors.SettingsError, "unknown option 'tiers'"),
        "no table": (lambda: load(spark, root, "NS.No"), errors.TableNotFoundError, "NS.No"),
        "an expression": (lambda: load(spark, root, where="M > 1").count(), errors.SchemaParseError, "M"),
        "the plan": (lambda: load(spark, root, dates="2020-01-01").count(), errors.TableNotFoundError, "partition"),
        "a task": (lambda: load(spark, root, "NS.Broken").collect(), errors.CorruptFileError, "N.dat"),
        "a batch of a stream": (
            lambda: waited(
                follow(spark, root, start='{"test": 9}').writeStream.format("noop").trigger(availableNow=True).start()
            ),
            errors.SparkhavenError,
            "not in its log",
        ),
        "an option of save": (lambda: save(numbers(), root, value=""), errors.SettingsError, "'value' is empty"),
        "the columns of save": (lambda: save(spark.range(3), root), errors.SchemaMismatchError, "lacks N"),
        "a row of save": (
            lambda: save(numbers().selectExpr("-9223372036854775807 - 1 N"), root),
            errors.ErrorBudgetExceeded,
            "Nothing of this batch was committed",
        ),
        "an option of a sink": (sink(follow(spark, root, "NS.From"), lable="a"), errors.SettingsError, "label"),
        "the columns of a sink": (sink(follow(spark, root, "NS.From")), errors.SchemaMismatchError, "has Date too"),
    }  # fmt: skip
    for name, (call, kind, words) in calls.items():
        found, text = caught(call)
        assert isinstance(found, kind), name
        assert words in str(found), name
        shown = text.replace("org.apache.spark.api.python.PythonException: ", "")
        before = shown[: shown.index(found.what)]
        assert "Traceback" not in before and 'File "' not in before, (name, text)
    assert spark.conf.get("spark.sql.execution.pyspark.udf.hideTraceback.enabled") == "false"


def test_an_error_of_a_foreach_batch_is_found_again(spark: SparkSession, root: Path, tmp_path: Path) -> None:
    rule: dict[str, Any] = {"internal": {"fixed": "b"}, "value": {"fixed": DAY}}
    with sparkhaven.deephaven_writer(root, "NS.T", "y", **rule) as writer:
        writing = follow(spark, root, "NS.From").writeStream.foreachBatch(writer).trigger(availableNow=True)
        found, _ = caught(lambda: waited(writing.option("checkpointLocation", str(tmp_path / "c")).start()))
    assert isinstance(found, errors.SchemaMismatchError) and found.found == "has Date too"
    with pytest.raises(ZeroDivisionError) as other:
        _ = 1 / 0
    assert errors.from_spark(other.value) is None


def test_tables_of_sparks_catalog_name_what_to_do(spark: SparkSession, root: Path, tmp_path: Path) -> None:
    options = f"options (root '{root}', path 'NS.T')"
    for statement in (
        f"create table t using deephaven {options}",
        f"create table if not exists t using deephaven {options} comment 'mine'",
        f"create table t using deephaven options (root '{root}') location 'NS.T'",
        f"create table t using deephaven tblproperties (root = '{root}', path = 'NS.T')",
        f"create or replace table t using deephaven {options}",
    ):
        found, text = caught(lambda statement=statement: spark.sql(statement))
        assert "CREATE TEMPORARY VIEW v USING deephaven OPTIONS (root '/data/db', path 'NS.T')" in str(found), text
        assert 'df.write.format("deephaven").mode("append")' in str(found)
    found, _ = caught(lambda: spark.catalog.createTable("t", source="deephaven", root=str(root), path="NS.T"))
    assert "CREATE TEMPORARY VIEW" in str(found)
    stream = follow(spark, root).selectExpr("N").writeStream.format("deephaven").trigger(availableNow=True)
    given = {"root": str(root), **RULES, "checkpointLocation": str(tmp_path / "c")}
    found, _ = caught(lambda: waited(stream.options(**given).toTable("t")))
    assert "the write names no table" in str(found) and "tables of Spark's catalog keep no options" in str(found)
    spark.sql("drop table if exists t")
    assert not spark.catalog.tableExists("t")


def test_a_temporary_view_is_what_it_says_and_takes_no_rows(spark: SparkSession, root: Path) -> None:
    options = f"using deephaven options (root '{root}', path 'NS.T', columns 'N')"
    spark.sql(f"create or replace temporary view v {options}")
    spark.sql(f"create or replace global temporary view g {options}")
    before = load(spark, root).count()
    for name in ("v", "global_temp.g"):
        assert [spark.table(name).where("N > 2").count(), spark.table(name).count()] == [1, before]
        assert spark.sql(f"select count(*) from {name} where N < 3").first()[0] == before - 1
        assert spark.read.table(name).count() == before
    assert spark.catalog.tableExists("v") and [column.name for column in spark.catalog.listColumns("v")] == ["N"]
    spark.catalog.cacheTable("v")
    assert [spark.table("v").where("N > 2").count(), spark.table("v").count()] == [1, before]
    spark.catalog.uncacheTable("v")
    make_table(root, "NS.T", {"N": [4]}, source="1")
    spark.catalog.refreshTable("v")
    assert spark.table("v").count() == before  # the snapshot of CREATE VIEW
    spark.sql(f"create or replace temporary view v {options}")
    assert spark.table("v").count() == before + 1

    numbers = spark.range(3).withColumnRenamed("id", "N")
    for call in (
        lambda: spark.sql("insert into v select 9L"),
        lambda: numbers.write.insertInto("v"),
        lambda: numbers.writeTo("v").append(),
    ):
        found, _ = caught(call)
        assert found.hint and "INSERT INTO, insertInto and writeTo pass no options of a write" in found.hint
        assert '.mode("append").options(...).save("NS.T")' in found.hint
    found, _ = caught(lambda: spark.sql("insert overwrite v select 9L"))
    assert found.expected == 'mode("append")'
    follow(spark, root).createOrReplaceTempView("s")
    query = spark.table("s").where("N > 2").writeStream.format("memory").queryName("of_view").trigger(availableNow=True)
    waited(query.start())
    assert spark.table("of_view").count() == 2
    save(numbers, root)
    assert load(spark, root).count() == before + 4


def test_an_empty_frame_takes_no_label(spark: SparkSession, tmp_path: Path) -> None:
    at = datetime(2026, 11, 20, 12, tzinfo=UTC)
    make_table(tmp_path, "NS.T", {"N": [1], "At": [at]})
    rows = load(spark, tmp_path).drop("Date")
    rule: dict[str, Any] = {"internal": {"fixed": "b"}, "value": {"fixed": DAY}}
    for frame, expected in ((rows.where("N > 5"), 1), (rows, 2), (rows, 2)):
        save(frame, tmp_path, label="day")
        assert load(spark, tmp_path).count() == expected
    outcomes = [
        sparkhaven.write_frame(frame, tmp_path, "NS.T", "y", label="night", **rule)
        for frame in (rows.where("N > 5"), rows.limit(0), rows, rows)
    ]
    assert [(done.epoch, done.rows, done.replayed) for done in outcomes] == [
        (None, 0, 0),
        (None, 0, 0),
        (1, 1, 0),
        (None, 0, 1),
    ]
    found, _ = caught(lambda: save(rows.where("N > 5"), tmp_path, label="day"))
    assert isinstance(found, errors.PositionGapError) and found.what == "other rows were written under this label"
