"""Spark as the executor of commands that write history."""

from __future__ import annotations

from contextlib import ExitStack

from sparkhaven.store.places import TablePlace
from sparkhaven.writers.merge.executor import Executor


def spark_executor(opened: ExitStack, place: TablePlace, name: str, workers: int | None, *, verbose: bool) -> Executor:
    """An executor over a Spark session called ``name``, which ends with ``opened``."""
    from sparkhaven.jobs.session.spark_session import build_session, end_session
    from sparkhaven.writers.spark.merge_executor import SparkExecutor

    session = build_session(name, workers=workers, verbose=verbose)
    opened.callback(end_session, session)
    return SparkExecutor(session.sparkContext, place.layout.root, place.layout.schema(place.table), workers)
