"""A night beside a live reader: merges through the page cache and past it (`merge --direct-io`), on ext4 and xfs.

    python -m benchmarks.page_cache               as root: two file systems in files below --dir, 14 GB of disk
    python -m benchmarks.page_cache --rows 500000 --scarce 300 --rounds 1

A reader has a date of history open and sums a random column of it every 20 ms, while another date is merged by one
worker. Both are in a control group of the kernel that counts pages of files too. It has ``--scarce`` MiB, less than the
night reads and writes, and then ``--ample``. The machine's other memory is left alone. Each way starts with the
reader's date in the cache and nothing else, in turn, ``--rounds`` times; no step takes longer than ``--patience``
seconds. A row says the seconds of the merge, syncs included, and the median and 99th percentile of the reader.
``alone`` has no merge.
"""

from __future__ import annotations

import argparse
import platform
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pyarrow.compute as pc

from benchmarks.figures import add_record, record
from benchmarks.night_memory import MemoryGroup, memory_group
from benchmarks.parts.merge_memory import DAY, DOUBLES, LONGS, TABLE, batch_of, schema
from benchmarks.scratch import scratch
from benchmarks.whole_commands import uncached
from sparkhaven.readers import open_table
from sparkhaven.store.io.direct_io import DirectFs
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout
from sparkhaven.store.places import TablePlace
from sparkhaven.writers.merge.date_merges import merge_dates
from sparkhaven.writers.merge.executor import LocalExecutor
from sparkhaven.writers.merge.plan.merge_plan import MergeOptions
from sparkhaven.writers.merge.sources.sort_keys import SortKey
from sparkhaven.writers.partitions import add_partition
from tests.crash.disk.images import KINDS, Image
from tests.support.places import REPOSITORY
from tests.support.tables.intraday_rows import IntradayRows

READ_DAY = "2024-03-04"
COLUMNS = [*(f"Px{number}" for number in range(DOUBLES)), *(f"Id{number}" for number in range(LONGS))]
BATCH = 1 << 18
PAUSE_S = 0.02
IMAGE_MIB = 24 << 10  # of which the disk holds what is written
PROGRAM = [sys.executable, "-m", "benchmarks.page_cache"]
WAYS: dict[str, Callable[[], Fs]] = {"cached": Fs, "direct": DirectFs}


def make(root: Path, read_rows: int, night_rows: int) -> None:
    """The reader's date in history, and the other one in intraday."""
    db = IntradayRows(root, schema())
    for day, rows in ((READ_DAY, read_rows), (DAY, night_rows)):
        for low in range(0, rows, BATCH):
            db.commit({("source", day): batch_of(min(BATCH, rows - low), low)})
    db.log.close()
    add_partition(Fs(), Layout(root), TABLE.namespace, "0")
    merge(root, READ_DAY, Fs())


def merge(root: Path, day: str, fs: Fs) -> float:
    """Merges a date again with one worker; returns the seconds."""
    begun = time.perf_counter()
    options = MergeOptions(sort=(SortKey("EventTime"),), rewrite=True)
    place = TablePlace(fs, Layout(root), TABLE)
    (result,) = merge_dates(place, [day], options, executor=LocalExecutor(), clock=time.time)
    if result.error is not None:
        raise result.error
    return time.perf_counter() - begun


def idle(group: MemoryGroup, patience: float) -> float:
    """Five seconds without a merge."""
    del group, patience
    time.sleep(5)
    return 5.0


