"""What a process has started ends with it, whatever ends it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from tests.support.places import REPOSITORY
from tests.support.processes import ends, runs
from tests.support.servers.watchdog import Watchdog

OWNER = """
import subprocess, time
from tests.support.servers.watchdog import Watchdog
watched = subprocess.Popen(["sleep", "600"], start_new_session=True)
watchdog = Watchdog(watched.pid)
print(watched.pid, flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_the_watched_ends_with_its_owner(number: signal.Signals) -> None:
    env = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    with subprocess.Popen([sys.executable, "-c", OWNER], stdout=subprocess.PIPE, env=env, process_group=0) as owner:
        assert owner.stdout is not None
        watched = int(owner.stdout.readline())
        assert runs(watched)
        os.killpg(owner.pid, number)
    assert ends(watched)


def test_the_watch_ends_with_the_watched() -> None:
    with subprocess.Popen(["sleep", "600"]) as watched:
        watchdog = Watchdog(watched.pid)
        watched.terminate()
        watched.wait()
        assert watchdog.wait(60) == 0, "the watch ends by itself"
        watchdog.close()
        watchdog.close()
