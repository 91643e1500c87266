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
        with LocalExecutor(2) as executor:
            yield executor
