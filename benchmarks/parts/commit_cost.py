"""What a commit costs at epoch 20,000 with 2,000 locations open, against epoch 100 with one.

    python -m benchmarks.parts.commit_cost [--epochs 20000] [--locations 2000] [--root DIR]

Each batch appends to one location and is committed, synced and published as a stream does it, compaction included. The
table shows medians over a window of epochs; the ratio, always to the first line, is the figure to look at. Exit 1
beyond 1.2.
"""

from __future__ import annotations

import argparse
import os
import socket
import statistics
import sys
import time
from pathlib import Path

from benchmarks.figures import add_record, record
from benchmarks.scratch import scratch
from sparkhaven.store.epochs.generation import Opening
from sparkhaven.store.epochs.log import StreamLog
from sparkhaven.store.epochs.state.commit_policy import CommitPolicy, Durability, Retention
from sparkhaven.store.epochs.state.log_values import Batch, FileId, LocationReport
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout, LocationKey, TableName
from sparkhaven.store.places import StreamPlace
from sparkhaven.store.types.committed_columns import FileState, RangeStats

TABLE = TableName("Bench", "Commits")
COLUMNS = [f"column{number}" for number in range(20)]
LIMIT = 1.2
WINDOW = 200


def open_log(
    root: Path, durability: Durability = "fsync", keep: int = 100, least: int = 1 << 20, fs: Fs | None = None
) -> StreamLog:
    """A stream that keeps some epochs."""
    return StreamLog.open(
        StreamPlace(fs or Fs(), Layout(root), TABLE, "bench"),
        Opening(
            schema=None,
            query_id="bench",
            clock=time.time,
            pid=os.getpid(),
            host=socket.gethostname(),
            retention=Retention(CommitPolicy(durability), keep_epochs=keep, compact_bytes=least, head_bytes=least),
        ),
    )


def report(log: StreamLog, key: LocationKey, rows: int = 1000) -> LocationReport:
    """As many rows again for one location; the log does not look into the files."""
    base = log.state.locations.get(key)
    start = base.rows if base else 0
    stop = start + rows
    files = {f"{name}.dat": FileState(8 * stop, stop) for name in COLUMNS}
    stats = {name: RangeStats(start, stop, 0, 0, start, stop) for name in COLUMNS}
    return LocationReport(key, base.epoch if base else 0, start, stop, files, stats)


def batch(log: StreamLog, keys: list[LocationKey], number: int) -> Batch:
    """One file, rows for each of the locations."""
    reports = tuple(report(log, key) for key in keys)
    taken = (FileId(f"/feed/{number:08}.json", 1, time.time_ns()),)
    return Batch("bench", number, taken, reports, 1, 1000 * len(reports))


def prepare(root: Path, keys: list[LocationKey]) -> None:
    """Directories, so that records can be published."""
    for key in keys:
        Fs().mkdirs(Layout(root).intraday_location(TABLE, key))


def run(root: Path, epochs: int, others: int) -> dict[int, tuple[float, float]]:
    """Median milliseconds of commit and publish around epochs 100, ... with ``others`` locations beside."""
    key = LocationKey("a", "2026-11-20")
    keys = [LocationKey("other", f"{number:06}") for number in range(others)]
    marks = [mark for mark in (100, 1000, 10_000, 20_000, 100_000) if mark <= epochs]
    commits: dict[int, list[float]] = {mark: [] for mark in marks}
    publishes: dict[int, list[float]] = {mark: [] for mark in marks}
    with open_log(root) as log:
        prepare(root, [key, *keys])
        if keys:
            log.commit(batch(log, keys, 0))
            log.publish()
        for number in range(1, epochs + WINDOW // 2 + 1):
            todo = batch(log, [key], number)
            started = time.perf_counter()
            log.commit(todo)
            committed = time.perf_counter()
            log.publish()
            done = time.perf_counter()
            log.compact_if_due()
            for mark in marks:
                if abs(number - mark) <= min(WINDOW // 2, mark - 1):
                    commits[mark].append(committed - started)
                    publishes[mark].append(done - committed)
    return {mark: (1e3 * statistics.median(commits[mark]), 1e3 * statistics.median(publishes[mark])) for mark in marks}


def publish_many(root: Path, count: int) -> tuple[float, float]:
    """Seconds to commit and to publish one batch that touches many locations."""
    keys = [LocationKey("many", f"{number:06}") for number in range(count)]
    with open_log(root) as log:
        prepare(root, keys)
        todo = batch(log, keys, 0)
        started = time.perf_counter()
        log.commit(todo)
        committed = time.perf_counter()
        log.publish()
        return committed - started, time.perf_counter() - committed


def main() -> int:
    """Prints the table; 1 if a commit became dearer with its epoch."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=20_000)
    parser.add_argument("--locations", type=int, default=2000, help="beside the one that is written")
    parser.add_argument("--root", type=Path, default=None)
    add_record(parser)
    args = parser.parse_args()
    first = last = worst = 0.0
    with scratch("commit-cost", args.root) as top:
        print(f"{'locations':>10} {'epoch':>8} {'commit ms':>10} {'publish ms':>11} {'ratio to the first':>19}")
        for others in (0, args.locations):
            root = top / str(others)
            root.mkdir()
            medians = run(root, args.epochs, others)
            first = first or sum(medians[100])
            for epoch, (commit, publish) in medians.items():
                last = commit + publish
                ratio = last / first
                worst = max(worst, ratio)
                print(f"{others + 1:>10} {epoch:>8} {commit:>10.3f} {publish:>11.3f} {ratio:>19.2f}")
        root = top / "many"
        root.mkdir()
        commit_s, publish_s = publish_many(root, args.locations)
        print(f"one batch over {args.locations} locations: commit {commit_s:.3f} s, publish {publish_s:.3f} s")
    print(f"worst ratio {worst:.2f}, limit {LIMIT}")
    record(parser, args, {"commit.cost": last, "commit.growth": last / first})
    return int(worst > LIMIT)


if __name__ == "__main__":
    sys.exit(main())
