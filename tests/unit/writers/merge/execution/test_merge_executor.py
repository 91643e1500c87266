"""Workers on this machine: where tasks run; what Spark says of workers."""

from __future__ import annotations

import os
from pathlib import Path
from threading import Barrier, current_thread
from types import SimpleNamespace
from typing import Any

import pytest

from sparkhaven.store.errors import CommitError, MergeError, SettingsError
from sparkhaven.writers.merge.executor import LocalExecutor
from sparkhaven.writers.spark.workers import SparkExecutor
from tests.contracts.executors import half


def test_one_worker_is_this_process() -> None:
    with LocalExecutor() as executor:
        assert set(executor.run(lambda _: current_thread(), range(3))) == {current_thread()}


def test_several_workers_are_threads_of_this_process_and_one_task_needs_none() -> None:
    both = Barrier(2, timeout=60)

    def meet(_: int) -> tuple[int, str]:
        both.wait()
        return os.getpid(), current_thread().name

    with LocalExecutor(2) as executor:
        found = list(executor.run(meet, [1, 2]))
        assert {process for process, _ in found} == {os.getpid()} and len({name for _, name in found}) == 2
        assert list(executor.run(lambda _: current_thread(), [1])) == [current_thread()]


class Rdd:
    """Of a cluster that answers the question about its workers, and then fails as its test says."""

    def __init__(self, answers: list[Any], error: Exception) -> None:
        self.answers, self.error = answers, error

    def mapPartitions(self, work: object) -> Any:
        return SimpleNamespace(collect=lambda: self.answers)

    def map(self, work: object) -> Any:
        def collect() -> None:
            raise self.error

        return SimpleNamespace(collect=collect)


def spark_executor(root: Path, answer: tuple[Any, ...], error: Exception | None = None) -> SparkExecutor:
    rdd = Rdd([answer], error or AssertionError("a task ran"))
    known = SimpleNamespace(size=lambda: 2)  # the driver and one executor
    context = SimpleNamespace(
        master="spark://one:7077",
        pythonExec="python3",
        defaultParallelism=2,
        getConf=dict,
        parallelize=lambda *_: rdd,
        _jsc=SimpleNamespace(sc=lambda: SimpleNamespace(getExecutorMemoryStatus=lambda: known)),
    )
    (root / "marker").touch()
    return SparkExecutor(context, root, root / "marker")


GOOD_ANSWER = "two", "/opt/python3", "3.11.2", (), True


@pytest.mark.parametrize(
    ("answer", "kind", "words"),
    [
        (("two", "/opt/python3", "3.11.2", ("numpy",), True), SettingsError, "/opt/python3 on two"),
        (("two", "/opt/python3", "3.11.2", (), False), CommitError, "does not see the database root"),
    ],
)
def test_workers_that_cannot_merge_are_reported_before_a_task_runs(
    tmp_path: Path, answer: tuple[Any, ...], kind: type[Exception], words: str
) -> None:
    with pytest.raises(kind, match=words):
        list(spark_executor(tmp_path, answer).run(half, [2, 4]))
    assert list(spark_executor(tmp_path, answer).run(half, [])) == []


def test_what_spark_says_of_a_failed_task_is_reported_in_one_line(tmp_path: Path) -> None:
    from py4j.protocol import Py4JError

    class Answered(Py4JError):  # type: ignore[misc]
        """An error that the JVM has reported."""

    lost = "Lost task 0.3 in stage 0.0 (TID 7) (10.0.0.7 executor 1): org.apache.spark.api.python.PythonException: "
    trace = 'Traceback (most recent call last):\n  File "worker.py", line 1, in main\n'
    missing = Answered(f"An error occurred.\n{lost}{trace}ModuleNotFoundError: No module named 'xxhash'\n")
    with pytest.raises(SettingsError, match=r"10\.0\.0\.7") as reported:
        list(spark_executor(tmp_path, GOOD_ANSWER, missing).run(half, [2]))
    assert reported.value.found == "ModuleNotFoundError: No module named 'xxhash'"
    other = Answered(f"An error occurred.\n{lost}{trace}ZeroDivisionError: division by zero\n")
    with pytest.raises(MergeError, match="ZeroDivisionError") as failed:
        list(spark_executor(tmp_path, GOOD_ANSWER, other).run(half, [2]))
    assert (failed.value.where, failed.value.found) == ("10.0.0.7", "ZeroDivisionError: division by zero")
    with pytest.raises(CommitError, match="JVM has ended"):
        list(spark_executor(tmp_path, GOOD_ANSWER, ConnectionRefusedError("refused")).run(half, [2]))
