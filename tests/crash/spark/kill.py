"""A real Spark streaming job killed at random moments: ``python -m tests.crash.spark.kill [--kills N] [--seed N]``.

Each round adds feed files, starts the job as a process of its own, and kills it with its JVM (SIGKILL to the process
group; Spark's workers are in another one and die when they notice) at a random moment. Before every third start, by
default, Spark's checkpoint is deleted or emptied. A round that ends before its kill is reported and does not count. At
the end the job runs through, and the rows must be exactly those of the files.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from sparkhaven.store.epochs.reading.stream_state import list_streams, load_stream
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout
from sparkhaven.store.places import StreamPlace, TablePlace
from tests.support.places import REPOSITORY
from tests.support.processes import ended
from tests.support.streams.stream_kit import STREAM, TABLE, file_sizes_are_exact, numbers, place_in, put_file, record

FILES_A_ROUND = 6
ROWS_A_FILE = 40
READY_SECONDS = 300


@dataclass(slots=True)
class Campaign:
    """Counters of a run. ``during`` says how many kills hit a job that had begun to commit."""

    kills: int = 0
    during: int = 0
    ended_before: int = 0
    checkpoints_deleted: int = 0
    checkpoints_emptied: int = 0
    files: int = 0


def run_campaign(base: Path, kills: int, seed: int, *, damage_every: int = 3) -> Campaign:
    """Kills the job ``kills`` times, checks after each kill, and at the end that every row is there once.

    The checkpoint is damaged before every ``damage_every``-th start.
    """
    chance = random.Random(seed)
    feed, root = base / "feed", base / "db"
    root.mkdir()
    found = Campaign()
    while found.kills < kills:
        add_files(feed, found)
        _damage_if_due(root, found, damage_every)
        _round(feed, root, chance, found)
        rows = committed(root)
        assert len(rows) == len(set(rows)), "rows doubled"
        print(f"kill {found.kills}: {len(rows)} rows committed", flush=True)
        assert set(rows) <= set(range(found.files * ROWS_A_FILE)), "rows that no file has"
    _damage_if_due(root, found, damage_every)
    with ended(start(feed, root)) as job:
        output, _ = job.communicate(timeout=READY_SECONDS * 2)
        assert job.returncode == 0, output
    rows = committed(root)
    assert rows == [*range(found.files * ROWS_A_FILE)], f"{len(rows)} rows of {found.files * ROWS_A_FILE}"
    assert file_sizes_are_exact(root, load_stream(place_in(root, Fs())))
    return found


def add_files(feed: Path, found: Campaign) -> None:
    """The files of one round more."""
    for number in range(found.files, found.files + FILES_A_ROUND):
        first = number * ROWS_A_FILE
        rows = [record(n, "abc"[n % 3], f"2026-11-{20 + n % 2}") for n in range(first, first + ROWS_A_FILE)]
        put_file(feed, f"{number:05}.json", rows, number + 1)
    found.files += FILES_A_ROUND


def _damage_if_due(root: Path, found: Campaign, every: int) -> None:
    checkpoint = Layout(root).spark_checkpoint(TABLE, STREAM)
    if found.kills % every != every - 1 or not checkpoint.exists():
        return
    if found.checkpoints_deleted <= found.checkpoints_emptied:
        shutil.rmtree(checkpoint)
        found.checkpoints_deleted += 1
    else:
        for path in (path for path in checkpoint.rglob("*") if path.is_file()):
            path.write_bytes(b"")
        found.checkpoints_emptied += 1


def start(feed: Path, root: Path) -> subprocess.Popen[str]:
    """The job, one file a batch, as the leader of a session; it says what ``tests.support.spark.stream_job`` says."""
    repository = REPOSITORY
    return subprocess.Popen(
        [sys.executable, "-m", "tests.support.spark.stream_job", str(feed), str(root), "1"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        cwd=repository,
        env={**os.environ, "PYTHONPATH": str(repository)},
    )


def _round(feed: Path, root: Path, chance: random.Random, found: Campaign) -> None:
    """Starts the job and kills it somewhere between the session's start and its last batch."""
    before = epoch_of(root)
    with ended(start(feed, root)) as job:
        assert job.stdout is not None
        # a few kills while the query starts, most around the batches
        waits_for = ["session"] if chance.random() < 0.25 else ["session", *["epoch"] * chance.randint(1, 4)]
        for line in job.stdout:
            if line.startswith(waits_for[0]):
                waits_for.pop(0)
            if not waits_for:
                break
        time.sleep(chance.uniform(0.0, 0.6))
    code = job.returncode
    if code == -signal.SIGKILL:
        found.kills += 1
        found.during += epoch_of(root) > before
    else:
        assert code == 0, f"the job ended by itself with exit code {code}"
        found.ended_before += 1


def epoch_of(root: Path) -> int:
    """The newest committed epoch; 0 before the first."""
    fs, layout = Fs(), Layout(root)
    return (
        load_stream(StreamPlace(fs, layout, TABLE, STREAM)).epoch
        if STREAM in list_streams(TablePlace(fs, layout, TABLE))
        else 0
    )


def committed(root: Path) -> list[int]:
    """The numbers of all committed rows, sorted."""
    fs, layout = Fs(), Layout(root)
    if STREAM not in list_streams(TablePlace(fs, layout, TABLE)):
        return []
    return numbers(root, load_stream(StreamPlace(fs, layout, TABLE, STREAM)))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Kills a streaming job at random moments and compares rows.")
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        print(run_campaign(Path(directory), options.kills, options.seed))
