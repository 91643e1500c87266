"""Merges a day of 10 GB by processes that have 1 GiB together, and with ample memory; prints what that costs.

    python -m benchmarks.night_memory                              10 GB of columns, about 30 GB of disk below --dir
    python -m benchmarks.night_memory --gigabytes 1 --limit 512    a check

The day has twenty columns, a third of its rows in one group, from four sources. Both runs are the command ``merge
--local``. The limited one is in a control group of the kernel: all memory of all its processes counts, pages of files
that are read or written included, and its source files are put out of the page cache before. The other one has them
there, and as much memory as it asks for. ``disk`` is what the command has read from and written to the disk. The limit
needs root and a kernel with control groups for memory, of version 1 or 2. Exit 1: the limited one has less than 70 % of
the speed, or the kernel had to end it.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from benchmarks.parts.merge_memory import DAY, SOURCES, TABLE, batch_of, schema
from benchmarks.scratch import scratch
from sparkhaven.store.layout import Layout
from tests.support.tables.intraday_rows import IntradayRows

BATCH = 1 << 19
ROW_BYTES = 128  # of the columns of a row, about
BLOCK = 512  # bytes of a block as the kernel counts them
SPEED = 0.7
AMPLE = 16 << 10  # MiB a worker


@dataclass(frozen=True)
class Merged:
    """How a merge went: seconds, and bytes; ``peak`` is that of its group."""

    seconds: float
    disk_read: int
    disk_written: int
    peak: int | None = None


def make(root: Path, rows: int) -> int:
    """The day as committed intraday locations, of batches that differ in their times; their bytes."""
    db = IntradayRows(root, schema())
    batches = [batch_of(BATCH, source) for source in range(SOURCES)]
    kind, column = pa.timestamp("ns", "UTC"), batches[0].schema.get_field_index("EventTime")
    for number in range(max(1, rows // (SOURCES * BATCH))):
        later = {}
        for source, batch in enumerate(batches):
            times = np.sort(batch.column(column).chunk(0).cast(pa.int64()).to_numpy()) + number * 10**11
            later[f"source-{source}", DAY] = batch.set_column(column, "EventTime", pa.array(times, kind))
        db.commit(later)
    db.log.close()
    return sum(path.stat().st_size for path in root.rglob("*") if path.is_file())


class MemoryGroup:
    """A control group whose processes have ``limit`` bytes together. OSError: there can be none."""

    def __init__(self, limit: int) -> None:
        groups = [line.split(":", 2) for line in Path("/proc/self/cgroup").read_text(encoding="ascii").splitlines()]
        old = [path for _, controllers, path in groups if "memory" in controllers.split(",")]
        above = Path("/sys/fs/cgroup/memory" if old else "/sys/fs/cgroup") / (old[0] if old else groups[0][2]).strip(
            "/"
        )
        self._group = (above if old else above.parent) / f"sparkhaven-night-{os.getpid()}"
        self._files = ("memory.limit_in_bytes", "memory.max_usage_in_bytes") if old else ("memory.max", "memory.peak")
        self._group.mkdir()
        (self._group / self._files[0]).write_text(str(limit), encoding="ascii")

    def enter(self) -> None:
        """Puts this process into the group."""
        (self._group / "cgroup.procs").write_text(str(os.getpid()), encoding="ascii")

    @property
    def peak(self) -> int:
        """The most bytes that it has had."""
        return int((self._group / self._files[1]).read_text(encoding="ascii"))

    def close(self) -> None:
        """Removes the group, whose processes have ended."""
        self._group.rmdir()


@contextmanager
def memory_group(limit: int) -> Iterator[MemoryGroup]:
    """A group that is removed at the end."""
    group = MemoryGroup(limit)
    try:
        yield group
    finally:
        group.close()


def put_out(root: Path) -> None:
    """Puts the files of a tree out of the page cache."""
    os.sync()
    for path in root.rglob("*"):
        if path.is_file():
            with path.open("rb") as file:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def merged(root: Path, memory: int, workers: int, before: Callable[[], None] | None = None) -> Merged:
    """One first merge of the day, with ``memory`` MiB a worker; ``before`` is called in its process."""
    shutil.rmtree(Layout(root).system(TABLE.namespace), ignore_errors=True)
    os.sync()
    words = [str(Path(sys.executable).with_name("sparkhaven")), "merge", str(TABLE), "--dates", DAY, "--local"]
    words += ["--sort", "EventTime", "--memory", f"{memory}M", "--workers", str(workers)]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    used, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(
        words,
        env={**environment, "SPARKHAVEN_ROOT": str(root)},
        capture_output=True,
        text=True,
        preexec_fn=before,  # no other thread is there
    )
    seconds, after = time.perf_counter() - begun, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise SystemExit(f"the merge ended with {done.returncode}: {done.stderr or done.stdout}")
    return Merged(seconds, (after.ru_inblock - used.ru_inblock) * BLOCK, (after.ru_oublock - used.ru_oublock) * BLOCK)


def main() -> int:
    """Makes the day, merges it twice, prints a table."""
    parser = argparse.ArgumentParser(description="merge of a day that is ten times its memory")
    parser.add_argument("--gigabytes", type=float, default=10)
    parser.add_argument("--limit", type=int, default=1024, help="MiB of all processes together")
    parser.add_argument("--memory", type=int, default=None, help="MiB a worker of the limited merge, default by limit")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--dir", type=Path, default=None)
    arguments = parser.parse_args()
    rows, limit = int(arguments.gigabytes * 1e9 / ROW_BYTES), arguments.limit << 20
    memory = arguments.memory or (arguments.limit * 3 // 4) // arguments.workers
    with scratch("night-memory", arguments.dir) as directory:
        root = directory / "db"
        size = make(root, rows)
        rows = rows // (SOURCES * BATCH) * SOURCES * BATCH
        print(f"{rows:,} rows, {size / 1e9:.1f} GB; {arguments.workers} workers of {memory} MiB")
        ample = merged(root, AMPLE, arguments.workers)
        put_out(root)
        with memory_group(limit) as group:
            limited = merged(root, memory, arguments.workers, group.enter)
            peak = group.peak
    for name, one in (("ample", ample), (f"{arguments.limit} MiB", limited)):
        read, written = one.disk_read / 1e9, one.disk_written / 1e9
        speed, disk = rows / one.seconds / 1e6, f"{read:.1f} GB read, {written:.1f} GB written"
        print(f"{name:>10} {one.seconds:8.1f} s {speed:6.2f} M rows/s, disk {disk}")
    share = ample.seconds / limited.seconds
    print(f"peak of the group {peak >> 20} MiB; {share:.0%} of the speed with ample memory")
    return 0 if share >= SPEED and peak <= limit else 1


if __name__ == "__main__":
    raise SystemExit(main())
