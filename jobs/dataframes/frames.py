"""Registers the data source, and reads a table as a data frame in one call.

Where Java reads, this program makes the plan, and Spark's JVM reads the rows by itself.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict, Unpack

from sparkhaven.jobs.dataframes.source import DeephavenSource
from sparkhaven.jobs.session.interpreter import is_remote, settle_interpreter
from sparkhaven.jobs.session.spark_jar import place_jar, reader_setting
from sparkhaven.jobs.settings.keywords import refuse_keywords
from sparkhaven.readers.spark.jvm.plan_file import PLAN, make_plan, refused, why_python, write_plan
from sparkhaven.readers.spark.options import option_text, read_options
from sparkhaven.store.argument_types import checked
from sparkhaven.store.errors import SparkhavenError
from sparkhaven.store.gc_pause import gc_paused

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@checked
def register(spark: SparkSession) -> None:
    """Makes ``format("deephaven")`` known to a session.

    Where sparkhaven is installed on driver and workers, Spark finds the format without this call. A local session then
    runs this program's Python for the source, unless PYSPARK_PYTHON or ``spark.pyspark.python`` names another.
    SettingsError: that one cannot read tables.

    The setting ``spark.sparkhaven.reader`` of the session says who reads batches: ``auto`` (default), ``python`` or
    ``jvm``. With ``auto`` it is Java where the jar of this package can be loaded and reads the same, else Python. A
    line in the log then says why. ``jvm`` is an error where Java cannot read. So is the option ``reader`` of a read.
    """
    settle_interpreter(spark)
    register_source(spark)
    place_jar(spark, reader_setting(spark))


class ReadKeywords(TypedDict, total=False):
    """What a frame shows, and how. ``instant``: ``timestamp`` (microseconds, refused if a value has nanoseconds),
    ``timestamp-truncate``, or ``long`` (bigint of nanoseconds since the epoch). ``char``: ``string`` or ``int``.
    ``reader``: ``auto``, ``jvm`` or ``python``, see ``register``. The others are those of ``Table.snapshot`` and
    ``Snapshot.to_arrow``."""

    columns: Iterable[str] | str | None
    where: str | None
    tier: str
    epoch: int | Mapping[str, int] | None
    as_of: datetime | str | None
    dates: str | Iterable[str] | None
    sources: str | Iterable[str] | None
    instant: str
    char: str
    reader: str | None


@checked
def read_frame(spark: SparkSession, root: str | Path, name: str, **options: Unpack[ReadKeywords]) -> DataFrame:
    """The table ``NS.T`` below a root as a data frame: the snapshot of now, or of ``epoch`` or ``as_of``.

    All queries on the frame see that one snapshot. Call again for a newer one. Each query reads what the arguments
    name, whatever it selects or filters. So name the ``columns`` that are needed: the others are neither read nor sent.
    ``where`` is a condition in SQL. It skips dates and row ranges by their statistics, and rows where they are read.

    Errors come as Spark's, with ours in their text, when the frame is made or read.
    """
    refuse_keywords("read_frame()", options, ReadKeywords)
    epoch, as_of = options.get("epoch"), options.get("as_of")
    reader = options.get("reader") or reader_setting(spark)
    settle_interpreter(spark)
    reason = place_jar(spark, reader)
    values = {
        "root": str(root),
        **{name: options.get(name) for name in ("columns", "where", "dates", "sources")},
        "epoch": dict(epoch) if isinstance(epoch, Mapping) else epoch,
        "asOf": as_of.isoformat() if isinstance(as_of, datetime) else as_of,
        "tier": options.get("tier", "all"),
        "instant": options.get("instant", "timestamp"),
        "char": options.get("char", "string"),
        "reader": reader,
    }
    texts = {option: option_text(value) for option, value in values.items() if value is not None}
    planned = planned_frame(spark, {**texts, "path": name}, reason)
    if planned is not None:
        return planned
    register_source(spark)
    return spark.read.format(DeephavenSource.name()).options(**texts).load(name)


SOURCE = "io.sparkhaven.spark.DeephavenSource"


def planned_frame(spark: SparkSession, given: Mapping[str, str], reason: str | None) -> DataFrame | None:
    """The data frame of these options of a read, or None where Python's source has to read it.

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
        return spark.read.format(SOURCE).option(PLAN, str(path)).load()
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
        table = options.pinned()
    except SparkhavenError as error:
        return error.what
    with gc_paused():
        return make_plan(table, options)


_NAME_IS_TAKEN = "DATA_SOURCE_ALREADY_EXISTS"
_IN_JAVA = "org.apache.spark.sql.execution.datasources.v2.python.UserDefinedPythonDataSource"


def register_source(spark: SparkSession) -> None:
    """Makes Python's source known to a session.

    Spark takes no source of a name that it finds by itself. It may have found Python's, in the installed package. Or
    it has found Java's, in a jar: that one asks Python's, which is then given to the session without this check.
    """
    from pyspark.errors import AnalysisException

    try:
        spark.dataSource.register(DeephavenSource)
    except AnalysisException as error:
        if error.getCondition() != _NAME_IS_TAKEN:
            raise
        if not is_remote(spark):
            _register_beside_java(spark)


def _register_beside_java(spark: SparkSession) -> None:
    from pyspark.sql.udf import _wrap_function

    name, context = DeephavenSource.name(), spark.sparkContext
    sources = spark._jsparkSession.sessionState().dataSourceManager()
    if not sources.dataSourceExists(name):
        source = getattr(context._jvm, _IN_JAVA)(_wrap_function(context, DeephavenSource))
        sources.registerDataSource(name, source)
