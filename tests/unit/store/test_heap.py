"""A process that keeps its heap asks the system for the memory of a block once."""

from __future__ import annotations

import subprocess
import sys

SCRIPT = """\
import resource, sys
from sparkhaven.writers.batch.task import keep_heap
assert keep_heap() is True or sys.argv[1] == "lost"
def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(20):
        blocks = [bytes(2 << 20) for _ in range(8)]
        del blocks
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
faults()
print(faults())
"""


def faults(script: str) -> int:
    done = subprocess.run([sys.executable, "-c", script, "kept"], capture_output=True, text=True, check=True)
    return int(done.stdout)


def test_blocks_of_memory_are_kept() -> None:
    kept, lost = faults(SCRIPT), faults(SCRIPT.replace("assert keep_heap()", "assert True or keep_heap()"))
    assert kept * 4 < lost
