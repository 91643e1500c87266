"""What a user does with one release of Spark, run by the Python of its environment; it knows the public API only.

    python walk.py BASE BOOTSTRAP

prints a line of JSON for each step: its name, and ``ok`` or the first line of the error. The line of ``READER`` has who
reads tables where a session does not choose. ``BASE`` has ``files.toml``,
``kafka.toml`` and ``again.toml``; their feeds give ``GOOD`` rows and one bad row each.
"""

from __future__ import annotations

import json
import subprocess
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

GOOD = 300
TABLE = "Test.Tick"
READER = "reader"  # no step: who reads tables
COLUMNS = "Source string, Id bigint, Text string"


def command(base: Path, *words: str) -> dict[str, Any]:
    """The last result of a command; RuntimeError: its error in one line."""
    done = subprocess.run(
        [sys.executable, "-m", "sparkhaven", "--root", str(base / "db"), *words, "--json"],
        capture_output=True,
        text=True,
        timeout=300,
    )
    lines = done.stdout.splitlines()
    found: dict[str, Any] = json.loads(lines[-1]) if lines else {}
    if done.returncode:
        raise RuntimeError(found.get("error", {}).get("what") or (done.stderr.strip().splitlines() or ["no word"])[-1])
    return found


def ingest(base: Path, stream: str, *words: str) -> None:
    """All rows of a feed, and one bad row."""
    found = command(base, "ingest", str(base / f"{stream}.toml"), "--once", *words)
    rows = found["rows"], found["rejected"]
    assert rows == (GOOD, 1), f"{rows} rows and bad rows instead of {(GOOD, 1)}"


def merge(base: Path) -> None:
    """Two sources of a date into history, as Spark tasks."""
    command(base, "merge", TABLE, "--dates", "2026-01-02", "--spark")


def read_twice(spark: Any, base: Path) -> None:
    """One frame, asked twice; prints who reads where nobody chooses."""
    frame = spark.read.format("deephaven").option("root", str(base / "db")).load(TABLE)
    print(json.dumps({"step": READER, "found": reader_of(frame)}), flush=True)
    counts = [frame.filter("Id < 10").count(), frame.count()]
    assert counts == [3 * 10, 3 * GOOD], f"rows {counts}"


def reader_of(frame: Any) -> str:
    """Who reads the table of a query, from its plan: Python's source is named by the format, Java's by the table."""
    plan: str = frame._jdf.queryExecution().optimizedPlan().toString()
    return "Python" if "] deephaven" in plan else "Java"


def read_by(spark: Any, base: Path, reader: str) -> None:
    """One source alone: a frame, and a view, each asked twice."""
    given = {"root": str(base / "db"), "path": TABLE, "reader": reader}
    options = ", ".join(f"{name} '{value}'" for name, value in given.items())
    spark.sql(f"create or replace temporary view ticks using deephaven options ({options})")
    for frame in (spark.read.format("deephaven").options(**given).load(), spark.table("ticks")):
        assert reader_of(frame) == {"jvm": "Java", "python": "Python"}[reader], f"read by {reader_of(frame)}"
        totals = [tuple(frame.selectExpr("count(*)", "sum(Id)", "min(Text)").collect()[0]) for _ in range(2)]
        assert totals == 2 * [(3 * GOOD, 3 * sum(range(GOOD)), "t0")], f"totals {totals}"


def call_python(spark: Any, base: Path) -> None:
    """Functions of Python over what is read: on values, on Arrow arrays, on batches."""
    from pyspark.sql.functions import pandas_udf, udf

    spark.conf.set("spark.sql.execution.arrow.pythonUDF.columnarInput.enabled", "true")
    frame = spark.read.format("deephaven").option("root", str(base / "db")).load(TABLE)
    functions = udf(lambda number: number + 1, "long"), pandas_udf(lambda numbers: numbers + 1, "long")
    for function in functions:
        total = frame.select(function("Id").alias("Next")).agg({"Next": "sum"}).collect()[0][0]
        assert total == 3 * sum(range(GOOD + 1)), f"total {total}"
    rows = frame.select("Id").mapInArrow(lambda batches: batches, "Id long").count()
    assert rows == 3 * GOOD, f"rows {rows}"


