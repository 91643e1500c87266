"""DuckDB as evaluator in a forked process, whose parent had used it: answered, not waited for."""

from __future__ import annotations

import signal
from pathlib import Path

from sparkhaven.store.expressions.duckdb_engine import engine
from tests.crash.kills.kill_steps import in_child

SECONDS = 60


def _threads() -> int:
    return len([*Path("/proc/self/task").iterdir()])


def test_a_forked_process_closes_the_engine_of_its_parent_and_opens_its_own() -> None:
    threads = _threads()
    inherited = engine()

    def work() -> None:
        signal.alarm(SECONDS)  # a wait for a thread that was not forked ends with this signal
        assert engine() is not inherited
        assert engine().execute("select 7 % 4").fetchall() == [(3,)]

    assert in_child(work) == 0
    assert _threads() <= threads
