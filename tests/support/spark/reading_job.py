"""A program that reads a table in every way that a session of a cluster has: ``reading_job.py ROOT TABLE SCRATCH``.

It is submitted, with the packages that the cluster has, and knows the public API only. It prints a line of JSON: who
has read in each way and what, how many tasks each executor had, and the errors of executors that do not see the files.
``TABLE`` has the columns ``N`` and ``Sym``.
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

import sparkhaven

Way = Callable[[SparkSession], DataFrame]


def reader_of(frame: DataFrame) -> str:
    """Who reads the table of a query, from its plan: Python's source is named by the format, Java's by the table."""
    return "Python" if "] deephaven" in frame._jdf.queryExecution().optimizedPlan().toString() else "Java"


def asked(frame: DataFrame) -> list[Any]:
    """Who reads, and sums of ``N`` by ``Sym``."""
    rows = frame.groupBy("Sym").agg(f.sum("N")).orderBy("Sym").collect()
    return [reader_of(frame), [[row[0], row[1]] for row in rows]]


def in_foreach_batch(spark: SparkSession, way: Way, scratch: Path) -> list[Any]:
    """What a batch of a streaming query reads in its own session."""
    seen: list[list[Any]] = []
    (scratch / "feed").mkdir(parents=True)
    (scratch / "feed" / "one.json").write_text('{"id": 1}\n')
    stream = spark.readStream.schema("id long").json(f"file:{scratch}/feed").writeStream.trigger(availableNow=True)
    query = stream.foreachBatch(lambda batch, number: seen.append(asked(way(batch.sparkSession))))
    query.option("checkpointLocation", f"file:{scratch}/checkpoint").start().awaitTermination()
    return seen[0]


def in_threads(calls: list[Callable[[], list[Any]]]) -> list[list[Any]]:
    """What each of them returns; all run at once."""
    found: list[list[Any]] = [[] for _ in calls]

    def run(number: int) -> None:
        found[number] = calls[number]()

    threads = [threading.Thread(target=run, args=(number,)) for number in range(len(calls))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def error_of(frame: DataFrame) -> list[str]:
    """The error of a query: its class, and what is wrong."""
    try:
        frame.groupBy("Sym").agg(f.sum("N")).collect()
    except Exception as raised:
        error = sparkhaven.errors.from_spark(raised)
        return [type(error).__name__, error.what if error is not None else str(raised)]
    return ["none", ""]


def main(root: Path, table: str, scratch: Path) -> None:
    spark = SparkSession.builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")

    def by_call(session: SparkSession) -> DataFrame:
        return sparkhaven.read_frame(session, root, table)

    def by_format(session: SparkSession) -> DataFrame:
        sparkhaven.register(session)
        return session.read.format("deephaven").option("root", str(root)).load(table)

    found = {"foreachBatch": in_foreach_batch(spark, by_call, scratch)}  # nobody has registered yet
    sessions = {"first": spark, "new": spark.newSession()}
    ways = {"read_frame": by_call, "format": by_format}
    names = [f"{way}, {session} session, thread" for session in sessions for way in ways]
    calls = [lambda w=way, s=session: asked(w(s)) for session in sessions.values() for way in ways.values()]
    found |= dict(zip(names, in_threads(calls), strict=True))
    executors = spark._jsc.sc().statusStore().executorList(True)
    tasks = {executors.apply(n).id(): executors.apply(n).totalTasks() for n in range(executors.size())}
    frames = {name: sparkhaven.read_frame(spark, root, table, reader=name) for name in ("auto", "python")}
    root.rename(root.with_name("elsewhere"))
    errors = {name: error_of(frame) for name, frame in frames.items()}
    print(json.dumps({"found": found, "tasks": tasks, "errors": errors}))
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3]))
