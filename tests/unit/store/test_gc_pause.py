"""The garbage collector, paused by several threads at once."""

from __future__ import annotations

import gc
import subprocess
import sys

import pytest

from sparkhaven.store.gc_pause import LongRun, gc_paused

FORKED = """
import gc, os, threading
from sparkhaven.store.gc_pause import gc_paused

inside, done = threading.Event(), threading.Event()

def other():
    with gc_paused():
        inside.set()
        done.wait()

thread = threading.Thread(target=other)
thread.start()
inside.wait()
child = os.fork()
if child == 0:
    with gc_paused():
        paused = not gc.isenabled()
    os._exit(0 if paused and gc.isenabled() else 1)
done.set()
thread.join()
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), gc.isenabled())
"""


def test_pauses_that_overlap_end_with_the_last() -> None:
    first, second = gc_paused(), gc_paused()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert not gc.isenabled()
    second.__exit__(None, None, None)
    assert gc.isenabled()


def test_a_pause_ends_with_an_error() -> None:
    with pytest.raises(ValueError), gc_paused():
        raise ValueError
    assert gc.isenabled()


def test_a_collector_that_was_off_stays_off() -> None:
    gc.disable()
    try:
        with gc_paused():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_a_forked_process_does_not_inherit_the_pauses_of_other_threads() -> None:
    found = subprocess.run([sys.executable, "-W", "ignore", "-c", FORKED], capture_output=True, text=True, check=True)
    assert found.stdout.split() == ["0", "True"]


def test_a_long_run_leaves_out_what_is_alive_once_it_has_settled() -> None:
    now = [0.0]
    before, alive = gc.get_freeze_count(), [[] for _ in range(2000)]  # type: ignore[var-annotated]
    with LongRun(5.0, lambda: now[0]) as long_run:
        long_run.look()
        assert gc.get_freeze_count() == before
        now[0] = 5.0
        long_run.look()
        settled = gc.get_freeze_count()
        assert settled >= before + len(alive)
        kept = [[] for _ in range(100_000)]  # type: ignore[var-annotated]
        now[0] = 50.0
        long_run.look()
        assert gc.get_freeze_count() <= settled, "only once"
        del kept
    assert gc.get_freeze_count() == 0


def test_a_short_run_changes_nothing() -> None:
    before = gc.get_freeze_count()
    with LongRun(5.0, lambda: 0.0) as long_run:
        long_run.look()
    assert gc.get_freeze_count() == before
