"""``merge_frame``: the rows of a data frame as history of one or several dates."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sparkhaven.ingest.settings.base_model import parse_size
from sparkhaven.jobs.session.interpreter import refuse_remote, settle_interpreter
from sparkhaven.store.errors import SettingsError
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.io.local_path import local_path
from sparkhaven.store.io.system_errors import as_storage_errors
from sparkhaven.store.layout import TableName
from sparkhaven.store.merges.merge_records import all_values
from sparkhaven.store.places import TablePlace, writable_layout
from sparkhaven.store.scan.selection import refuse_malformed
from sparkhaven.writers.foreign_values import AllowedConversions, lossy_columns
from sparkhaven.writers.merge.date_result import DateResult
from sparkhaven.writers.merge.executor import Executor, LocalExecutor, local_workers
from sparkhaven.writers.merge.plan.date_plan import merged_schema
from sparkhaven.writers.merge.plan.merge_plan import FORMATS, Format, MergeOptions, parse_dedupe
from sparkhaven.writers.merge.sources.sort_keys import parse_sort
from sparkhaven.writers.transfer.date_import import ImportOptions, Progress, import_dates
from sparkhaven.writers.transfer.extended import follow
from sparkhaven.writers.transfer.frames import (
    FrameChoice,
    FrameRows,
    StagedShare,
    StagePlan,
    ignored_columns,
    run_reader,
)
from sparkhaven.writers.users.arrow_columns import arrow_stream

if TYPE_CHECKING:
    import pyarrow as pa

Names = str | Iterable[str]
AGAIN = "rewrite=True replaces it. upsert=[columns] joins it: new rows replace those with equal keys"


def merge_frame(
    frame: Any,
    root: str | Path,
    table: str,
    dates: Names | None = None,
    *,
    format: Format | None = None,
    sort: Names | None = None,
    dedupe: Names | None = None,
    keep: str | None = None,
    order_by: str | None = None,
    last_by: Names | None = None,
    upsert: Names | None = None,
    rewrite: bool = False,
    ignore: Names = (),
    lossy: Names = (),
    allow_empty: bool = False,
    workers: int | None = None,
    memory: str = "1GiB",
    dry_run: bool = False,
    on_progress: Callable[[str], None] = lambda _: None,
) -> list[DateResult]:
    """Makes the rows of a frame the history of their dates, as a merge does; one result a date.

    ``frame``: a Spark frame, which is read by Spark's workers, a pyarrow Table, RecordBatch or RecordBatchReader, a
    data frame of pandas or polars, or any Arrow stream. It has the columns of the table, found by name. A column that
    the table lacks is an error unless it is in ``ignore``. A value that its column does not hold exactly is an error.
    Columns of floats and doubles in ``lossy`` take the nearest value.

    The partitioning column says the date of each row. ``dates`` then chooses some: values, and ranges ``A..B``. Rows
    without that column are all of the one date that ``dates`` names. ``format``, ``sort``, ``dedupe``, ``keep``,
    ``order_by``, ``last_by`` and ``upsert`` are those of ``sparkhaven merge``.

    A date that history has is refused, with ``rewrite`` replaced, and with ``upsert`` joined: there new rows win. The
    same rows again change nothing. Rows that are intraday stay there. The next merge adds those not merged.
    ``allow_empty``: no error where there are no rows, or none of a date of ``dates``. ``dry_run`` only reads the rows.

    A date that fails does not stop the others. Then the first error is raised, when all were tried. Before anything is
    published: SchemaMismatchError, TableExistsError, TableNotFoundError, SettingsError, LockLostError.
    """
    place = TablePlace(Fs(), writable_layout(local_path(root)), TableName.parse(table))
    with as_storage_errors():
        schema = merged_schema(place)
        refuse_malformed(_names(dates) or (), all_values(place), new=True)
        ignored = ignored_columns(_names(ignore) or (), schema)
        conversions = AllowedConversions(lossy_columns(schema, _names(lossy) or ()), ignored=ignored)
        options = MergeOptions(
            sort=parse_sort(_joined(sort), schema),
            dedupe=parse_dedupe(
                schema,
                dedupe=_joined(dedupe),
                keep=keep,
                last_by=_joined(last_by),
                upsert=_joined(upsert),
                order_by=order_by,
            ),
            memory=_bytes(memory),
            workers=workers or 1,
            format=_format(format),
        )
        fields, run, name = _rows(place, frame, ignored)
        choice = FrameChoice(
            name,
            dates=_names(dates),
            conversions=conversions,
            memory=options.memory,
            allow_missing=allow_empty,
        )
        rows = FrameRows(place, schema, fields, run, choice)
        with ExitStack() as opened:
            executor = _executor(opened, place, frame, workers)
            chosen = ImportOptions(rewrite, options, AGAIN)
            run_import = partial(import_dates, executor=executor, clock=time.time, on_progress=on_progress)
            results = list(run_import(place, schema, rows, chosen, dry_run=dry_run))
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
    from sparkhaven.jobs.dataframes.frame_stages import run_frame_stages
    from sparkhaven.readers.spark.spark_types import arrow_schema

    refuse_remote(frame.sparkSession)
    settle_interpreter(frame.sparkSession)
    read = frame.drop(*ignored)
    stages = run_frame_stages(place.fs, frame, place.layout.root, place.schema)
    return arrow_schema(read.schema), stages, "the Spark frame"


def _executor(opened: ExitStack, place: TablePlace, frame: Any, workers: int | None) -> Executor:
    """Where large dates are merged: in the session of a Spark frame, else in threads of this process."""
    if _is_spark(frame):
        from sparkhaven.writers.spark.merge_executor import SparkExecutor

        return SparkExecutor(frame.sparkSession.sparkContext, place.layout.root, place.schema, workers)
    return opened.enter_context(LocalExecutor(workers or local_workers()))


def _is_spark(frame: Any) -> bool:
    return type(frame).__module__.partition(".")[0] == "pyspark" and hasattr(frame, "sparkSession")


def _names(given: Names | None) -> tuple[str, ...] | None:
    return None if given is None else (given,) if isinstance(given, str) else tuple(given)


def _joined(given: Names | None) -> str | None:
    return given if given is None or isinstance(given, str) else ",".join(given) or "none"


def _bytes(text: str) -> int:
    try:
        return parse_size(text)
    except ValueError:
        raise SettingsError("memory is not an amount of memory", expected='text like "1GiB"', found=text) from None


def _format(word: str | None) -> Format | None:
    for format_ in FORMATS:
        if word == format_:
            return format_
    if word is None:
        return None
    raise SettingsError("unknown format", expected=", ".join(FORMATS), found=repr(word))
