"""Workers of this machine pass the suite of executors; Spark does in ``tests/spark``."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sparkhaven.writers.merge.executor import Executor, LocalExecutor
from tests.contracts.executors import ExecutorContract

pytestmark = pytest.mark.slow


class TestThisProcess(ExecutorContract):
    @pytest.fixture
    def executor(self) -> Executor:
        return LocalExecutor()


class TestThreads(ExecutorContract):
    @pytest.fixture
    def executor(self) -> Iterator[Executor]:
        with LocalExecutor(2, processes=False) as executor:
            yield executor


@pytest.fixture(scope="module")
def processes() -> Iterator[Executor]:
    """Their start takes longer than all clauses."""
    with LocalExecutor(2, processes=True) as executor:
        yield executor


class TestProcesses(ExecutorContract):
    @pytest.fixture
    def executor(self, processes: Executor) -> Executor:
        return processes
