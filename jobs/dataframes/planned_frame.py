"""Data frames whose rows Spark's JVM reads by itself, from a plan that this program makes."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sparkhaven.readers.arrow.opening import open_place
from sparkhaven.readers.arrow.table import pinned_of
from sparkhaven.readers.spark.batch import shown_columns
from sparkhaven.readers.spark.jvm.plan_file import encode_plan, write_plan
from sparkhaven.readers.spark.jvm.reader_choice import why_python, why_python_reads
from sparkhaven.readers.spark.options import read_options
from sparkhaven.store.errors import SparkhavenError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SOURCE = "io.sparkhaven.spark.PlanSource"


def planned_frame(spark: SparkSession, given: Mapping[str, str]) -> DataFrame | None:
    """The data frame of these options of a read; None: Python's source has to read it.

    A table that cannot be planned is left to that source too, which raises its errors as Spark's.
    """
    if not knows_source(spark):
        return None
    try:
        plan = plan_of(given)
    except SparkhavenError:
        return None
    if plan is None:
        return None
    directory = Path(tempfile.mkdtemp(prefix="sparkhaven-plan-"))
    path = directory / "plan"
    try:
        write_plan(path, plan)
        return spark.read.format(SOURCE).option("plan", str(path)).load()
    finally:
        path.unlink(missing_ok=True)
        directory.rmdir()


def knows_source(spark: SparkSession) -> bool:
    """Whether the session's JVM has the classes of the source, in this process's program."""
    context: Any = getattr(spark, "_sc", None)
    if context is None or context._jvm is None:  # Spark Connect
        return False
    loader = context._jvm.java.lang.Thread.currentThread().getContextClassLoader()
    return loader is not None and loader.getResource(SOURCE.replace(".", "/") + ".class") is not None


def plan_of(given: Mapping[str, str]) -> bytes | None:
    """The file of a plan for these options of a read; None: Python's source has to read it."""
    options = read_options(given, os.environ, stream=False)
    if why_python(options) is not None:
        return None
    table = pinned_of(
        open_place(
            options.place,
            epoch=options.epoch,
            as_of=options.as_of,
            checksum_verify=options.checksum_verify,
            null_char=options.null_char,
            skip_set_aside=options.skip_set_aside,
        )
    )
    columns = shown_columns(table, options)
    slices = table.plan(dates=options.dates, sources=options.sources, tier=options.tier).slices
    if why_python_reads(table, slices, columns) is not None:
        return None
    return encode_plan(table, slices, columns, options)