def merge_apart(root: Path, way: str, group: MemoryGroup, patience: float) -> float:
    """Merges the night in a process of the group; returns its seconds."""
    done = subprocess.run(
        [*PROGRAM, "--merge", way, "--root", str(root)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=REPOSITORY,
        preexec_fn=group.enter,  # no other thread is there
        timeout=patience,
        check=True,
    )
    return float(done.stdout)


def read(root: Path, until: Path) -> None:
    """Sums columns until a file is there; prints the milliseconds of each sum."""
    table, rng = open_table(root, str(TABLE), checksum_verify="off"), random.Random(7)  # noqa: S311

    def asked(column: str) -> None:
        pc.sum(table.to_arrow(column, dates=READ_DAY, tier="history")[column])

    for column in COLUMNS:  # warm
        asked(column)
    print("ready", flush=True)
    while not until.exists():
        begun = time.perf_counter()
        asked(rng.choice(COLUMNS))
        print(f"{(time.perf_counter() - begun) * 1e3:.3f}")
        time.sleep(PAUSE_S)


def beside(
    root: Path, work: Callable[[MemoryGroup, float], float], group: MemoryGroup, patience: float
) -> tuple[float, list[float]]:
    """What ``work`` returns, and the reader's milliseconds meanwhile."""
    uncached()
    until = root.parent / "until"
    reader = subprocess.Popen(
        [*PROGRAM, "--read", "--root", str(root)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=REPOSITORY,
        preexec_fn=group.enter,
    )
    assert reader.stdout is not None  # noqa: S101  it is a pipe
    try:
        reader.stdout.readline()
        seconds = work(group, patience)
        until.touch()
        printed, _ = reader.communicate(timeout=patience)
    finally:
        reader.kill()
        reader.wait()
        until.unlink(missing_ok=True)
    return seconds, [float(line) for line in printed.split()]


def compared(root: Path, megabytes: int, rounds: int, patience: float) -> dict[str, tuple[float, float, float, int]]:
    """By way: seconds of the merge, median and 99th percentile of the reader in milliseconds, and its sums."""
    with memory_group(megabytes << 20) as group:
        results = {"alone": [beside(root, idle, group, patience)]}
        for _ in range(rounds):
            for way in WAYS:
                results.setdefault(way, []).append(beside(root, partial(merge_apart, root, way), group, patience))
    table = {}
    for way, runs in results.items():
        times = sorted(ms for _, run_times in runs for ms in run_times)
        p99 = times[min(len(times) - 1, len(times) * 99 // 100)]
        table[way] = statistics.median(seconds for seconds, _ in runs), statistics.median(times), p99, len(times)
    return table


def main() -> int:
    """Prints a table."""
    parser = argparse.ArgumentParser(description="merges beside a live reader, through the page cache and past it")
    parser.add_argument("--rows", type=int, default=8_000_000, help="of the night; the reader's date has half")
    parser.add_argument("--scarce", type=int, default=450, help="MiB of memory that reader and merge have")
    parser.add_argument("--ample", type=int, default=12_000, help="MiB that they have in the second run")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--dir", type=Path, default=None)
    parser.add_argument("--patience", type=float, default=300, help="seconds that a step may take")
    parser.add_argument("--read", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--merge", choices=WAYS, default=None, help=argparse.SUPPRESS)
    parser.add_argument("--root", type=Path, default=None, help=argparse.SUPPRESS)
    add_record(parser)
    arguments = parser.parse_args()
    if arguments.read:
        read(arguments.root, arguments.root.parent / "until")
        return 0
    if arguments.merge is not None:
        print(merge(arguments.root, DAY, WAYS[arguments.merge]()))
        return 0
    machine = f"Linux {platform.release()}, Python {platform.python_version()}"
    print(f"{arguments.rows:,} rows; {machine}")
    print(f"{'':21}{'merge s':>9}{'reader p50 ms':>15}{'p99 ms':>9}{'sums':>7}")
    measured: dict[str, float] = {}
    for kind in KINDS:
        with scratch("page-cache", arguments.dir) as directory, Image(directory, kind, IMAGE_MIB) as image:
            root = image.mount / "db"
            make(root, arguments.rows // 2, arguments.rows)
            for memory, megabytes in (("scarce", arguments.scarce), ("ample", arguments.ample)):
                for way, row in compared(root, megabytes, arguments.rounds, arguments.patience).items():
                    seconds, median, p99, sums = row
                    print(f"{kind:5} {memory:7} {way:7}{seconds:9.1f}{median:15.1f}{p99:9.1f}{sums:7}", flush=True)
                    if way in WAYS:
                        name = f"page_cache.{kind}.{memory}.{way}"
                        measured |= {f"{name}.merge": seconds, f"{name}.p99": p99}
    record(parser, arguments, measured)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
