"""A streaming job over the test feed: ``python -m tests.support.spark.stream_job FEED ROOT [PER_BATCH]``."""

from __future__ import annotations

import os
import socket
import sys
import threading
import time
import traceback
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from sparkhaven.jobs.session.spark_jar import SETTING
from sparkhaven.jobs.session.spark_session import build_session
from sparkhaven.readers.spark.options import DEFAULT_READER
from sparkhaven.store.epochs.state.commit_policy import CommitPolicy
from sparkhaven.store.errors import SettingsError
from sparkhaven.store.io.fs import Fs
from sparkhaven.writers.batch.stream_batches import BatchProgress, FeedTables, StreamPlan, StreamTotals
from sparkhaven.writers.spark.stream_query import run_stream_of_tables, stream_conf
from tests.support.spark.delta_conf import delta_conf
from tests.support.spark.feed_source import FeedSource
from tests.support.spark.forked_python import PYTHON, start_server
from tests.support.streams.stream_kit import decode, open_log, target_of

# a query of a test runs once or twice: less than compiling code for it takes, or planning it anew amid its stages
QUICK = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
}
READER = "SPARKHAVEN_TEST_READER"  # who reads batches in tests that do not choose: `make test-python-reader`


def session(*, delta: bool = True) -> SparkSession:
    """A session with the settings of streams; a worker needs our packages and these tests.

    With Delta where its jars can be had: the first session of a process decides for all, since they share one JVM.
    """
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    start_server()  # before the JVM, which gives its environment to its Python
    extra = stream_conf()
    if delta:
        with suppress(SettingsError):
            extra |= delta_conf(Fs())
    reader = {SETTING: os.environ.get(READER, DEFAULT_READER)}
    spark = build_session("stream-test", workers=2, extra=extra | QUICK | reader)
    spark.sparkContext.pythonExec = str(PYTHON)
    spark.dataSource.register(FeedSource)
    return spark


def run(
    spark: SparkSession,
    feed: Path,
    root: Path,
    *,
    per_batch: int = 2,
    tasks: int = 2,
    stop: threading.Event | None = None,
    settings: dict[str, Any] | None = None,
    **plan: Any,
) -> StreamTotals:
    """Takes what is in the feed, and ends."""
    fs = Fs()
    options = {"feed": feed, "root": root, "per_batch": per_batch, "tasks": tasks}
    values: dict[str, Any] = {"query_id": "test", "trigger": {"availableNow": True}, "decode": decode}
    with open_log(fs, root, clock=time.time, pid=os.getpid(), host=socket.gethostname(), **(settings or {})) as log:
        source = spark.readStream.format("test_feed").options(**options).load()
        target = replace(target_of(root, log), policy=CommitPolicy((settings or {}).get("durability", "fsync")))
        stop = stop or threading.Event()
        fed = FeedTables.one(log, target, StreamPlan(**(values | plan)))
        return run_stream_of_tables(spark, source, fs, fed, stop=stop)[0]


def _tell(progress: BatchProgress) -> None:
    print(f"epoch {progress.epoch} rows {progress.outcome.rows} seconds {progress.seconds:.3f}", flush=True)


if __name__ == "__main__":
    spark = session(delta=False)
    print("session", flush=True)
    per_batch = int(sys.argv[3]) if len(sys.argv) > 3 else 2
    code = 0
    try:
        totals = run(spark, Path(sys.argv[1]), Path(sys.argv[2]), per_batch=per_batch, progress=_tell)
        print(f"done rows {totals.rows} epochs {totals.epochs}", flush=True)
    except BaseException:
        traceback.print_exc(file=sys.stdout)
        sys.stdout.flush()
        code = 1
    os._exit(code)  # the JVM ends with its parent; a tidy stop takes seconds
