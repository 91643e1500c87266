"""Several processes save one user table at once, and are killed: no save that returned is lost, none is half there."""

from __future__ import annotations

import random
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from sparkhaven import open_table
from sparkhaven.store.errors import TableNotFoundError
from tests.support.examples import share_of
from tests.support.places import REPOSITORY

pytestmark = pytest.mark.slow
WRITERS, SAVES, ROWS, KILLS = 3, 5, 4, 2
CODE = """
import sys
import pyarrow as pa
from sparkhaven import save_table
root, first, last, by = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4] or None
print("ready", flush=True)
sys.stdin.readline()
for number in range(first, last):
    rows = pa.table({"Save": pa.array([number] * 4, pa.int64()), "Row": range(4), "Day": ["a", "b", "a", "c"]})
    save_table(root, "me.T", rows, mode="append", partition_by=by)
    print(number, flush=True)
"""


def start(root: Path, first: int, last: int, by: str | None) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", CODE, str(root), str(first), str(last), by or ""],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=REPOSITORY,
        text=True,
    )


def saved(process: subprocess.Popen[str]) -> list[int]:
    """The saves that the process said to have returned, once it has ended."""
    output, _ = process.communicate(timeout=120)
    return [int(line) for line in output.split() if line != "ready"]


@pytest.mark.parametrize("by", [None, "Day"], ids=["splayed", "partitioned"])
def test_processes_that_save_at_once_and_are_killed_lose_nothing(tmp_path: Path, by: str | None) -> None:
    chance = random.Random(7)
    returned: list[int] = []
    first = 0
    for _ in range(share_of(KILLS, 1)):
        processes = [start(tmp_path, first + n * SAVES, first + (n + 1) * SAVES, by) for n in range(WRITERS)]
        first += WRITERS * SAVES
        for process in processes:
            assert process.stdout is not None and process.stdin is not None
            assert process.stdout.readline() == "ready\n"
        for process in processes:
            assert process.stdin is not None
            process.stdin.write("\n")
            process.stdin.flush()
        victim = processes[0]
        assert victim.stdout is not None
        seen = [victim.stdout.readline() for _ in range(chance.randrange(1, SAVES // 2))]
        victim.kill()
        returned += [int(line) for line in seen if line.strip()]
        for process in processes:
            returned += saved(process)
        assert [process.returncode for process in processes[1:]] == [0] * (WRITERS - 1)
    table = open_table(tmp_path, "me.T", checksum_verify="open").to_arrow(["Save", "Row"])
    counts = Counter(zip(table["Save"].to_pylist(), table["Row"].to_pylist(), strict=True))
    assert set(counts.values()) == {1}
    there = {save for save, _ in counts}
    assert {(save, row) for save in there for row in range(ROWS)} == set(counts)
    assert set(returned) <= there
    assert len(there) <= len(returned) + KILLS  # of a save that was killed it is not known


def test_a_reader_beside_writers_sees_whole_saves(tmp_path: Path) -> None:
    """While one process appends, and another replaces all the time, every look has all rows of each save."""
    code = CODE.replace('mode="append"', 'mode="append" if number % 5 else "replace"')
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(tmp_path), str(n * 100), str(n * 100 + 40), ""],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=REPOSITORY,
            text=True,
        )
        for n in range(2)
    ]
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    looks, kept = 0, []
    while any(process.poll() is None for process in processes):
        try:
            table = open_table(tmp_path, "me.T", checksum_verify="open")
        except TableNotFoundError:
            continue
        counts = Counter(table.to_arrow("Save")["Save"].to_pylist())
        assert set(counts.values()) == {ROWS}, counts
        looks += 1
        if looks % 20 == 0:
            kept.append((table, counts))
    for table, counts in kept:
        assert Counter(table.to_arrow("Save")["Save"].to_pylist()) == counts
    for process in processes:
        assert len(saved(process)) == 40
        assert process.returncode == 0
    assert looks > 20
    assert kept
