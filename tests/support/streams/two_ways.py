"""The feed of ``stream_kit`` ingested in this process, or with several tasks a batch and a checkpoint as Spark does."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from itertools import groupby
from operator import itemgetter
from pathlib import Path

from sparkhaven.ingest.feeds.base import Source
from sparkhaven.ingest.feeds.spark_planning import AvailableNow
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout
from sparkhaven.writers.batch.stream_batches import (
    BatchProgress,
    FeedTables,
    StreamPlan,
    begin_run,
    file_of,
    run_local_tables,
)
from tests.support.spark.feed_source import FeedSource
from tests.support.streams.stream_kit import STREAM, TABLE, decode, ingest, open_log, put_file, record, target_of

Way = Callable[[Fs, Path, Path], list[int]]
"""Ingests what a feed has into a root; the number of rows of each batch."""
FILES = 5


def write_feed(feed: Path, files: range = range(FILES)) -> list[int]:
    """Files whose rows go to two locations; two files are a batch. The numbers of all rows."""
    for number in files:
        rows = [record(4 * number + n, "ab"[n % 2]) for n in range(4)]
        put_file(feed, f"{number}.json", rows, 1000 + number)
    return [*range(4 * files.start, 4 * files.stop)]


def planner(feed: Path, root: Path, tasks: int = 1) -> AvailableNow:
    """Two files a batch."""
    options = {"feed": str(feed), "root": str(root), "per_batch": "2", "tasks": str(tasks)}
    return AvailableNow(Source(FeedSource, options))


def here(fs: Fs, feed: Path, root: Path) -> list[int]:
    """In this process."""
    rows: list[int] = []

    def note(progress: BatchProgress) -> None:
        rows.append(progress.outcome.rows)

    log = open_log(fs, root)
    try:
        plan = StreamPlan("query", {}, decode, progress=note)
        run_local_tables(
            planner(feed, root), fs, FeedTables.one(log, target_of(root, log), plan), stop=threading.Event()
        )
    except BaseException:
        log.abandon()
        raise
    log.close()
    return rows


def as_spark(fs: Fs, feed: Path, root: Path) -> list[int]:
    """With two tasks a batch, the second one first, each twice, and with entries of a checkpoint around it."""
    rows: list[int] = []
    log = open_log(fs, root)
    try:
        begin_run(fs, log, target_of(root, log), StreamPlan("query", {}, decode))
        checkpoint = Layout(root).spark_checkpoint(TABLE, STREAM)
        fs.remove_tree(checkpoint)
        planned = planner(feed, root, tasks=2)
        number = 0
        while batch := planned.plan():
            _entry(checkpoint / "offsets", number, json.dumps({"n": number + 1}))
            groups = [[file_of(row) for row in run] for _, run in groupby(batch, itemgetter("task"))]
            outcome = ingest(fs, root, log, groups, number, order=range(len(groups))[::-1], attempts=2)
            rows.append(outcome.rows)
            _entry(checkpoint / "commits", number, "{}")
            number += 1
    except BaseException:
        log.abandon()
        raise
    log.close()
    return rows


WAYS: dict[str, Way] = {"here": here, "as-spark": as_spark}


def _entry(directory: Path, number: int, text: str) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    (directory / str(number)).write_text(f"v1\n{{}}\n{text}")
