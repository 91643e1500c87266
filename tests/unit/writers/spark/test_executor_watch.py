"""When jobs count as waiting for an executor, and what becomes of them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sparkhaven.store.errors import EXIT_RETRY, CommitError, carried_error
from sparkhaven.writers.spark.workers import WAIT_S, ExecutorWatch, JobLoad

WAITING = JobLoad((7,), 0, 3)


class Spark:
    """What a session has to do at the moment, and the jobs that were cancelled."""

    def __init__(self) -> None:
        self.load, self.now = JobLoad(()), 100.0
        self.cancelled: dict[int, str] = {}
        self.watch = ExecutorWatch(lambda: self.load, self.cancelled.__setitem__, lambda: self.now)

    def looks(self, load: JobLoad, seconds: float, *, stopping: bool = False) -> Iterator[str]:
        """The remarks of so many seconds with that load."""
        self.load = load
        for _ in range(int(seconds)):
            self.now += 1.0
            if remark := self.watch.look(stopping=stopping):
                yield remark


@pytest.fixture
def spark() -> Spark:
    return Spark()


def test_a_batch_that_waits_is_told_once_and_goes_on_waiting(spark: Spark) -> None:
    (remark,) = spark.looks(WAITING, 10 * WAIT_S)
    assert remark == "no executor has run a task for 20 s. The batch waits for one" and not spark.cancelled
    assert not [*spark.looks(JobLoad((7,), 1, 3), 5)]
    assert len([*spark.looks(WAITING, 2 * WAIT_S)]) == 1, "it waits anew"


def test_a_batch_that_waits_ends_once_its_stream_is_to_stop(spark: Spark) -> None:
    assert not [*spark.looks(JobLoad((7, 8), 0, 3), WAIT_S, stopping=True)] and not spark.cancelled
    assert not [*spark.looks(JobLoad((7, 8), 0, 3), 1, stopping=True)]
    assert set(spark.cancelled) == {7, 8}
    error = carried_error(f"[SPARK_JOB_CANCELLED] Job 7 cancelled {spark.cancelled[7]} SQLSTATE: XXKDA")
    assert isinstance(error, CommitError) and error.exit_code == EXIT_RETRY and error.found == "none for 20 s"


@pytest.mark.parametrize("progress", [JobLoad((7,), 1, 3), JobLoad((7,), 0, 4), JobLoad((8,), 0, 3), JobLoad(())])
def test_any_progress_lets_the_batch_go_on(spark: Spark, progress: JobLoad) -> None:
    """A running task, one that has ended, another job, nothing to do."""
    for _ in range(5):
        assert not [*spark.looks(WAITING, WAIT_S, stopping=True)]
        assert not [*spark.looks(progress, 1, stopping=True)]
    assert not spark.cancelled
