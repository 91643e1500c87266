"""A Spark frame as the rows of a merge: each task writes files of its own; those of failed attempts are not named."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from sparkhaven.store.errors import CommitError, MergeError, SparkhavenError
from sparkhaven.store.io.fs import Fs
from sparkhaven.writers.spark.spark_tasks import run_tasks, task_number
from sparkhaven.writers.spark.workers import check_workers
from sparkhaven.writers.transfer.date_import import Progress
from sparkhaven.writers.transfer.frames import StagedShare, StagePlan, stage_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def run_frame_stages(
    fs: Fs, frame: DataFrame, root: Path, marker: Path
) -> Callable[[StagePlan, Progress], list[StagedShare]]:
    """What gives the rows of a frame to tasks, a partition to each; ``marker``: a file of ``root`` that workers see.

    An error of a task comes unchanged. MergeError: Spark could not run the tasks.
    """

    def run(plan: StagePlan, on_progress: Progress) -> list[StagedShare]:
        check_workers(frame.sparkSession.sparkContext, root, marker)
        on_progress("Spark reads the frame")
        rows = frame.select(*(f"`{name.replace('`', '``')}`" for name in plan.columns))
        try:
            results = run_tasks(rows, partial(stage_task, fs, plan), "result binary")
        except CommitError as error:
            raise MergeError(
                "Spark could not read the frame",
                where=plan.name,
                found=error.found,
                hint="correct the cause, then run this again. Nothing was merged",
                phase="stage",
            ) from error
        return _shares([pickle.loads(row.result) for row in results])  # noqa: S301 our own tasks have written it

    return run


def stage_task(fs: Fs, plan: StagePlan, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The function of ``mapInArrow``: rows in, one row with the pickled result, or error, out."""
    task, attempt = task_number()
    result: StagedShare | SparkhavenError | OSError
    try:
        result = stage_rows(fs, plan, task, str(attempt), batches)
    except (SparkhavenError, OSError) as error:
        result = error
    yield pa.RecordBatch.from_pydict({"result": pa.array([pickle.dumps(result)], pa.binary())})


def _shares(results: Sequence[StagedShare | SparkhavenError | OSError]) -> list[StagedShare]:
    for result in results:
        if not isinstance(result, StagedShare):
            raise result
    return [result for result in results if isinstance(result, StagedShare)]
