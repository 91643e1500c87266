"""The contract of an ``Executor`` of merges: order of results, own errors of tasks, and nothing that goes on behind."""

from __future__ import annotations

import errno
import pickle
import time
from abc import ABC, abstractmethod
from functools import partial
from pathlib import Path

import pytest

from sparkhaven.store.errors import CorruptFileError, MergeError
from sparkhaven.writers.merge.executor import Executor


def half(number: int) -> int:
    """Half of an even number."""
    if number % 2:
        raise MergeError("odd", found=number, phase="stage")
    return number // 2


def slow_first(number: int) -> int:
    """Ends the later, the smaller the number."""
    time.sleep(0.05 if number == 0 else 0.0)
    return number


def full(number: int) -> int:
    """What a disk says that has no room."""
    raise OSError(errno.ENOSPC, "No space left on device", f"/db/{number}.dat")


def damaged(number: int) -> int:
    """What a reader says of a file."""
    raise CorruptFileError("cut", where=f"/db/{number}.dat", expected="8 bytes", found="7 bytes", hint="restore it")


def noted(directory: Path, number: int) -> int:
    """Leaves a file when it ends; the first task fails, the last one is the slowest."""
    if number == 0:
        raise MergeError("first")
    time.sleep(0.1)
    (directory / str(number)).touch()
    return number


class ExecutorContract(ABC):
    """Clauses for every executor."""

    @pytest.fixture
    @abstractmethod
    def executor(self) -> object:
        """The executor under test; all clauses may use the same, one after the other."""

    def test_it_says_how_many_tasks_run_at_once(self, executor: Executor) -> None:
        assert executor.workers >= 1 and executor.workers == executor.workers
        assert executor.threads in (True, False)

    def test_results_come_in_the_order_of_the_tasks(self, executor: Executor) -> None:
        assert list(executor.run(slow_first, range(7))) == [*range(7)]
        assert list(executor.run(half, range(0, 80, 2))) == [*range(40)]

    def test_no_task_and_one_task(self, executor: Executor) -> None:
        assert list(executor.run(half, [])) == []
        assert list(executor.run(half, [8])) == [4]

    def test_an_error_is_raised_in_the_place_of_its_result(self, executor: Executor) -> None:
        results = executor.run(half, [2, 4, 5, 7])
        assert [next(results), next(results)] == [1, 2]
        with pytest.raises(MergeError, match="odd") as caught:
            next(results)
        assert (caught.value.found, getattr(caught.value, "phase", None)) == ("5", "stage")
        assert pickle.loads(pickle.dumps(caught.value)).found == "5"
        assert list(executor.run(half, [2, 4])) == [1, 2]  # nothing of it is left

    def test_errors_keep_their_parts(self, executor: Executor) -> None:
        with pytest.raises(OSError, match="No space left") as refused:
            list(executor.run(full, [1, 2]))
        assert (refused.value.errno, refused.value.filename) == (errno.ENOSPC, "/db/1.dat")
        with pytest.raises(CorruptFileError) as caught:
            list(executor.run(damaged, [1, 2]))
        error = caught.value
        assert (error.where, error.expected, error.found, error.hint) == (
            "/db/1.dat",
            "8 bytes",
            "7 bytes",
            "restore it",
        )

    def test_no_task_ends_behind_an_error_or_a_caller_who_stopped(self, executor: Executor, tmp_path: Path) -> None:
        with pytest.raises(MergeError, match="first"):
            list(executor.run(partial(noted, tmp_path), range(8)))
        self.is_quiet(tmp_path)
        results = executor.run(partial(noted, tmp_path), range(1, 9))
        assert next(results) == 1
        results.close()  # type: ignore[attr-defined]
        self.is_quiet(tmp_path)
        assert list(executor.run(half, [2, 4])) == [1, 2]

    def is_quiet(self, directory: Path) -> None:
        """Nothing appears in a directory any more."""
        names = {path.name for path in directory.iterdir()}
        time.sleep(0.25)
        assert {path.name for path in directory.iterdir()} == names
