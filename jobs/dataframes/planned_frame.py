"""Data frames whose rows Spark's JVM reads by itself, from a plan that this program makes."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from sparkhaven.readers.arrow.opening import open_place
from sparkhaven.readers.arrow.table import pinned_of
from sparkhaven.readers.spark.jvm.plan_file import write_plan
from sparkhaven.readers.spark.jvm.planning import make_plan, refused, why_python
from sparkhaven.readers.spark.options import read_options
from sparkhaven.store.errors import SparkhavenError
from sparkhaven.store.gc_pause import gc_paused

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SOURCE = "io.sparkhaven.spark.PlanSource"


def planned_frame(spark: SparkSession, given: Mapping[str, str], reason: str | None) -> DataFrame | None:
    """The data frame of these options of a read; None: Python's source has to read it.

    ``reason``: why Java cannot read in this session, None where it can. A table that cannot be planned is left to
    Python's source, which raises its errors as Spark's. SettingsError: the option ``reader`` asks for Java, which
    cannot read this.
    """
    if given["reader"] == "jvm" and reason is not None:
        raise refused(reason)
    plan = plan_of(given) if reason is None else reason
    if isinstance(plan, str):
        return None
    directory = Path(tempfile.mkdtemp(prefix="sparkhaven-plan-"))
    path = directory / "plan"
    try:
        write_plan(path, plan)
        return spark.read.format(SOURCE).option("plan", str(path)).load()
    finally:
        path.unlink(missing_ok=True)
        directory.rmdir()


def plan_of(given: Mapping[str, str]) -> bytes | str:
    """The plan, or the reason why Python reads."""
    try:
        options = read_options(given, os.environ, stream=False)
        reason = why_python(options)
        if reason is not None and options.reader != "jvm":
            return reason
        table = open_place(
            options.place,
            epoch=options.epoch,
            as_of=options.as_of,
            checksum_verify=options.checksum_verify,
            null_char=options.null_char,
            skip_set_aside=options.skip_set_aside,
        )
    except SparkhavenError as error:
        return error.what
    with gc_paused():
        return make_plan(pinned_of(table), options)