def write(spark: Any, base: Path) -> None:
    """A frame, twice under one label."""
    frame = spark.createDataFrame([("w", 1, "x")], COLUMNS)
    given = {
        "root": str(base / "db"),
        "stream": "w",
        "internal": "Source",
        "value": '{"fixed": "2026-01-03"}',
        "label": "one",
    }
    for _ in range(2):
        frame.write.format("deephaven").options(**given).mode("append").save(TABLE)
    frame = spark.read.format("deephaven").option("root", str(base / "db")).option("dates", "2026-01-03").load(TABLE)
    assert frame.count() == 1


def read_stream(spark: Any, base: Path) -> None:
    """All rows of a table, as a stream."""
    seen: list[int] = []
    rows = spark.readStream.format("deephaven").option("root", str(base / "db")).load(TABLE)
    query = rows.writeStream.foreachBatch(lambda batch, number: seen.append(batch.count())).trigger(availableNow=True)
    query.option("checkpointLocation", str(base / "checkpoint-read")).start().awaitTermination()
    assert sum(seen) == 3 * GOOD + 1, f"rows {seen}"


def write_stream(spark: Any, base: Path) -> None:
    """A streaming query that writes a table."""
    given = {"root": str(base / "db"), "stream": "q", "internal": "Source", "value": '{"fixed": "2026-01-05"}'}
    rows = spark.readStream.schema(COLUMNS).json(str(base / "query"))
    query = rows.writeStream.format("deephaven").options(**given).trigger(availableNow=True)
    query.option("checkpointLocation", str(base / "checkpoint-write")).start("Test.Copy").awaitTermination()
    assert spark.read.format("deephaven").option("root", str(base / "db")).load("Test.Copy").count() == GOOD


def foreach_batch(spark: Any, base: Path) -> None:
    """The same by ``foreachBatch``, with a bad row."""
    import sparkhaven

    budget = {"max_rows": 1, "max_fraction": 1.0}
    writer = sparkhaven.deephaven_writer(
        str(base / "db"), "Test.Each", "f", internal="Source", value={"fixed": "2026-01-05"}, bad_rows=budget
    )
    rows = (
        spark.readStream.schema(COLUMNS)
        .json(str(base / "query"))
        .selectExpr("Source", "if(Id = 5, -9223372036854775808, Id) Id", "Text")
    )
    query = rows.writeStream.foreachBatch(writer).trigger(availableNow=True)
    query.option("checkpointLocation", str(base / "checkpoint-each")).start().awaitTermination()
    writer.close()
    assert spark.read.format("deephaven").option("root", str(base / "db")).load("Test.Each").count() == GOOD - 1


def main(base: Path) -> None:
    """Every step, each whatever became of those before it."""
    from pyspark.sql import SparkSession

    import sparkhaven

    def try_(name: str, step: Callable[[], None]) -> None:
        try:
            step()
            found = "ok"
        except Exception as error:
            traceback.print_exc()
            own = sparkhaven.errors.from_spark(error)
            found = str(own or error or type(error).__name__).strip().splitlines()[0]
        print(json.dumps({"step": name, "found": found}), flush=True)

    try_("ingest files, one process", lambda: ingest(base, "files", "--local"))
    try_("ingest files, Spark", lambda: ingest(base, "again", "--spark"))
    try_("ingest Kafka, Spark", lambda: ingest(base, "kafka", "--spark"))
    try_("merge, Spark", lambda: merge(base))
    conf = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    conf = conf.config("spark.sparkhaven.reader", "auto")
    try_("session", lambda: conf.config("spark.driver.host", "127.0.0.1").getOrCreate())
    spark = SparkSession.getActiveSession()
    if spark is None:
        return
    spark.sparkContext.setLogLevel("OFF")
    try_("register", lambda: sparkhaven.register(spark))
    try_("read", lambda: read_twice(spark, base))
    try_("read, Java", lambda: read_by(spark, base, "jvm"))
    try_("read, Python", lambda: read_by(spark, base, "python"))
    try_("Python functions", lambda: call_python(spark, base))
    try_("write", lambda: write(spark, base))
    try_("readStream", lambda: read_stream(spark, base))
    try_("writeStream", lambda: write_stream(spark, base))
    try_("foreachBatch", lambda: foreach_batch(spark, base))
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
