"""One Spark session for all tests of a process that can use the same: a start costs as much as ten small queries."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from pyspark.sql import SparkSession

from sparkhaven.jobs.session.spark_session import end_session, is_alive
from tests.support.spark.stream_job import session

_MADE: list[SparkSession] = []


def shared_session() -> SparkSession:
    """The session that the test files of a process share; made for the first one, and anew if it has ended."""
    if not _MADE or not is_alive(_MADE[0]):
        _MADE[:] = [session()]
    return _MADE[0]


def end_shared_session() -> None:
    """Ends it: for tests that need a session of other settings, and when no more tests need any."""
    while _MADE:
        end_session(_MADE.pop())


@contextmanager
def one_session() -> Iterator[SparkSession]:
    """Commands of the body, called in this process, find the shared session and leave it running."""
    shared = shared_session()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(SparkSession, "stop", lambda session: None)
        yield shared
