"""Workers on this machine: results in order, errors as they were raised, and an end with whoever started them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from store.errors import MergeError
from writers.merge.executor import LocalExecutor


def whose(_: int) -> int:
    return os.getpid()


def half(number: int) -> int:
    if number % 2:
        raise MergeError("odd", found=number, phase="stage")
    return number // 2


def die(_: int) -> int:
    os.kill(os.getpid(), signal.SIGKILL)
    return 0


@pytest.mark.slow
def test_processes_give_results_in_order_and_errors_as_raised() -> None:
    with LocalExecutor(2) as executor:
        assert list(executor.run(half, range(0, 40, 2))) == list(range(20))
        assert os.getpid() not in set(executor.run(whose, range(4)))
        with pytest.raises(MergeError) as caught:
            list(executor.run(half, [2, 3, 4]))
        assert (caught.value.found, getattr(caught.value, "phase", None)) == ("3", "stage")
        with pytest.raises(MergeError, match="a worker of the merge died"):
            list(executor.run(die, [1]))
        assert list(executor.run(half, [8])) == [4]  # with new workers


def test_one_worker_is_this_process() -> None:
    with LocalExecutor() as executor:
        assert set(executor.run(whose, range(3))) == {os.getpid()}


ORPHANS = """
import os, signal, time
from tests.unit.test_merge_executor import whose
from writers.merge.executor import LocalExecutor

if __name__ == "__main__":
    executor = LocalExecutor(2)
    print(*set(executor.run(whose, range(8))), flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def running(process: int) -> bool:
    status = Path(f"/proc/{process}/stat")
    return status.exists() and status.read_text(encoding="ascii").rpartition(")")[2].split()[0] != "Z"


@pytest.mark.slow
def test_workers_end_with_a_merge_that_was_killed(tmp_path: Path) -> None:
    script = tmp_path / "orphans.py"
    script.write_text(ORPHANS, encoding="utf-8")
    root = Path(__file__).parents[2]
    environment = {**os.environ, "PYTHONPATH": str(root)}
    command = [sys.executable, str(script)]
    with (tmp_path / "out").open("w", encoding="utf-8") as out:  # a pipe would wait for the workers
        done = subprocess.run(command, cwd=root, env=environment, stdout=out, check=False)
    assert done.returncode == -signal.SIGKILL
    workers = [int(word) for word in (tmp_path / "out").read_text(encoding="utf-8").split()]
    assert workers
    deadline = time.monotonic() + 10
    while any(running(worker) for worker in workers) and time.monotonic() < deadline:
        time.sleep(0.02)
    left = [worker for worker in workers if running(worker)]
    for worker in left:
        os.kill(worker, signal.SIGKILL)
    assert left == []
