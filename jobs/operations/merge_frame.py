"""``merge_frame``: the rows of a data frame as history of one or several dates.

Of a Spark frame each task writes files of its own; those of failed attempts are not named.
"""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import pyarrow as pa

from sparkhaven.jobs.operations.merging import MergeKeywords, merge_options
from sparkhaven.jobs.session.interpreter import refuse_remote, settle_interpreter
from sparkhaven.jobs.settings.keywords import Names, as_names, refuse_keywords
from sparkhaven.store.argument_types import checked
from sparkhaven.store.errors import CommitError, MergeError, SparkhavenError, as_storage_errors
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.io.local_path import local_path
from sparkhaven.store.layout import TableName
from sparkhaven.store.merges.merge_records import all_values
from sparkhaven.store.places import TablePlace, writable_layout
from sparkhaven.store.scan.selection import refuse_malformed
from sparkhaven.writers.foreign_values import AllowedConversions, lossy_columns
from sparkhaven.writers.merge.date_result import DateResult
from sparkhaven.writers.merge.executor import Executor, LocalExecutor, local_workers
from sparkhaven.writers.merge.plan.date_plan import merged_schema
from sparkhaven.writers.spark.spark_tasks import run_tasks, task_number
from sparkhaven.writers.spark.workers import check_workers
from sparkhaven.writers.transfer.date_import import DateImports, ImportOptions, Progress
from sparkhaven.writers.transfer.extended import follow
from sparkhaven.writers.transfer.frames import (
    FrameChoice,
    FrameRows,
    StagedShare,
    StagePlan,
    ignored_columns,
    run_reader,
    stage_rows,
)
from sparkhaven.writers.users.arrow_columns import arrow_stream

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

AGAIN = "rewrite=True replaces it. upsert=[columns] joins it: new rows replace those with equal keys"


class FrameMergeKeywords(MergeKeywords, total=False):
    """Those of a merge, and what is done with columns. ``ignore``: columns that the table lacks. ``lossy``: columns of
    floats and doubles that take the nearest value."""

    ignore: Names
    lossy: Names


@checked
def merge_frame(
    frame: Any,
    root: str | Path,
    table: str,
    dates: Names | None = None,
    *,
    dry_run: bool = False,
    on_progress: Callable[[str], None] = lambda _: None,
    **options: Unpack[FrameMergeKeywords],
) -> list[DateResult]:
    """Makes the rows of a frame the history of their dates, as a merge does.

    The frame has the columns of the table, found by name. A column that the table lacks is an error unless it is in
    ``ignore``. A value that its column does not hold exactly is an error.

    The partitioning column says the date of each row. ``dates`` then chooses some. Rows without that column are all of
    the one date that ``dates`` names. A date that history has is refused, with ``rewrite`` replaced, and with
    ``upsert`` joined: there new rows win. The same rows again change nothing. Rows that are intraday stay there. The
    next merge adds those not merged. A date that fails does not stop the others.

    Args:
        frame: A Spark frame, which is read by Spark's workers, a pyarrow Table, RecordBatch or RecordBatchReader, a
            data frame of pandas or polars, or any Arrow stream.
        root: The root of a database.
        table: The table, as ``NS.T``.
        dates: Dates, and ranges ``A..B``.
        dry_run: Only read the rows.
        on_progress: Called with texts that say how it goes on.
        **options: Those of ``FrameMergeKeywords``. ``sort``, ``dedupe``, ``keep``, ``order_by``, ``last_by``,
            ``upsert``, ``format``, ``memory`` and ``workers`` are options of ``sparkhaven merge``. ``allow_empty``: no
            error where there are no rows, or none of a date of ``dates``.

    Returns:
        A result for each date.

    Raises:
        SchemaMismatchError: A column or value does not fit.
        TableExistsError: History has a date.
        TableNotFoundError: There is no such table.
        LockLostError: A merge is running.

    Example:
        >>> rows = pa.table({"Sym": ["IBM"], "Size": [7], "Price": [1.5]})
        >>> [(date.date, date.rows_out) for date in sparkhaven.merge_frame(rows, root, "Equity.Trade", "2026-11-19")]
        [('2026-11-19', 1)]
    """
    refuse_keywords("merge_frame()", options, FrameMergeKeywords)
    place = TablePlace(Fs(), writable_layout(local_path(root)), TableName.parse(table))
    workers = options.get("workers")
    with as_storage_errors():
        schema = merged_schema(place)
        refuse_malformed(as_names(dates) or (), all_values(place), new=True)
        ignored = ignored_columns(as_names(options.get("ignore")) or (), schema)
        conversions = AllowedConversions(lossy_columns(schema, as_names(options.get("lossy")) or ()), ignored=ignored)
        merging = merge_options(schema, options)
        fields, run, name = _rows(place, frame, ignored)
        choice = FrameChoice(
            name,
            dates=as_names(dates),
            conversions=conversions,
            memory=merging.memory,
            allow_missing=merging.allow_empty,
        )
        rows = FrameRows(place, schema, fields, run, choice)
        with ExitStack() as opened:
            executor = _executor(opened, place, frame, workers)
            chosen = ImportOptions(merging.rewrite, merging, AGAIN)
            imports = DateImports(place, schema, chosen, executor, time.time, on_progress)
            results = list(imports.planned(rows) if dry_run else imports.locked(rows))
        if not dry_run:
            follow(place, on_progress)
    for result in results:
        if result.error is not None:
            raise result.error
    return results


def _rows(
    place: TablePlace, frame: Any, ignored: frozenset[str]
) -> tuple[pa.Schema, Callable[[StagePlan, Progress], Sequence[StagedShare]], str]:
    """The columns of a frame, what gives its rows, and what errors call it."""
    if not _is_spark(frame):
        reader = arrow_stream(frame)
        return reader.schema, run_reader(place.fs, reader), "the frame"
    from sparkhaven.readers.spark.spark_types import arrow_schema

    refuse_remote(frame.sparkSession)
    settle_interpreter(frame.sparkSession)
    read = frame.drop(*ignored)
    stages = run_frame_stages(place.fs, frame, place.layout.root, place.schema)
    return arrow_schema(read.schema), stages, "the Spark frame"


def _executor(opened: ExitStack, place: TablePlace, frame: Any, workers: int | None) -> Executor:
    """Where large dates are merged: in the session of a Spark frame, else in threads of this process."""
    if _is_spark(frame):
        from sparkhaven.writers.spark.workers import SparkExecutor

        return SparkExecutor(frame.sparkSession.sparkContext, place.layout.root, place.schema, workers)
    return opened.enter_context(LocalExecutor(workers or local_workers()))


def _is_spark(frame: Any) -> bool:
    return type(frame).__module__.partition(".")[0] == "pyspark" and hasattr(frame, "sparkSession")


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
