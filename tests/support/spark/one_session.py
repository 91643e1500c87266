"""One Spark session for all commands that a test calls in its own process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession


@contextmanager
def one_session() -> Iterator[None]:
    """Commands of the body find the session that an earlier one has opened; the last one ends with the body."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(SparkSession, "stop", lambda session: None)
        yield
    session, context = SparkSession._instantiatedSession, SparkContext._active_spark_context
    if session is not None and context is not None:
        session.stop()
