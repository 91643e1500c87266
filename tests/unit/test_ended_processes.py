"""A test that fails or is interrupted leaves no process behind."""

from __future__ import annotations

import subprocess
import sys
from contextlib import suppress

import pytest

from tests.support.processes import ended, ends, runs

PARENT = "import subprocess, time; print(subprocess.Popen(['sleep', '600']).pid, flush=True); time.sleep({})"


@pytest.mark.parametrize("seconds", [600, 0])  # a leader that runs, and one that has ended before its child
def test_a_group_ends_with_its_block(seconds: int) -> None:
    leader = subprocess.Popen(
        [sys.executable, "-c", PARENT.format(seconds)], stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    with suppress(ZeroDivisionError), ended(leader):
        assert leader.stdout is not None
        child = int(leader.stdout.readline())
        if not seconds:
            leader.wait(60)
        assert runs(child)
        raise ZeroDivisionError
    assert ends(child) and leader.poll() is not None
