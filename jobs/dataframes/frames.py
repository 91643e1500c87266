"""Registers the data source, and reads a table as a data frame in one call."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from sparkhaven.jobs.dataframes.planned_frame import planned_frame
from sparkhaven.jobs.dataframes.registration import register_source
from sparkhaven.jobs.dataframes.source import DeephavenSource
from sparkhaven.jobs.session.interpreter import settle_interpreter
from sparkhaven.jobs.session.spark_jar import place_jar, reader_setting
from sparkhaven.readers.spark.option_texts import option_text

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


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


def read_frame(
    spark: SparkSession,
    root: str | Path,
    name: str,
    *,
    columns: Iterable[str] | None = None,
    where: str | None = None,
    tier: str = "all",
    epoch: int | Mapping[str, int] | None = None,
    as_of: datetime | str | None = None,
    dates: str | Iterable[str] | None = None,
    sources: str | Iterable[str] | None = None,
    instant: str = "timestamp",
    char: str = "string",
    reader: str | None = None,
) -> DataFrame:
    """The table ``NS.T`` below a root as a data frame: the snapshot of now, or of ``epoch`` or ``as_of``.

    All queries on the frame see that one snapshot. Call again for a newer one. Each query reads what the arguments
    name, whatever it selects or filters. So name the ``columns`` that are needed: the others are neither read nor sent.
    ``where`` is an expression of ``sparkhaven read --where``. It skips dates and row ranges by their statistics, and
    rows where they are read. ``tier``, ``dates`` and ``sources`` are those of ``open_table(...).to_arrow``.

    ``instant``: ``timestamp`` (microseconds, refused if a value has nanoseconds), ``timestamp-truncate``, or ``long``
    (bigint of nanoseconds since the epoch). ``char``: ``string`` or ``int``. ``reader``:
    ``auto``, ``jvm`` or ``python``, see ``register``. Errors come as Spark's, with ours in their text, when the frame
    is made or read.
    """
    given = {
        "columns": columns,
        "where": where,
        "epoch": dict(epoch) if isinstance(epoch, Mapping) else epoch,
        "asOf": as_of.isoformat() if isinstance(as_of, datetime) else as_of,
        "dates": dates,
        "sources": sources,
    }
    reader = reader or reader_setting(spark)
    settle_interpreter(spark)
    reason = place_jar(spark, reader)
    values = {"root": str(root), **given, "tier": tier, "instant": instant, "char": char, "reader": reader}
    options = {option: option_text(value) for option, value in values.items() if value is not None}
    planned = planned_frame(spark, {**options, "path": name}, reason)
    if planned is not None:
        return planned
    register_source(spark)
    return spark.read.format(DeephavenSource.name()).options(**options).load(name)
